"""A terminal of 80 columns is enough: no line of `--help` is cut, and no word of a table is broken."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperGroup

from tests.requirements import requirement
from toolcrib.cli.app import app
from toolcrib.cli.terminal import Choice, Terminal


def groups(group: TyperGroup, *names: str) -> Iterator[tuple[tuple[str, ...], TyperGroup]]:
    yield names, group
    for name, inner in group.commands.items():
        if isinstance(inner, TyperGroup):
            yield from groups(inner, *names, name)


MAIN = typer.main.get_command(app)
assert isinstance(MAIN, TyperGroup)


@pytest.mark.parametrize(("names", "group"), [pytest.param(*one, id=" ".join(one[0])) for one in groups(MAIN)])
def test_no_line_of_a_list_of_commands_is_cut(names: tuple[str, ...], group: TyperGroup) -> None:
    context = group.make_context(" ".join(("toolcrib", *names)), [], resilient_parsing=True, terminal_width=80)
    listed = group.get_help(context).partition("Commands:")[2].splitlines()
    assert len(listed) > 1
    assert [line for line in listed if line.endswith("...")] == []


@pytest.mark.parametrize(("width", "first"), [(80, "Question  Prompt"), (30, "Question  c1739394025c07-1")])
def test_a_table_that_would_break_words_is_told_line_by_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, first: str
) -> None:
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)
    Terminal(Choice(), json=False, debug=False).table(
        ("Question", "Prompt"), [("c1739394025c07-1", "Allow shop.refund?")]
    )
    lines = [" ".join(line.split()) for line in re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()]
    assert next(line for line in lines if line) == " ".join(first.split())
    assert any("shop.refund?" in line for line in lines)


@requirement("adoption.look.2")
@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "problem", "where"),
    [
        (("frobnicate",), "No such command 'frobnicate'", "toolcrib"),
        (("call",), "Missing argument 'TOOL'", "toolcrib call"),
        (("tools", "list", "--zzzz"), "No such option: --zzzz", "toolcrib tools list"),
    ],
)
def test_words_that_fit_no_command_are_an_error_like_any_other(
    words: tuple[str, ...], problem: str, where: str
) -> None:
    for more in ((), ("--json",)):
        argv = [sys.executable, "-m", "toolcrib", *more, *words]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        hint = f"`{where} --help` shows what there is"
        if more:
            error = json.loads(done.stderr)["error"]
            assert (error["code"], error["message"], error["hint"]) == ("usage", problem, hint)
        else:
            assert done.stderr == f"Error: {problem}\nNext:  {hint}\n"

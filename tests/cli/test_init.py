"""`toolcrib init` and `toolcrib` alone: what a person meets first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ready
from tests.cli.project import Screen, environment
from tests.requirements import requirement
from toolcrib.cli.init import KINDS
from toolcrib.cli.terminal import CommandError
from toolcrib.cli.variables import set_variables


def toolcrib(folder: Path, *words: str, code: int = 0) -> str:
    done = ready.run("-m", "toolcrib", *words, folder=folder, env=environment())
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@requirement("adoption.init.1")
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_project_runs_tests_and_lints_at_once(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "my tasks"
    assert "toolcrib call delete_task" in toolcrib(tmp_path, "init", str(folder), f"--{kind}", "--yes")
    assert '"write a tool"' in toolcrib(folder, "call", "list_tasks")
    assert "Question" in toolcrib(folder, "call", "delete_task", "-a", "task=2", code=3)
    assert "nothing to remark" in toolcrib(folder, "policy", "check")
    assert "2 passed" in run(folder, "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore")
    run(folder, "ruff", "check", "--no-cache", ".")
    run(folder, "ruff", "format", "--no-cache", "--check", ".")
    if kind != "minimal":
        assert "nothing is wrong" in toolcrib(folder, "agents", "lint")
        assert "try toolcrib, and write a tool" in toolcrib(folder, "run", "helper", "what is there to do?")
    assert (folder / ".env").stat().st_mode & 0o777 == 0o600
    assert 'name = "my-tasks"' in (folder / "pyproject.toml").read_text("utf-8")
    assert KINDS[kind].first in (folder / "README.md").read_text("utf-8")


@requirement("adoption.init.2")
def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine", "utf-8")
    assert "README.md stayed as it was" in toolcrib(tmp_path, "init", "--yes")
    assert (tmp_path / "README.md").read_text("utf-8") == "mine"
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused = toolcrib(tmp_path, "init", "--server", "--yes", code=1)
    assert "crib.yaml" in refused
    assert "nothing is overwritten" in refused
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@requirement("adoption.init.1")
def test_a_person_is_asked_three_questions(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with Screen(["init"], tmp_path, HOME=str(home), SHELL="/bin/bash") as screen:
        screen.expect("Where?").press("desk\n").expect("What shall it have?").press("a\n")
        screen.expect("Complete commands and names in bash?").press("n\n")
        assert screen.ended() == 0
    assert (tmp_path / "desk/agents/helper.md").is_file()
    assert "cd desk" in screen.shown
    assert list(home.rglob("*.sh")) == []


@requirement("adoption.env.1")
def test_the_variables_of_a_project_are_read(tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text(
        "import os\nfrom toolcrib import tool\n\n\n@tool(read_only=True)\nasync def show() -> list[str | None]:\n"
        '    """Show."""\n    return [os.environ.get(n) for n in ("FROM_FILE", "FROM_SHELL", "TOOLCRIB_TRUST")]\n',
        "utf-8",
    )
    (tmp_path / "crib.yaml").write_text("sources: [show.py]\n", "utf-8")
    (tmp_path / ".env").write_text("# why\nFROM_FILE='a b'\nFROM_SHELL=file\nTOOLCRIB_TRUST=0\n", "utf-8")
    env = {name: value for name, value in environment().items() if name != "TOOLCRIB_TRUST"} | {"FROM_SHELL": "shell"}
    done = ready.run("-m", "toolcrib", "call", "show", "--json", folder=tmp_path, env=env)
    assert '["a b","shell",null]' in done.stdout, done


@requirement("adoption.env.1")
def test_a_folder_that_nobody_trusts_sets_no_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.cli import load

    monkeypatch.setenv("TOOLCRIB_TRUST", "0")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "crib.yaml").write_text("sources: [tools.py]\n", "utf-8")
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=http://elsewhere\n", "utf-8")
    with pytest.raises(CommandError, match="not trusted"):
        load(tmp_path / "crib.yaml")
    assert "OPENAI_BASE_URL" not in os.environ
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    set_variables(tmp_path / "nowhere")
    assert os.environ["OPENAI_BASE_URL"] == ""


@requirement("adoption.look.1")
def test_the_command_alone_says_what_is_there_and_what_to_do_next(tmp_path: Path) -> None:
    empty = toolcrib(tmp_path)
    assert "There is no crib.yaml in this folder" in empty
    assert "toolcrib init" in empty
    toolcrib(tmp_path, "init", "--agent", "--yes")
    assert "Nothing was called yet." in toolcrib(tmp_path)
    toolcrib(tmp_path, "call", "delete_task", "-a", "task=2", code=3)
    (tmp_path / "tools.py").write_text("raise SystemExit('nothing is imported')", "utf-8")
    full = toolcrib(tmp_path)
    assert "answer what waits: 1" in full
    assert "toolcrib chat" in full
    (tmp_path / "crib.yaml").write_text("store: [\n", "utf-8")
    assert "this is no YAML" in toolcrib(tmp_path, code=2)

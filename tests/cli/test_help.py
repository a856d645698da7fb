"""What `--help` lists can be read: no line of it is cut on a terminal of 80 columns."""

from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperGroup

from toolcrib.cli.app import app


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

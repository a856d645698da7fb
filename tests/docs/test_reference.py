"""The reference says what the code says: every public name, field, default, code and command stands in it."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

import toolcrib
from tests.requirements import requirement
from tests.shared import ROOT, nonempty
from toolcrib import Crib, CribLimits, Limits, Session, testing
from toolcrib._call.request import OPTIONS
from toolcrib.cli.app import app
from toolcrib.cli.config.model import CribFile
from toolcrib.events import KINDS
from toolcrib.sources.functions import _ANNOTATIONS, _LIMITS
from toolcrib.sources.session_tools import builtins
from toolcrib.tool import Tool
from toolcrib.types import CODES, RETRYABLE, Status

PAGES = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "docs/reference").glob("*.md"))}
WHOLE = "\n".join(PAGES.values())


def rows(page: str, heading: str | None = None) -> dict[str, list[str]]:
    """The rows of the tables of a page, or of one of its sections, by each name in their first cell."""
    text = PAGES[page]
    if heading is not None:
        text = re.split(r"^## ", text.split(f"\n## {heading}\n", maxsplit=1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            for name in re.findall(r"`([^`]+)`", cells[0]):
                found.setdefault(name, cells)
    return found


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, by the words that name it."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            yield path, command
            return
        for name, inner in command.commands.items():
            yield from walk(inner, f"{path} {name}")

    return walk(typer.main.get_command(app), "toolcrib")


def command_rows() -> dict[str, list[str]]:
    """The rows of commands, by the words before the first placeholder."""
    found = {re.sub(r" [\[A-Z].*", "", name): cells for name, cells in rows("cli").items()}
    return {name: cells for name, cells in found.items() if name.startswith("toolcrib ")}


def test_every_public_name_is_mentioned() -> None:
    assert [name for name in toolcrib.__all__ if not re.search(rf"`[^`]*\b{name}\b[^`]*`", WHOLE)] == []


@requirement("project.docs.4")
@pytest.mark.parametrize("kind", [Crib, Session], ids=lambda kind: kind.__name__)
def test_every_method_has_a_row(kind: type) -> None:
    named = {name for cell in rows("sessions") for name in re.findall(r"\w+", cell)}
    methods = [name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]
    assert len(methods) > 10
    assert [name for name in methods if name not in named] == []


@requirement("project.docs.4")
def test_every_option_of_a_crib_has_one_row() -> None:
    text = PAGES["sessions"].partition("\n## Crib\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert [name for name in inspect.signature(Crib).parameters if listed.count(name) != 1] == []


@requirement("project.docs.4")
@pytest.mark.parametrize("page", PAGES)
def test_no_table_has_a_row_twice(page: str) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", PAGES[page], re.MULTILINE)
    beginnings = [re.findall(r"^\| (`[^|]+` \| [^|]+) \|", table, re.MULTILINE) for table in tables]
    assert [row for rows in beginnings for row in rows if rows.count(row) > 1] == []


def test_every_name_for_tests_is_mentioned() -> None:
    assert [name for name in testing.__all__ if not re.search(rf"`[^`]*\b{name}\b[^`]*`", PAGES["testing"])] == []


def test_every_field_of_a_tool_has_a_row() -> None:
    table = rows("tools", "Tool")
    assert [field.name for field in dataclasses.fields(Tool) if field.init and field.name not in table] == []


def test_every_default_of_a_tool_is_the_one_in_its_row() -> None:
    table = rows("tools", "Tool")
    plain = [f for f in dataclasses.fields(Tool) if f.init and isinstance(f.default, bool | str | tuple)]
    expected = {f.name: f"`{f.default!r}`".replace("'", '"') for f in plain if f.name != "description"}
    assert {name: table[name][1] for name in expected} == expected


def test_every_short_field_is_in_the_table() -> None:
    table = rows("tools", "tool")
    assert [name for name in (*_ANNOTATIONS, *_LIMITS) if name not in table] == []


@pytest.mark.parametrize("kind", [CribLimits, Limits], ids=lambda kind: kind.__name__)
def test_every_limit_has_a_row_with_its_default(kind: type) -> None:
    table = rows("sessions", "CribLimits") if kind is CribLimits else rows("tools", "Limits")
    expected = {
        field.name: f"`{field.default if field.default_factory is dataclasses.MISSING else field.default_factory()!r}`"
        for field in dataclasses.fields(kind)
    }
    assert {name: table[name][1] for name in expected if name in table} == expected


def test_every_failure_code_has_a_row_that_says_whether_to_try_again() -> None:
    table = rows("calls", "Failure")
    assert [code for code in CODES if code not in table] == []
    assert {code for code in CODES if table[code][2].startswith("yes")} == RETRYABLE


def test_every_status_has_a_row() -> None:
    assert [status for status in get_args(Status) if status not in rows("calls", "Status")] == []


def test_every_kind_of_event_that_is_written_has_a_row() -> None:
    page = (ROOT / "docs/reference/events.md").read_text("utf-8")
    assert [kind for kind in KINDS if f"\n### `{kind}`\n" not in page] == []


def test_every_option_of_a_call_has_a_row() -> None:
    assert [option for option in OPTIONS if option not in rows("sessions", "Session")] == []


def test_every_built_in_tool_is_mentioned() -> None:
    assert [tool.id for tool in builtins() if f"`{tool.id}(" not in PAGES["tools"]] == []


def test_every_command_has_a_row() -> None:
    assert [path for path, _ in commands() if path not in command_rows()] == []


def test_every_option_of_a_command_is_in_its_row() -> None:
    shared = {"--crib", "--store", "--engine", "--json", "--debug", "--help"}
    missing = [
        f"{path} {option}"
        for path, command in commands()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option not in shared and option not in command_rows()[path][2]
    ]
    assert missing == []


def test_every_key_of_the_configuration_has_a_row() -> None:
    assert [key for key in CribFile.model_fields if key not in rows("cli", "crib.yaml")] == []


def test_every_table_and_column_of_the_store_is_mentioned() -> None:
    schema = (ROOT / "src/toolcrib/store/sql/sqlite/001_log.sql").read_text("utf-8")
    table = rows("stores", "Tables")
    for name, body in nonempty(re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", schema, re.DOTALL)):
        columns = re.findall(r"^    ([a-z_]+) ", body, re.MULTILINE)
        assert [column for column in columns if not re.search(rf"\b{column}\b", table[name][1])] == [], name


def test_every_example_page_is_linked_from_an_index() -> None:
    for folder in ("docs/howto", "docs/reference"):
        index = (ROOT / folder / "index.md").read_text("utf-8")
        pages = [path.name for path in Path(ROOT / folder).glob("*.md") if path.name != "index.md"]
        assert [page for page in pages if f"({page})" not in index] == []

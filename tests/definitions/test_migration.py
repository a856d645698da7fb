from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.definitions.test_reader import JUNK
from tests.requirements import requirement
from tests.shared import RECORDINGS, nonempty, require_recordings
from toolcrib.definitions.definition import Language
from toolcrib.definitions.migration import backups_of, migrate, migrated, restore, rollback, rolled_back
from toolcrib.definitions.reader import read
from toolcrib.errors import Refused
from toolcrib.sandbox import Sandbox
from toolcrib.sandbox.javascript import JavaScript
from toolcrib.yaml import parse

CORE = """\
tool:
  # who it is
  id:   case-tool   # aligned
  type: 'local'
  name: "Case"
  version: 1.0.0
  description: d
"""
V2 = """\
  # above
  executable_knowledge:
    # inside
    helpers:
      - id: h
        function: |
          # not a comment

          1 + 1

  # for the list
  tags: [a,  b]   # two
  anti_patterns: []
  # last
"""


def changed(text: str, change: str = "migrate") -> str:
    return (migrated if change == "migrate" else rolled_back)(text.encode()).decode()


# Migrate


@requirement("yaml.mig.1")
def test_migrating_puts_the_version_first_and_nothing_else() -> None:
    assert changed(CORE) == CORE.replace("  id:", "  schema_version: 2.0\n  id:", 1)
    assert changed("id: a\ntype: cli\n") == "schema_version: 2.0\nid: a\ntype: cli\n"


@requirement("yaml.mig.1")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tool:\n  schema_version: 1.0  # old\n  id: a\n", "tool:\n  schema_version: 2.0  # old\n  id: a\n"),
        (
            "tool:\n  id: a\n  schema_version: '1.0' # old\n  b: c\n",
            "tool:\n  schema_version: 2.0 # old\n  id: a\n  b: c\n",
        ),
        ("tool:\n  id: a\n  schema_version: 1", "tool:\n  schema_version: 2.0\n  id: a\n"),
        ("tool:\n  schema_version:\n  id: a\n", "tool:\n  schema_version: 2.0\n  id: a\n"),
        ("tool: {id: a, type: cli}\n", "tool: {schema_version: 2.0, id: a, type: cli}\n"),
        ("tool: {id: a, schema_version: 1, b: c}\n", "tool: {schema_version: 2.0, id: a, b: c}\n"),
        ("tool: {id: a, schema_version: 1}\n", "tool: {schema_version: 2.0, id: a}\n"),
        ('{"tool":{"id":"a"}}', '{"tool":{"schema_version":2.0,"id":"a"}}'),
        ('{"tool": {"id": "a"}}', '{"tool": {"schema_version": 2.0, "id": "a"}}'),
        ('{\n  "id": "a",\n  "type": "b"\n}\n', '{\n  "schema_version": 2.0,\n  "id": "a",\n  "type": "b"\n}\n'),
        ('"tool":\n    "id": a\n', '"tool":\n    "schema_version": 2.0\n    "id": a\n'),
        ("tool:\n  ? id\n  : a\n", "tool:\n  schema_version: 2.0\n  ? id\n  : a\n"),
        ("--- # top\ntool: &t\n  id: a\n...\n", "--- # top\ntool: &t\n  schema_version: 2.0\n  id: a\n...\n"),
    ],
)
def test_the_version_is_written_in_the_style_of_the_file(before: str, after: str) -> None:
    assert changed(before) == after
    assert read(after).schema_version == 2


@requirement("yaml.mig.1")
@pytest.mark.parametrize("said", ["2", "2.0", "'2'"])
def test_a_file_that_says_so_already_is_left_alone(said: str) -> None:
    text = f"tool:\n  id: a\n  schema_version: {said}\n"
    assert changed(text) == text


@requirement("yaml.mig.1")
def test_skeletons_are_comments_that_become_the_blocks() -> None:
    text = CORE + "  anti_patterns: []\nother: 1\n"
    scaffolded = migrated(text.encode(), scaffold=True).decode()
    assert read(scaffolded).tool == read(changed(text)).tool
    assert "# anti_patterns:" not in scaffolded
    assert scaffolded.endswith("\nother: 1\n")
    filled = "\n".join(line.replace("  # ", "  ", 1) if "who" not in line else line for line in scaffolded.splitlines())
    assert set(parse(filled).value["tool"]) >= {"executable_knowledge", "api_complexity", "examples"}
    assert migrated(scaffolded.encode(), scaffold=True).decode() == scaffolded


# Roll back


@requirement("yaml.mig.2")
def test_rolling_back_drops_the_blocks_of_version_2() -> None:
    after = changed(CORE + V2, "rollback")
    kept = "  # above\n  # for the list\n  tags: [a,  b]   # two\n  # last\n"
    assert after == CORE.replace("  id:", "  schema_version: 1.0\n  id:", 1) + kept
    assert (read(after).schema_version, read(after).reason) == (1, "explicit")


@requirement("yaml.mig.2")
def test_of_examples_the_successes_are_left() -> None:
    examples = (
        "  examples:\n    a_flow:\n      - step: 1\n        command: a\n    # of a\n    a:\n"
        "      - scenario: success\n        input: {x: 1}  # kept\n\n      - scenario: failure_x\n        input: {}\n"
        "      -\n        scenario: edge\n    b: [{scenario: failure_y}, {scenario: success}, {scenario: edge}]\n"
        "    c:\n    - scenario: edge\n  tags: []\n"
    )
    after = changed(CORE + examples, "rollback")
    assert after.endswith(
        "  examples:\n    # of a\n    a:\n      - scenario: success\n        input: {x: 1}  # kept\n\n"
        "    b: [{scenario: success}]\n  tags: []\n"
    )
    gone = changed(CORE + "  examples: {c: [{scenario: edge}]}\n  tags: []\n", "rollback")
    assert gone.endswith("  description: d\n  tags: []\n")


@requirement("yaml.mig.2")
def test_examples_of_version_1_are_left_alone() -> None:
    text = CORE.replace("  id:", "  schema_version: 1.0\n  id:", 1) + "  examples: {c: [{input: x}]}\n"
    assert changed(text, "rollback") == text


@requirement("yaml.mig.2")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"id":"a","type":"b","schema_version":2,"anti_patterns":[]}', '{"id":"a","type":"b","schema_version":1.0}'),
        ('{"anti_patterns":[],"id":"a","type":"b"}', '{"schema_version":1.0,"id":"a","type":"b"}'),
        (
            "{api_complexity: {}, id: a, anti_patterns: [], type: b, executable_knowledge: {}, }",
            "{schema_version: 1.0, id: a, type: b, }",
        ),
        (
            '{\n  "id": "a",\n  "anti_patterns": [\n    1\n  ],\n  "type": "b"\n}\n',
            '{\n  "schema_version": 1.0,\n  "id": "a",\n  "type": "b"\n}\n',
        ),
        ("tool:\n  anti_patterns: []\n  id: a", "tool:\n  schema_version: 1.0\n  id: a"),
        ("tool:\n  id: a\n  anti_patterns:\n  - x", "tool:\n  schema_version: 1.0\n  id: a\n"),
    ],
)
def test_blocks_are_dropped_in_any_style(before: str, after: str) -> None:
    assert changed(before, "rollback") == after


# Byte for byte


@requirement("yaml.mig.3")
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_stay(ending: str, mark: str) -> None:
    before = (mark + CORE + V2).replace("\n", ending)
    for change in ("migrate", "rollback"):
        expected = mark + changed(CORE + V2, change)
        assert changed(before, change) == expected.replace("\n", ending)


@requirement("yaml.mig.3")
def test_another_encoding_stays() -> None:
    before = ("\ufeff" + CORE).encode("utf-16-le")
    assert migrated(before) == ("\ufeff" + changed(CORE)).encode("utf-16-le")


@requirement("yaml.mig.3")
def test_real_files_keep_every_other_line_and_change_once() -> None:
    require_recordings()
    for path in nonempty(sorted((RECORDINGS / "tools").rglob("*.yaml"))):
        before = path.read_bytes()
        up, down = migrated(before), rolled_back(before)
        assert (migrated(up), rolled_back(down)) == (up, down)
        assert (read(up).schema_version, read(down).schema_version) == (2, 1)
        for after in (up, down):
            lines = iter(before.splitlines(keepends=True))
            assert all(line in lines for line in after.splitlines(keepends=True) if b"schema_version" not in line)


ENTRY = st.fixed_dictionaries({"scenario": st.sampled_from(["success", "failure_x", "edge"]), "input": JUNK})
EXAMPLES = st.dictionaries(st.sampled_from(["a", "b", "c d"]), st.lists(ENTRY | JUNK, max_size=4), max_size=3)
TOOLS = st.fixed_dictionaries(
    {"id": st.just("x"), "type": st.just("cli")},
    optional={
        **dict.fromkeys(("anti_patterns", "api_complexity", "executable_knowledge", "tags", "more"), JUNK),
        "schema_version": st.sampled_from([1, "1.0", 3]),
        "examples": EXAMPLES,
    },
)


def dumped(document: Any, style: str, ending: str) -> bytes:
    if style == "json":
        return json.dumps(document, ensure_ascii=False, indent=2).replace("\n", ending).encode()
    flow = {"block": False, "flow": True}.get(style)
    text: str = yaml.safe_dump(
        document, sort_keys=False, allow_unicode=True, default_flow_style=flow, line_break=ending
    )
    return text.encode()


@requirement("yaml.mig.3")
@given(TOOLS, st.sampled_from(["block", "flow", "mixed", "json"]), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_tool_goes_up_and_down_in_any_style(tool: dict[str, Any], style: str, ending: str, wrapped: bool) -> None:
    before = dumped({"first": 1, "tool": tool, "last": {"a": 1}} if wrapped else tool, style, ending)
    assume(not any(problem.code == "YAML_SYNTAX" for problem in read(before).problems))
    up = migrated(before)
    down = rolled_back(up)
    assert (next(iter(read(up).tool)), read(up).schema_version, read(down).schema_version) == ("schema_version", 2, 1)
    assert (migrated(up), rolled_back(down)) == (up, down)
    assert all(read(after).extra == read(before).extra for after in (up, down))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\n", "no tool"),
        ("tool: [1\n", "Not readable"),
        ("tool: text\n", "no tool"),
        ("tool: {}\n", "empty"),
        ("base: &b {id: a, anti_patterns: []}\ntool: *b\n", "alias"),
        ("tool:\n  id: a\n  id: b\n", "again"),
        ("tool:\n  id: a\n  anti_patterns: &x [1]\n  y: *x\n", "unusual"),
    ],
)
def test_what_cannot_be_rewritten_safely_is_refused(text: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        changed(text, "rollback")


# Files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / ".toolcrib" / "tools" / "case-tool.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(CORE, newline="")
    return path


@pytest_asyncio.fixture
async def sandboxes() -> AsyncIterator[Mapping[Language, Sandbox]]:
    javascript = JavaScript()
    yield {"javascript": javascript}
    await javascript.close()


@requirement("yaml.mig.3")
async def test_a_backup_is_made_first_and_restored_to_the_byte(file: Path) -> None:
    first = file.read_bytes()
    up = await migrate(file)
    assert up.backup is not None
    assert (up.backup.parent, up.backup.read_bytes()) == (file.parents[1] / "backups", first)
    assert up.backup.name.startswith("case-tool.")
    with file.open("a", newline="") as more:
        more.write(V2)
    edited = file.read_bytes()
    down = await rollback(file)
    assert [read(data).schema_version for data in (edited, file.read_bytes())] == [2, 1]
    await restore(file)
    assert file.read_bytes() == first
    assert down.backup is not None
    await restore(file, down.backup)
    assert file.read_bytes() == edited
    assert (await restore(file)).after == first


@requirement("yaml.mig.3")
async def test_a_second_time_changes_nothing_and_keeps_nothing(file: Path) -> None:
    await migrate(file)
    again = await migrate(file)
    assert (again.backup, again.diff, len(list(backups_of(file).iterdir()))) == (None, "", 1)


@requirement("yaml.mig.3")
async def test_a_dry_run_writes_nothing_and_shows_the_change(file: Path) -> None:
    before = file.read_bytes()
    rewrite = await migrate(file, dry_run=True)
    assert "\n+  schema_version: 2.0\n" in rewrite.diff
    assert (file.read_bytes(), backups_of(file).exists()) == (before, False)


@requirement("yaml.mig.3")
async def test_a_file_that_would_have_a_new_error_is_not_written(
    file: Path, sandboxes: Mapping[Language, Sandbox]
) -> None:
    text = CORE.replace("  id:", "  schema_version: 1.0\n  id:", 1)
    for block, code in (
        ("anti_patterns: 3", "INVALID_TYPE"),
        ("executable_knowledge: {helpers: [{id: h, function: ')'}]}", "INVALID_FUNCTION_SYNTAX"),
    ):
        file.write_text(f"{text}  {block}\n")
        before = file.read_bytes()
        with pytest.raises(Refused, match=code):
            await migrate(file, sandboxes=sandboxes)
        assert file.read_bytes() == before


@requirement("yaml.mig.3")
async def test_an_old_error_does_not_stand_in_the_way(file: Path) -> None:
    file.write_text(CORE.replace("local", "remote"))
    await migrate(file)
    assert read(file.read_bytes()).schema_version == 2


@requirement("yaml.mig.3")
async def test_a_file_is_replaced_whole_keeps_its_mode_and_stays_behind_its_link(file: Path, tmp_path: Path) -> None:
    file.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    await migrate(link, backups=tmp_path / "kept")
    assert link.is_symlink()
    assert (file.stat().st_mode & 0o777, read(file.read_bytes()).schema_version) == (0o640, 2)
    assert [one.name for one in file.parent.iterdir()] == ["case-tool.yaml"]
    assert len(list((tmp_path / "kept").iterdir())) == 1


async def test_without_a_backup_there_is_nothing_to_restore(file: Path) -> None:
    with pytest.raises(Refused, match="no backup of 'case-tool'"):
        await restore(file)

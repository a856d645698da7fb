"""Definitions by their ids: which file stands, what shadows it, and when it is read again."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.requirements import requirement
from tests.shared import RECORDINGS, recorded, require_recordings
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.library import CacheUse, Library, UnresolvedTool
from toolcrib.definitions.roots import DefinitionRoot

LONG_AGO = 1_000_000_000


def put(path: Path, id: str | None = None, *, name: str = "Some tool", more: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = (
        f"tool:\n  id: {id or path.stem}\n  type: cli\n  name: {name}\n  version: 1.0.0\n  description: Does things\n"
    )
    path.write_text(head + more)
    return path


def aged(folder: Path) -> None:
    """Makes everything in a folder old, so that stamps can be relied on."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (LONG_AGO, LONG_AGO))


def failure(library: Library, id: str) -> UnresolvedTool:
    with pytest.raises(UnresolvedTool) as raised:
        library.resolve(id)
    return raised.value


def codes(definition: ToolDefinition) -> list[str]:
    return [problem.code for problem in definition.problems]


# Which file stands


@requirement("yaml.find.2")
def test_a_packs_file_replaces_the_tool_whole_and_names_what_it_shadows(tmp_path: Path) -> None:
    old = put(tmp_path / "tools" / "desk.yaml", name="Old", more="  tags: [a]\n")
    new = put(tmp_path / "packs" / "sales" / "tools" / "desk.yaml", name="New")
    library = Library([tmp_path / "tools"], "sales")
    desk = library.resolve("desk")
    assert (desk.name, desk.path, desk.shadows) == ("New", new, (old,))
    assert "tags" not in desk.tool
    assert library.list() == [desk]
    assert Library([tmp_path / "tools"]).resolve("desk").name == "Old"


def test_what_is_shadowed_and_what_is_no_tool_is_listed_when_all_is_wanted(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    put(first / "desk.yaml")
    put(second / "desk.yaml")
    (second / "other.yaml").write_text("- 1\n")
    library = Library([first, second])
    assert len(library.list()) == 1
    statuses = {str(one.path): (one.status, codes(one)) for one in library.list(all=True)}
    assert statuses == {
        str(first / "desk.yaml"): ("ok", []),
        str(second / "desk.yaml"): ("ok", ["SHADOWED"]),
        str(second / "other.yaml"): ("not_a_tool", []),
    }


@requirement("yaml.find.1")
def test_the_first_root_that_has_the_tool_wins(tmp_path: Path) -> None:
    put(tmp_path / "a" / "x.yaml", name="A")
    put(tmp_path / "b" / "x.yaml", name="B")
    assert Library([tmp_path / "b", tmp_path / "a"]).resolve("x").name == "B"
    assert Library(["a", "b"], project=tmp_path).resolve("x").name == "A"


@requirement("yaml.find.9")
def test_files_are_as_trusted_as_their_root(tmp_path: Path) -> None:
    put(tmp_path / "tools" / "mine.yaml")
    put(tmp_path / "packs" / "sales" / "tools" / "theirs.yaml")
    found = Library([tmp_path / "tools"], "sales").resolve_many(["mine", "theirs"])
    assert {id: getattr(one, "trusted", None) for id, one in found.items()} == {"mine": True, "theirs": False}
    assert Library([tmp_path / "tools"], "sales", trusted_packs=["sales"]).resolve("theirs").trusted


@requirement("yaml.find.9")
def test_a_pack_inside_a_trusted_root_is_still_not_trusted(tmp_path: Path) -> None:
    put(tmp_path / "packs" / "sales" / "tools" / "theirs.yaml")
    library = Library([tmp_path], "sales", project=tmp_path)
    assert [(one.id, one.trusted, one.shadows) for one in library.list(all=True)] == [("theirs", False, ())]


@requirement("yaml.find.3")
def test_the_id_in_the_file_counts_and_another_file_name_is_told(tmp_path: Path) -> None:
    put(tmp_path / "sub" / "file-name.yaml", "real-id")
    library = Library([tmp_path])
    assert "ID_MISMATCH" in codes(library.resolve("real-id"))
    assert failure(library, "file-name").code == "not_found"


@requirement("yaml.find.3")
def test_of_two_files_with_one_id_the_first_by_path_stands_and_the_other_is_reported(tmp_path: Path) -> None:
    put(tmp_path / "b" / "desk.yaml", name="Second")
    put(tmp_path / "a" / "desk.yaml", name="First")
    put(tmp_path / "c" / "desk.yaml", "DESK", name="Third")  # they would share a namespace
    library = Library([tmp_path])
    assert library.resolve("desk").name == "First"
    first, *others = library.list()
    assert "DUPLICATE_ID" not in codes(first)
    assert [(one.name, one.status, codes(one)[-1]) for one in others] == [
        ("Second", "invalid", "DUPLICATE_ID"),
        ("Third", "invalid", "DUPLICATE_ID"),
    ]
    assert str(tmp_path / "a" / "desk.yaml") in others[0].problems[-1].message


def test_a_broken_file_of_that_name_does_not_take_the_place_of_a_tool_beside_it(tmp_path: Path) -> None:
    put(tmp_path / "b" / "desk.yaml")
    put(tmp_path / "a" / "desk.yaml").write_text("tool: {")
    library = Library([tmp_path])
    assert library.resolve("desk").path == tmp_path / "b" / "desk.yaml"
    assert sorted(one.status for one in library.list()) == ["invalid", "ok"]


def test_a_packs_broken_file_hides_the_tool_rather_than_bring_back_the_one_it_replaces(tmp_path: Path) -> None:
    put(tmp_path / "tools" / "desk.yaml")
    put(tmp_path / "packs" / "sales" / "tools" / "desk.yaml").write_text("tool: {")
    assert failure(Library([tmp_path / "tools"], "sales"), "desk").code == "invalid"


# What is not found


@requirement("yaml.find.4")
@pytest.mark.parametrize(
    "id", ["", "*", "des?", "[d]esk", "{desk,x}", "../desk", "a/desk", "desk.yaml", "/desk", "desk\n", "d" * 33, "é"]
)
def test_what_is_no_legal_id_is_not_found_and_touches_no_file(tmp_path: Path, id: str) -> None:
    put(tmp_path / "a" / "desk.yaml")
    library = Library([tmp_path])
    assert failure(library, id).suggestions == ()
    assert library.uses() == {}


@requirement("yaml.find.5")
def test_an_unknown_id_is_answered_with_the_roots_and_what_was_meant(tmp_path: Path) -> None:
    put(tmp_path / "a" / "clickup.yaml", more="  commands: [create_task]\n")
    library = Library([tmp_path / "a", tmp_path / "b"])
    missing = failure(library, "CliKup")
    assert missing.code == "not_found"
    roots = f"{tmp_path / 'a'}, {tmp_path / 'b'}"
    assert missing.message == f"Tool 'CliKup' not found in search roots: {roots}. Did you mean 'clickup'?"
    assert failure(library, "clickup-create_tsk").suggestions == ("clickup.create_task",)
    assert failure(library, "zebra").message == f"Tool 'zebra' not found in search roots: {roots}."


@requirement("yaml.find.5")
def test_at_most_three_are_suggested(tmp_path: Path) -> None:
    for number in range(6):
        put(tmp_path / f"tool-{number}.yaml")
    assert len(failure(Library([tmp_path]), "tool-x").suggestions) == 3


@requirement("yaml.find.5")
def test_an_invalid_file_of_that_id_is_answered_with_its_first_problem_and_path(tmp_path: Path) -> None:
    path = tmp_path / "desk.yaml"
    path.write_text("tool:\n  id: desk\n  name: Desk\n  description: d\n")
    invalid = failure(Library([tmp_path]), "desk")
    assert invalid.code == "invalid"
    assert "Tool missing required field: type" in invalid.message
    assert str(path) in invalid.message


@requirement("yaml.find.6")
def test_many_are_resolved_each_with_its_definition_or_its_failure(tmp_path: Path) -> None:
    put(tmp_path / "good.yaml")
    (tmp_path / "bad.yaml").write_text("tool: {id: bad}\n")
    found = Library([tmp_path]).resolve_many(["bad", "good", "*", "god", "good"])
    told = {id: one.code if isinstance(one, UnresolvedTool) else one.id for id, one in found.items()}
    assert told == {"bad": "invalid", "good": "good", "*": "not_found", "god": "not_found"}


@requirement("yaml.find.6")
def test_no_file_makes_a_listing_raise(tmp_path: Path) -> None:
    put(tmp_path / "good.yaml")
    for name, data in {
        "bytes": b"\xff\xfe\x00\xd8",
        "nul": b"\x00\x01",
        "syntax": b"tool: [",
        "large": b"a" * 2_000_000,
        "deep": b"[" * 5000,
        "tag": b"!!python/object/apply:os.system ['true']",
        "bomb": b"a: &a [x,x]\nb: &b [*a,*a]\ntool: [*b,*b]\n",
        "unnamed": b"tool: {id: [1], type: 7}\n",
    }.items():
        (tmp_path / f"{name}.yaml").write_bytes(data)
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "secret.yaml").symlink_to("gone")
    listed = {str(one.path and one.path.stem): one for one in Library([tmp_path]).list()}
    assert listed["good"].status == "ok"
    assert {"syntax", "large", "deep", "unnamed"} <= listed.keys()
    assert all(one.status == "invalid" and one.problems for name, one in listed.items() if name != "good")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything; for a while it is somebody else."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_file_that_cannot_be_read_says_so_until_it_can() -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = put(Path(folder, "desk.yaml"))
        library = Library([folder])
        path.chmod(0)
        with as_nobody():
            assert "cannot be read: Permission denied" in failure(library, "desk").message
            assert [one.status for one in library.list()] == ["invalid"]
        path.chmod(0o644)
        with as_nobody():
            assert library.resolve("desk").status == "ok"


# When files are read again


@requirement("yaml.find.7", "yaml.use.1")
def test_an_unchanged_file_is_read_once_and_gives_the_same_definition(tmp_path: Path) -> None:
    path = put(tmp_path / "desk.yaml")
    aged(tmp_path)
    library = Library([tmp_path])
    first = library.resolve("desk")
    put(tmp_path / "other.yaml")
    assert library.resolve("desk") is first
    assert library.list()[0] is first
    assert library.uses()[path] == CacheUse(loads=1, hits=2)


@requirement("yaml.find.7")
def test_a_changed_file_is_read_again_and_a_held_definition_stays_as_it_is(tmp_path: Path) -> None:
    path = put(tmp_path / "desk.yaml", name="One")
    aged(tmp_path)
    library = Library([tmp_path])
    held = library.resolve("desk")
    put(path, name="Two")
    assert library.resolve("desk").name == "Two"
    assert held.name == "One"
    assert library.uses()[path].loads == 2


@requirement("yaml.find.7")
def test_a_change_that_leaves_time_size_and_inode_alone_is_seen_while_the_file_is_young(tmp_path: Path) -> None:
    path = put(tmp_path / "desk.yaml", name="One")
    library = Library([tmp_path])
    assert library.resolve("desk").name == "One"
    stat = path.stat()
    put(path, name="Two")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert library.resolve("desk").name == "Two"


@requirement("yaml.find.7")
def test_one_look_tells_whether_the_file_of_a_tool_has_changed(tmp_path: Path) -> None:
    path = put(tmp_path / "desk.yaml", name="One")
    library = Library([tmp_path])
    assert library.moved("desk")  # nothing was read yet
    library.list()
    assert not library.moved("desk")
    stat = path.stat()
    put(path, name="Two")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert library.moved("desk")
    library.list()
    assert not library.moved("desk")
    aged(tmp_path)
    assert library.moved("desk")
    library.list()
    path.unlink()
    assert library.moved("desk")


@requirement("yaml.find.7")
def test_a_file_that_is_written_again_with_the_same_bytes_is_the_same_definition(tmp_path: Path) -> None:
    path = put(tmp_path / "desk.yaml")
    aged(tmp_path)
    library = Library([tmp_path])
    first = library.resolve("desk")
    path.write_bytes(path.read_bytes())
    assert library.resolve("desk") is first
    assert library.uses()[path].loads == 1


@requirement("yaml.find.7")
def test_files_that_come_go_or_are_renamed_are_noticed(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml")
    aged(tmp_path)
    library = Library([tmp_path])
    assert [one.id for one in library.list()] == ["a"]
    put(tmp_path / "deep" / "er" / "b.yaml")
    assert library.resolve("b").id == "b"
    (tmp_path / "a.yaml").rename(tmp_path / "c.yaml")
    assert "ID_MISMATCH" in codes(library.resolve("a"))
    (tmp_path / "c.yaml").unlink()
    assert failure(library, "a").code == "not_found"


@requirement("yaml.find.7")
def test_a_link_whose_file_goes_and_comes_back_is_noticed(tmp_path: Path) -> None:
    target = put(tmp_path / ".store" / "desk.yaml")
    (tmp_path / "desk.yaml").symlink_to(target)
    aged(tmp_path)
    library = Library([tmp_path])
    first = library.resolve("desk")
    target.rename(target.with_suffix(".off"))
    assert failure(library, "desk").code == "not_found"
    target.with_suffix(".off").rename(target)
    assert library.resolve("desk") is first


@requirement("yaml.find.7")
def test_a_file_that_takes_another_id_is_found_by_it(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml")
    put(tmp_path / "b.yaml")
    aged(tmp_path)
    library = Library([tmp_path])
    assert library.resolve("b").path == tmp_path / "b.yaml"
    put(tmp_path / "a.yaml", "b")
    assert library.resolve("b").path == tmp_path / "a.yaml"
    assert failure(library, "a").code == "not_found"


@requirement("yaml.find.7")
def test_failures_are_kept_and_mended_files_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "desk.yaml"
    path.write_text("tool: {id: desk}\n")
    aged(tmp_path)
    library = Library([tmp_path])
    failure(library, "desk")
    failure(library, "desk")
    assert library.uses()[path] == CacheUse(loads=1, hits=1)
    put(path)
    assert library.resolve("desk").status == "ok"


@requirement("yaml.find.7")
def test_other_roots_drop_what_they_no_longer_cover(tmp_path: Path) -> None:
    put(tmp_path / "a" / "one.yaml")
    put(tmp_path / "b" / "two.yaml")
    aged(tmp_path)
    library = Library([tmp_path / "a", tmp_path / "b"])
    two = library.resolve("two")
    library.use([tmp_path / "b"])
    assert failure(library, "one").code == "not_found"
    assert library.resolve("two") is two
    assert list(library.uses()) == [tmp_path / "b" / "two.yaml"]
    library.use([DefinitionRoot(tmp_path / "b", trusted=False)])
    assert not library.resolve("two").trusted


# What is read once


@requirement("yaml.find.10")
def test_a_thousand_files_are_listed_again_without_being_read_again(tmp_path: Path) -> None:
    for number in range(1000):
        put(tmp_path / f"tool-{number}.yaml", more="  commands:\n    - name: go\n      cli_args: ['{{x}}']\n")
    aged(tmp_path)
    library = Library([tmp_path])
    for _ in range(3):
        assert len(library.list()) == 1000
    assert [use.loads for use in library.uses().values()] == [1] * 1000


@requirement("yaml.find.10")
def test_a_large_file_is_read_once_however_often_it_is_looked_up(tmp_path: Path) -> None:
    knowledge = "".join(f"    - topic: number {number}\n      content: '{'words ' * 12}'\n" for number in range(290))
    path = put(tmp_path / "large.yaml", more=f"  knowledge:\n{knowledge}")
    assert 30_000 < path.stat().st_size < 34_000
    aged(tmp_path)
    library = Library([tmp_path])
    assert library.resolve("large") is library.resolve("large") is library.resolve("large")
    assert library.uses() == {path: CacheUse(loads=1, hits=2)}


@requirement("yaml.find.10")
async def test_reading_leaves_the_event_loop_alone(tmp_path: Path) -> None:
    for number in range(200):
        put(tmp_path / f"tool-{number}.yaml")
    library, turns = Library([tmp_path]), 0
    listing = asyncio.create_task(library.alist())
    while not listing.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(await listing) == 200
    assert turns > 5
    assert (await library.aresolve("tool-3")).id == "tool-3"
    many = await library.aresolve_many(["tool-4", "nothing"])
    assert isinstance(many["nothing"], UnresolvedTool)


async def test_many_at_once_read_a_file_once(tmp_path: Path) -> None:
    path = put(tmp_path / "desk.yaml")
    aged(tmp_path)
    library = Library([tmp_path])
    found = await asyncio.gather(*(library.aresolve("desk") for _ in range(20)))
    assert len({id(one) for one in found}) == 1
    assert library.uses()[path] == CacheUse(loads=1, hits=19)


# The shared files


@requirement("yaml.find.4", "yaml.find.5")
def test_ids_are_resolved_as_the_shared_cases_say() -> None:
    cases = recorded("cases/own-resolve.jsonl")
    library = Library([RECORDINGS / "tools"])
    for case in cases:
        found, expect = library.resolve_many([case["id"]])[case["id"]], case["expect"]
        assert isinstance(found, ToolDefinition) is expect["found"], case["about"]
        if isinstance(found, UnresolvedTool):
            assert expect.get("message_contains", "") in found.message
            assert {expect.get("suggestions_contain")} - {None} <= set(found.suggestions)


@requirement("yaml.find.6")
def test_the_shared_files_are_listed_completely() -> None:
    require_recordings()
    listed = Library([RECORDINGS / "tools"]).list()
    assert [one.id for one in listed if one.status == "invalid"] == ["llm-routing"]
    assert len(listed) == 8


@requirement("yaml.find.7", "yaml.find.10")
def test_what_is_known_is_given_without_waiting_until_a_file_or_a_folder_changes(tmp_path: Path) -> None:
    path = put(tmp_path / "own" / "notes.yaml", name="One")
    (tmp_path / "first").mkdir()
    library = Library([tmp_path / "first", tmp_path / "own"])
    assert library.known("notes") is None
    aged(tmp_path)
    assert library.resolve("notes") is library.known("notes")
    assert library.known("note") is None
    put(path, name="Second")
    assert library.known("notes") is None
    aged(tmp_path)
    assert library.resolve("notes").name == "Second"
    assert library.resolve("notes") is library.known("notes")
    put(tmp_path / "first" / "notes.yaml", name="Three")
    assert library.known("notes") is None
    assert library.resolve("notes").name == "Three"
    put(tmp_path / "first" / "notes.yaml", name="")
    aged(tmp_path)
    assert failure(library, "notes").code == "invalid"
    assert library.known("notes") is None

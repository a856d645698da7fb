"""Files of one folder: what can be done in it, and every way that leads out of it."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.toolkits.place import code, opened
from toolcrib import BadTool, Crib, Event, Session, ToolFailure
from toolcrib.toolkits import files
from toolcrib.toolkits.files import content
from toolcrib.toolkits.files.root import RootFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with something in it, beside something that nobody may see."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_text("the secret")
    folder = tmp_path / "box"
    (folder / "src").mkdir(parents=True)
    (folder / "notes.md").write_text("one\ntwo\nthree\n")
    (folder / "src/app.py").write_text("def main():\n    return 1\n")
    return folder


@requirement("files.1")
async def test_every_tool_is_there_and_says_what_it_does(root: Path) -> None:
    kit = files.tools(root=root)
    assert [tool.name for tool in kit] == [
        *("read_file", "write_file", "edit_file", "list_dir", "glob", "grep", "move_file", "delete_file", "file_info")
    ]
    for tool in kit:
        assert tool.capabilities
        assert tool.limits.timeout_s
        assert tool.knowledge.examples
        assert tool.knowledge.anti_patterns
        for example in tool.knowledge.examples:
            assert tool.parse(json.dumps(dict(example.arguments)).encode())
    reading = {tool.name for tool in kit if tool.does == "read"}
    assert reading == {"read_file", "list_dir", "glob", "grep", "file_info"}
    assert {tool.name for tool in files.tools(root, write=False)} == reading


@requirement("files.1", "files.3")
async def test_a_file_is_written_read_edited_moved_and_deleted(root: Path) -> None:
    async with opened(files.tools(root)) as session:

        async def call(tool: str, **args: Any) -> Any:
            result = await session.call(tool, args)
            assert result.ok, result
            return result.data

        await call("write_file", path="a/b/c.txt", content="x\ny\n")
        read = await call("read_file", path="a/b/c.txt")
        assert (read["text"], read["total_lines"], read["truncated"]) == ("x\ny\n", 2, False)
        edited = await call("edit_file", path="a/b/c.txt", edits=[{"old": "y", "new": "z"}], if_hash=read["hash"])
        assert "-y\n+z\n" in edited["diff"]
        assert (root / "a/b/c.txt").read_text() == "x\nz\n"
        await call("move_file", source="a/b/c.txt", destination="d.txt")
        assert (await call("file_info", path="d.txt"))["size"] == 4
        await call("delete_file", path="d.txt")
        await call("delete_file", path="a/b")
        names = [entry["name"] for entry in (await call("list_dir"))["entries"]]
        assert names == ["a", "notes.md", "src"]


@requirement("files.1")
async def test_files_are_found_by_name_and_by_what_they_say(root: Path) -> None:
    (root / "src/deep").mkdir()
    (root / "src/deep/more.py").write_text("main = 2\n")
    async with opened(files.tools(root)) as session:
        for pattern, path, expected in (
            ("*.py", ".", ["src/app.py", "src/deep/more.py"]),
            ("src/*.py", ".", ["src/app.py"]),
            ("**/*.py", "src", ["src/app.py", "src/deep/more.py"]),
            ("deep/*", "src", ["src/deep/more.py"]),
        ):
            found = (await session.call("glob", {"pattern": pattern, "path": path})).data
            assert found == {"files": expected, "truncated": False}
        lines = (await session.call("grep", {"pattern": r"\bmain\b", "path": "src"})).data
        assert [(one["path"], one["line"]) for one in lines["matches"]] == [("src/app.py", 1), ("src/deep/more.py", 1)]
        one = (await session.call("grep", {"pattern": "o", "path": "notes.md", "max_matches": 1})).data
        assert (len(one["matches"]), one["stopped_by"]) == (1, "1 matches")
        assert (await session.call("grep", {"pattern": "main", "glob": "*.md"})).data["matches"] == []


OUT = [
    "../outside/secret.txt",
    "src/../../outside/secret.txt",
    "src/../notes.md",
    "..",
    "/etc/passwd",
    "//etc/passwd",
    "{outside}/secret.txt",
    "link/secret.txt",
    "up/outside/secret.txt",
    "direct",
    "hop",
    "round",
    "proc/self/environ",
    "proc/self/root/etc/passwd",
]


@requirement("files.2")
@pytest.mark.parametrize(
    "tool", ["read_file", "write_file", "edit_file", "list_dir", "grep", "delete_file", "move_file"]
)
@pytest.mark.parametrize("path", OUT)
async def test_no_path_leads_out(root: Path, tool: str, path: str) -> None:
    outside = root.parent / "outside"
    (root / "link").symlink_to("../outside")
    (root / "up").symlink_to("..")
    (root / "direct").symlink_to(outside / "secret.txt")
    (root / "hop").symlink_to("src/../direct")
    (root / "round").symlink_to("round")
    (root / "proc").symlink_to("/proc")
    given = path.format(outside=outside)
    more: dict[str, Any] = {
        "write_file": {"content": "x", "overwrite": True},
        "edit_file": {"edits": [{"old": "the", "new": "a"}]},
        "grep": {"pattern": "."},
        "move_file": {"source": given, "destination": "taken.txt"},
    }
    args = more.get(tool, {}) if tool == "move_file" else {"path": given, **more.get(tool, {})}
    async with opened(files.tools(root)) as session:
        assert await code(session, tool, args) == "denied"
        if tool == "move_file":
            there = {"source": "notes.md", "destination": given, "overwrite": True}
            assert await code(session, tool, there) in ("denied", "failed")
    assert (outside / "secret.txt").read_text() == "the secret"
    assert (root / "notes.md").exists()


@requirement("files.2")
async def test_a_link_that_stays_inside_is_followed_and_judged_by_where_it_leads(root: Path) -> None:
    (root / "latest").symlink_to("src")
    (root / "whole").symlink_to(root / "src")
    policy = {"grants": {"allow": [f"fs:read:{root}/**"], "deny": [f"fs:read:{root}/src/app.py"]}}
    async with opened(files.tools(root)) as session:
        for path in ("latest/app.py", "whole/app.py", "./latest//app.py"):
            assert (await session.call("read_file", {"path": path})).data["path"] == "src/app.py"
    async with opened(files.tools(root), policy) as session:
        failure = (await session.call("read_file", {"path": "latest/app.py"})).failure
        assert failure is not None
        assert (failure.code, "src/app.py is forbidden" in failure.message) == ("denied", True)


@requirement("files.2")
async def test_a_link_swapped_in_after_the_check_is_refused(root: Path) -> None:
    """The question waits, somebody puts a link where a folder was, and a person says yes."""
    async with Crib([files.tools(root)], workspace=root.parent) as crib:
        session = await crib.open("s", owner="ada", namespaces=["files"])
        call = await session.submit("write_file", {"path": "src/secret.txt", "content": "bad", "overwrite": True})
        (question,) = await session.questions()
        (root / "src").rename(root / "was")
        (root / "src").symlink_to("../outside")
        await session.answer(question.id, "accept", actor="ada")
        async with asyncio.timeout(60):
            asked = [event async for event in _until_asked(session, 2)]
        assert "outside/secret.txt" in asked[1].fields["question"]["prompt"]  # it says where it leads now
        await session.answer(asked[1].fields["question"]["id"], "accept", actor="ada")
        failure = (await asyncio.wait_for(session.result(call.id), 60)).failure
        assert failure is not None
        assert failure.code == "denied"
    assert (root.parent / "outside/secret.txt").read_text() == "the secret"


async def _until_asked(session: Session, times: int) -> AsyncIterator[Event]:
    """The questions of a session, until so many were asked."""
    async for event in session.events():
        if event.kind == "waiting":
            yield event
            times -= 1
            if not times:
                return


@pytest.fixture
def swapped(root: Path) -> Iterator[RootFolder]:
    """A folder in which another thread swaps things all the time: `real` is a folder or a link that leads out,
    `flip` a link that stays inside or does not."""
    (root / "real").mkdir()
    (root / "real/secret.txt").write_text("harmless")
    (root / "spare").symlink_to("../outside")
    (root / "flip").symlink_to("src")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for name, other in (("real", "held"), ("spare", "real"), ("real", "spare"), ("held", "real")):
                (root / name).rename(root / other)
            for target in ("src", "../outside"):
                (root / "fresh").symlink_to(target)
                (root / "fresh").rename(root / "flip")

    swapping = threading.Thread(target=swap)
    swapping.start()
    yield RootFolder(root)
    stop.set()
    swapping.join()


@requirement("files.2")
def test_links_swapped_all_the_time_never_show_what_lies_outside(swapped: RootFolder, root: Path) -> None:
    seen: set[str] = set()
    for _ in range(2000):
        for path in ("real/secret.txt", "flip/secret.txt"):
            try:
                seen.add(content.read(swapped, swapped.plain(path)).decode())
            except ToolFailure as error:
                seen.add(error.code)
    assert seen <= {"harmless", "denied", "not_found"}
    assert "denied" in seen


@requirement("files.2")
def test_links_swapped_all_the_time_never_let_anything_be_written_outside(swapped: RootFolder, root: Path) -> None:
    seen: set[str] = set()
    for _ in range(200):
        try:
            content.write(swapped, swapped.plain("flip/secret.txt"), b"bad", overwrite=True)
            seen.add("written")
        except ToolFailure as error:
            seen.add(error.code)
    assert seen <= {"written", "denied", "not_found"}
    assert (root.parent / "outside/secret.txt").read_text() == "the secret"
    assert [one.name for one in (root.parent / "outside").iterdir()] == ["secret.txt"]


@requirement("files.2")
async def test_devices_sockets_and_pipes_are_no_files(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(root / "sock"))
        kit = files.tools(root)
        async with opened(kit) as session:
            for path in ("pipe", "sock"):
                assert await code(session, "read_file", {"path": path}) == "denied"
                assert await code(session, "write_file", {"path": path, "content": "", "overwrite": True}) == "denied"
                assert await code(session, "delete_file", {"path": path}) == "denied"
                assert await code(session, "move_file", {"source": path, "destination": "x"}) == "denied"
            assert (await session.call("grep", {"pattern": "."})).ok
    async with opened(files.tools("/dev")) as session:
        for path in ("null", "zero", "full", "random"):
            assert await code(session, "read_file", {"path": path}) == "denied"


@requirement("files.2")
async def test_a_second_name_of_a_file_elsewhere_is_neither_read_nor_changed(root: Path) -> None:
    outside = root.parent / "outside/secret.txt"
    os.link(outside, root / "mine.txt")
    async with opened(files.tools(root)) as session:
        assert await code(session, "read_file", {"path": "mine.txt"}) == "denied"
        edits = [{"old": "secret", "new": "x"}]
        assert await code(session, "edit_file", {"path": "mine.txt", "edits": edits}) == "denied"
        assert (await session.call("grep", {"pattern": "secret"})).data["matches"] == []
        assert (await session.call("write_file", {"path": "mine.txt", "content": "new", "overwrite": True})).ok
    assert outside.read_text() == "the secret"
    os.link(outside, root / "theirs.txt")
    async with opened(files.tools(root, hard_links=True)) as session:
        assert (await session.call("read_file", {"path": "theirs.txt"})).data["text"] == "the secret"


@requirement("files.2")
@pytest.mark.parametrize("path", ["a\0b", "a" * 300, "a/" * 2000 + "b", "\ud800", "", "x" * 5000])
async def test_what_is_no_path_is_refused(root: Path, path: str) -> None:
    async with opened(files.tools(root)) as session:
        for tool in ("read_file", "write_file"):
            more = {"content": ""} if tool == "write_file" else {}
            failure = (await session.call(tool, {"path": path, **more})).failure
            assert failure is not None
            assert failure.code == "invalid_arguments"
            assert str(root) not in str(failure)


@requirement("files.3")
async def test_other_files_are_told_by_type_and_size_and_long_ones_are_cut(root: Path) -> None:
    (root / "a.png").write_bytes(b"\x89PNG\0\0\0")
    (root / "long.txt").write_text("0123456789abcde\n" * 100_000)
    async with opened(files.tools(root)) as session:
        picture = (await session.call("read_file", {"path": "a.png"})).data
        assert (picture["type"], picture["size"], picture["binary"], "text" in picture) == ("image/png", 7, True, False)
        long = (await session.call("read_file", {"path": "long.txt"})).data
        assert (len(long["text"]), long["truncated"], long["total_lines"]) == (1024 * 1024, True, 100_000)
        some = (await session.call("read_file", {"path": "long.txt", "start": 99_999, "lines": 5})).data
        assert (some["text"], some["truncated"]) == ("0123456789abcde\n" * 2, False)


@requirement("files.3")
async def test_an_edit_that_does_not_fit_changes_nothing(root: Path) -> None:
    async with opened(files.tools(root)) as session:

        async def edit(*edits: tuple[str, str], **more: Any) -> Any:
            given = [{"old": old, "new": new} for old, new in edits]
            return await session.call("edit_file", {"path": "notes.md", "edits": given, **more})

        assert "is not in the file" in str((await edit(("one", "1"), ("four", "4"))).failure)
        assert "is in the file 3 times" in str((await edit(("e", "E"))).failure)
        stale = (await edit(("one", "1"), if_hash="0" * 64)).failure
        assert stale is not None
        assert (stale.code, stale.message) == ("failed", "The file changed since it was read")
        tried = (await edit(("one", "1"), dry_run=True)).data
        assert (tried["written"], "-one\n+1\n" in tried["diff"]) == (False, True)
    assert (root / "notes.md").read_text() == "one\ntwo\nthree\n"


@requirement("files.3")
async def test_a_file_is_replaced_in_one_step_and_keeps_its_mode(root: Path) -> None:
    (root / "run.sh").write_text("old")
    (root / "run.sh").chmod(0o750)
    with (root / "run.sh").open() as reader:
        async with opened(files.tools(root)) as session:
            assert (await session.call("write_file", {"path": "run.sh", "content": "new", "overwrite": True})).ok
        assert reader.read() == "old"
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o750
    assert sorted(one.name for one in root.iterdir()) == ["notes.md", "run.sh", "src"]


@requirement("files.4")
@pytest.mark.parametrize(
    "name", [".env", ".ENV.local", "a/key.pem", "KEY.PEM", "id_rsa", "x/.ssh/config", ".Ssh/known"]
)
async def test_files_with_secrets_are_closed(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("password")
    (root / "alias").symlink_to(name)
    async with opened(files.tools(root)) as session:
        for path in (name, "alias"):
            assert await code(session, "read_file", {"path": path}) == "denied"
            assert await code(session, "write_file", {"path": path, "content": "", "overwrite": True}) == "denied"
        assert await code(session, "move_file", {"source": name, "destination": "plain.txt"}) == "denied"
        assert (await session.call("grep", {"pattern": "password"})).data["matches"] == []


@requirement("files.4")
async def test_what_git_keeps_is_read_and_never_written(root: Path) -> None:
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/config").write_text("[core]")
    async with opened(files.tools(root)) as session:
        assert (await session.call("read_file", {"path": ".git/config"})).ok
        for path in (".git/hooks/pre-commit", ".GIT/hooks/x", ".git/config"):
            assert await code(session, "write_file", {"path": path, "content": "", "overwrite": True}) == "denied"


@requirement("files.4")
async def test_what_destroys_is_said_to_and_asked_for(root: Path) -> None:
    kit = files.tools(root)
    destructive = {tool.name for tool in kit if tool.annotations is not None and tool.annotations.destructive}
    assert destructive == {"write_file", "move_file", "delete_file"}
    async with Crib([kit], workspace=root) as crib:
        session = await crib.open("s", owner="ada", namespaces=["files"])
        assert (await session.call("read_file", {"path": "notes.md"})).ok
        for tool, args in (
            ("write_file", {"path": "notes.md", "content": "", "overwrite": True}),
            ("move_file", {"source": "notes.md", "destination": "src/app.py", "overwrite": True}),
            ("delete_file", {"path": "notes.md"}),
        ):
            await session.submit(tool, args)
        assert [question.kind for question in await session.questions()] == ["confirm"] * 3
    assert (root / "notes.md").read_text() == "one\ntwo\nthree\n"


@requirement("files.4")
async def test_nothing_is_replaced_unless_that_is_said(root: Path) -> None:
    async with opened(files.tools(root)) as session:
        assert await code(session, "write_file", {"path": "notes.md", "content": ""}) == "failed"
        moved = {"source": "notes.md", "destination": "src/app.py"}
        assert await code(session, "move_file", moved) == "failed"
        assert (
            await code(session, "move_file", {"source": "notes.md", "destination": "src", "overwrite": True})
            == "failed"
        )
        assert await code(session, "delete_file", {"path": "src"}) == "failed"
        assert await code(session, "delete_file", {"path": "."}) == "denied"
        assert (await session.call("move_file", {**moved, "overwrite": True})).ok
    assert (root / "src/app.py").read_text() == "one\ntwo\nthree\n"


@requirement("files.4")
async def test_a_folder_holds_no_more_than_it_may(root: Path) -> None:
    async with opened(files.tools(root, quota={"file_bytes": 100, "root_bytes": 150, "root_files": 4})) as session:
        assert await code(session, "write_file", {"path": "big", "content": "x" * 101}) == "too_large"
        assert (await session.call("write_file", {"path": "a", "content": "x" * 60})).ok
        assert await code(session, "write_file", {"path": "b", "content": "x" * 90}) == "too_large"
        assert (await session.call("write_file", {"path": "b", "content": "x"})).ok
        assert await code(session, "write_file", {"path": "c", "content": "x"}) == "too_large"
        assert (await session.call("write_file", {"path": "b", "content": "y", "overwrite": True})).ok


@requirement("files.4")
@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(.*a){25}b", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
async def test_no_expression_takes_its_time(root: Path, pattern: str) -> None:
    (root / "evil.txt").write_text(("a" * 3000 + "!\n") * 50)
    async with opened(files.tools(root)) as session:
        result = await session.call("grep", {"pattern": pattern, "path": "evil.txt"}, timeout_s=30)
        assert result.ok


async def test_an_expression_that_cannot_be_searched_for_says_why(root: Path) -> None:
    async with opened(files.tools(root)) as session:
        for pattern in ("(", r"(a)\1", "(?=a)", "(x{1000}){1000}"):
            failure = (await session.call("grep", {"pattern": pattern})).failure
            assert failure is not None
            assert failure.code == "invalid_arguments"
            assert "This expression cannot be used" in failure.message


@requirement("files.5")
async def test_grants_decide_by_the_resolved_path(root: Path) -> None:
    (root / "open").mkdir()
    (root / "open/shut").symlink_to("../src")
    policy = {"grants": {"allow": [f"fs:read:{root}/**", f"fs:write:{root}/open/**"]}}
    async with opened(files.tools(root), policy) as session:
        assert (await session.call("write_file", {"path": "open/a", "content": ""})).ok
        assert await code(session, "write_file", {"path": "src/a", "content": ""}) == "denied"
        assert await code(session, "write_file", {"path": "open/shut/a", "content": ""}) == "denied"
        assert await code(session, "move_file", {"source": "open/a", "destination": "src/a"}) == "denied"
        why = session.why("write_file", {"path": "open/../src/a", "content": ""})
        assert f"fs:write:{root}/src/a" in why.needs[0].capability


@requirement("files.5")
async def test_a_search_passes_over_what_a_grant_speaks_against(root: Path) -> None:
    policy = {"grants": {"allow": [f"fs:read:{root}/**"], "deny": [f"fs:read:{root}/src/**"]}}
    async with opened(files.tools(root), policy) as session:
        assert (await session.call("glob", {"pattern": "**"})).data["files"] == ["notes.md"]
        assert (await session.call("grep", {"pattern": "."})).data["files"] == 1
    async with opened(files.tools(root), {"grants": {"allow": [f"fs:read:{root}/notes.md"]}}) as session:
        assert await code(session, "grep", {"pattern": "."}) == "denied"


def test_a_folder_that_is_not_there_or_cannot_be_named_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a{b}").mkdir()
    for wrong in (tmp_path / "none", tmp_path / "a{b}"):
        with pytest.raises(BadTool, match="root"):
            files.tools(wrong)
    with pytest.raises(BadTool, match="quota"):
        files.tools(tmp_path, quota={"bytes": 1})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@requirement("security.machine.1")
async def test_what_root_makes_belongs_to_whoever_its_folder_does(root: Path) -> None:
    os.chown(root, 12345, 23456)
    async with opened(files.tools(root)) as session:
        assert (await session.call("write_file", {"path": "new/deep/made.txt", "content": "x"})).ok
    for path in (root / "new", root / "new/deep", root / "new/deep/made.txt"):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)

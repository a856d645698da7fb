"""Whole sessions: exported as a file, taken in elsewhere or beside themselves, and deleted with a tombstone."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Context, Crib, Refused, Session, tool
from toolcrib._session.audit import audit, flaws
from toolcrib.cli.verify import differences
from toolcrib.testing.index_check import read_all


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db"


@tool(read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
async def refund(ctx: Context) -> str:
    """Ask first."""
    return str((await ctx.ask("Really?", key="sure")).value)


@tool
async def hang() -> None:
    """Never end by itself."""
    await asyncio.Event().wait()


TOOLS = (echo, refund, hang)


async def until(session: Session, call: str, kind: str) -> None:
    async for event in session.events(call=call):
        if event.kind == kind:
            return


async def fill(crib: Crib, *, hangs: bool = False) -> Session:
    session = await crib.open("s", owner="ada")
    await session.call("echo", {"text": "short"})
    await session.call("echo", {"text": "x" * 100_000})
    await until(session, (await session.submit("refund")).id, "waiting")
    if hangs:
        await until(session, (await session.submit("hang")).id, "started")
    await crib.store.move_cursor("s", "ui", 2)
    return session


async def exported(crib: Crib, id: str = "s") -> list[bytes]:
    return [line async for line in crib.export_session(id)]


@requirement("reliability.keep.7")
async def test_an_exported_session_goes_on_elsewhere(url: str) -> None:
    async with Crib(TOOLS, store="memory:") as crib:
        await fill(crib)
        lines, before = await exported(crib), await read_all(crib.store, "s")
    async with Crib(TOOLS, store=url) as crib:
        row = await crib.import_session(lines)
        assert (row.id, row.owner, row.seq) == ("s", "ada", before[-1].seq)
        assert await read_all(crib.store, "s") == before
        assert await differences(crib.store, "s") == []
        assert await crib.store.cursor("s", "ui") == 2
        session = await crib.open("s", owner="ada")
        (question,) = await session.questions()
        await session.answer(question.id, "accept", "yes", actor="bob")
        assert (await session.result(question.call)).data == "yes"
        with pytest.raises(Refused, match="There is a session 's'"):
            await crib.import_session(lines)


@requirement("reliability.keep.7")
async def test_what_ran_ends_as_unknown_and_runs_nowhere_again(url: str) -> None:
    async with Crib(TOOLS, store=url) as crib:
        await fill(crib, hangs=True)
        row = await crib.import_session(await exported(crib), id="copy", owner="eve")
        assert (row.id, row.owner) == ("copy", "eve")
        calls = {call.tool: call for call in await crib.store.calls("copy", limit=100)}
        assert {name: (call.state, call.code) for name, call in calls.items()} == {
            "default.echo": ("done", None),
            "default.refund": ("done", "cancelled"),
            "default.hang": ("done", "unknown"),
        }
        assert await differences(crib.store, "copy") == []
        assert await differences(crib.store, "s") == []
        assert len({call.id for name in ("s", "copy") for call in await crib.store.calls(name)}) == 8
        await crib.delete_session("s", actor="root", force=True)


@requirement("reliability.keep.7")
async def test_a_file_that_was_changed_is_not_taken_in() -> None:
    async with Crib(TOOLS) as crib:
        await fill(crib)
        lines = await exported(crib)
        text = b"".join(lines)
        broken = [
            lines[:-1],
            lines[:3] + lines[4:],
            [*lines, lines[1]],
            text.replace(b"short", b"sharp").splitlines(keepends=True),
            [b"{}\n"],
            [b"no json\n"],
            [],
            [b'{"toolcrib":"session","version":99}\n'],
        ]
        for some in broken:
            with pytest.raises(Refused) as caught:
                await crib.import_session(some, id="copy")
            assert caught.value.code == "invalid_arguments"
        assert await crib.store.session("copy") is None


@requirement("reliability.keep.7")
async def test_secret_arguments_are_in_no_export() -> None:
    async with Crib(TOOLS) as crib:
        await fill(crib)
        (waiting,) = await crib.store.calls("s", ("waiting",))
        await crib.store.keep("s", f"args:{waiting.id}", b'{"password": "hunter2"}')
        lines = await exported(crib)
        assert b"hunter2" not in b"".join(lines)
        assert json.loads(lines[-2])["secret"] == [waiting.id]
    async with Crib(TOOLS) as crib:
        await crib.import_session(lines)
        assert [call.code for call in await crib.store.calls("s") if call.tool == "default.refund"] == ["cancelled"]


@requirement("reliability.keep.8")
async def test_a_deleted_session_leaves_a_tombstone_and_nothing_else(url: str) -> None:
    async with Crib(TOOLS, store=url) as crib:
        session = await fill(crib)
        seq = (await read_all(crib.store, "s"))[-1].seq
        calls = await crib.store.calls("s")
        stone = await crib.delete_session("s", actor="root")
        assert (stone.session, stone.owner, stone.actor, stone.events, stone.calls) == ("s", "ada", "root", seq, 3)
        assert len(stone.sha256) == 64
        assert await crib.store.session("s") is None
        assert [await crib.store.call(call.id) for call in calls] == [None] * 3
        assert await crib.deleted_sessions("ada") == [stone]
        assert await crib.deleted_sessions("eve") == []
        with pytest.raises(Refused, match="no session"):
            await crib.delete_session("s", actor="root")
        again = await crib.open("s", owner="eve")
        assert await again.questions() == []
        assert again is not session
        entries = audit("toolcrib.deleted", "toolcrib", await read_all(crib.store, "toolcrib.deleted"))
        assert [entry["arguments"]["session"] for entry in entries] == ["s"]
        assert list(flaws([json.dumps(entry) for entry in entries])) == []


@requirement("reliability.keep.8")
async def test_a_session_in_which_calls_run_is_deleted_by_force_only(url: str) -> None:
    async with Crib(TOOLS, store=url) as crib:
        await fill(crib, hangs=True)
        with pytest.raises(Refused, match="Calls run") as caught:
            await crib.delete_session("s", actor="root")
        assert caught.value.code == "conflict"
        assert await crib.deleted_sessions() == []
        await crib.delete_session("s", actor="root", force=True)
        assert await crib.store.session("s") is None


async def test_what_the_crib_keeps_for_itself_is_neither_exported_nor_deleted() -> None:
    async with Crib(TOOLS) as crib:
        await fill(crib)
        await crib.delete_session("s", actor="root")
        with pytest.raises(Refused, match="no session"):
            await crib.delete_session("toolcrib.deleted", actor="root")
        with pytest.raises(Refused, match="no session"):
            await exported(crib, "toolcrib.deleted")


@requirement("reliability.keep.7")
async def test_a_session_that_was_logged_out_of_stays_so(url: str) -> None:
    async with Crib(TOOLS) as crib:
        session = await crib.open("s", owner="ada")
        await session.close()
        lines = await exported(crib)
    async with Crib(TOOLS, store=url) as crib:
        await crib.import_session(lines)
        attached = await crib._session_table.attached("s")
        assert attached is not None
        assert not (await attached.call("refund")).ok


@requirement("reliability.keep.7")
@pytest.mark.parametrize(
    ("name", "whose"), [("toolcrib.audit", "ada"), ("copy", "toolcrib"), ("a b", "ada"), ("x" * 256, "ada")]
)
async def test_a_session_is_taken_in_under_no_name_that_nobody_could_open(name: str, whose: str) -> None:
    async with Crib(TOOLS) as crib:
        await fill(crib)
        lines = await exported(crib)
        with pytest.raises(Refused) as refused:
            await crib.import_session(lines, id=name, owner=whose)
        assert refused.value.code == "invalid_arguments"
        assert await crib.store.session(name) is None


@requirement("reliability.keep.7")
async def test_what_is_kept_beside_a_log_is_exported_and_taken_in_with_it(url: str) -> None:
    async with Crib(TOOLS, store=url) as crib:
        await fill(crib)
        await crib.store.keep("s", "picture", b"\x00\xff" * 1000)
        lines = await exported(crib)
        for copy in ("first", "second", "third"):  # its calls have other ids in each
            await crib.import_session(lines, id=copy)
            assert await crib.store.kept(copy, "picture") == b"\x00\xff" * 1000
            assert await differences(crib.store, copy) == []
        ids = [row.id for copy in ("s", "first", "second", "third") for row in await crib.store.calls(copy)]
        assert len(ids) == len(set(ids)) == 4 * len(await crib.store.calls("s"))


def changed(lines: list[bytes], change: Callable[[list[Any]], None]) -> list[bytes]:
    """An export that says something else, with a checksum that fits."""
    values = [json.loads(line) for line in lines[:-1]]
    change(values)
    texts = [json.dumps(value).encode() + b"\n" for value in values]
    end = {"events": sum("event" in value for value in values), "sha256": hashlib.sha256(b"".join(texts)).hexdigest()}
    return [*texts, json.dumps({"end": end}).encode() + b"\n"]


def without_beginning(values: list[Any]) -> None:
    """Have the first call begin with its end."""
    (accepted, *_) = [value["event"] for value in values if "event" in value and value["event"][3] == "accepted"]
    accepted[3:] = ["done", {"ok": True, "data": None, "duration_ms": 0}]


@requirement("reliability.keep.7")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda values: values.insert(-1, {"kept": ["picture", "no base 64!"]}), "base64"),
        (lambda values: values[0].update(version=99), "version 99"),
        (lambda values: values[0].update(toolcrib="backup"), "version"),
        (lambda values: values[1]["event"].__setitem__(0, 7), "event 1 is missing"),
        (without_beginning, "The log does not hold"),
    ],
)
async def test_a_file_that_fits_its_checksum_and_yet_does_not_hold_is_not_taken_in(
    change: Callable[[list[Any]], None], why: str
) -> None:
    async with Crib(TOOLS) as crib:
        await fill(crib)
        lines = await exported(crib)
    async with Crib(TOOLS) as crib:
        with pytest.raises(Refused) as caught:
            await crib.import_session(changed(lines, change), id="copy")
        assert caught.value.code == "invalid_arguments"
        assert why in caught.value.message
        assert await crib.store.session("copy") is None
        assert (await crib.import_session(changed(lines, lambda values: None))).id == "s"

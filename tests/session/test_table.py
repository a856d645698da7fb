"""`session_tool_state`: Aomi's table as a read-only view, read here with nothing but `sqlite3`."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import Gate, Place, first, log
from toolcrib import ToolFailure, tool
from toolcrib.testing import FakeClock


@tool(read_only=True)
async def say(value: Any) -> Any:
    """Say it."""
    return value


@tool(background=True)
async def export() -> dict[str, int]:
    """Export."""
    return {"rows": 3}


@tool(read_only=True)
async def fail() -> None:
    """Fail."""
    raise ToolFailure("failed", "it's broken")


@tool(requires_confirmation=True)
async def approve() -> str:
    """Wait for somebody."""
    return "approved"


def row(tmp_path: Path, session: str = "s-1") -> dict[str, Any]:
    """The row of a session, as plain sqlite3 gives it to another process."""
    with closing(sqlite3.connect(f"file:{tmp_path}/log.db?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        found = db.execute("SELECT * FROM session_tool_state WHERE session_id = ?", (session,)).fetchone()
        return {**found, "handler_state": json.loads(found["handler_state"])}


def results(tmp_path: Path) -> list[Any]:
    return [call["result"] for call in row(tmp_path)["handler_state"]["completed_calls"]]


async def test_a_session_is_one_row_with_owner_times_and_state(file_place: Place, tmp_path: Path) -> None:
    async with file_place.crib(say) as crib:
        before = datetime.now(UTC)
        session = await crib.open("s-1", owner="ada")
        opened = datetime.now(UTC)
        await session.call("say", {"value": 1})
        await log(session)
        found = row(tmp_path)
        assert list(found) == ["session_id", "user_id", "last_updated", "handler_state", "created_at"]
        assert (found["session_id"], found["user_id"]) == ("s-1", "ada")
        created, updated = (datetime.fromisoformat(found[name]) for name in ("created_at", "last_updated"))
        rounding = timedelta(milliseconds=1)
        assert before - rounding <= created <= opened
        assert opened - rounding <= updated <= datetime.now(UTC)


async def test_the_view_cannot_be_written(file_place: Place, tmp_path: Path) -> None:
    async with file_place.crib(say) as crib:
        await crib.open("s-1", owner="ada")
        with closing(sqlite3.connect(tmp_path / "log.db")) as db:
            for statement in ("UPDATE session_tool_state SET user_id = 'bob'", "DELETE FROM session_tool_state"):
                with pytest.raises(sqlite3.OperationalError, match="cannot modify"):
                    db.execute(statement)


@requirement("aomi.table.2")
async def test_the_state_has_namespaces_and_tools_as_last_logged(file_place: Place, tmp_path: Path) -> None:
    @tool(namespace="time", read_only=True)
    async def now() -> int:
        """Tell the time."""
        return 0

    def seen() -> tuple[list[str], list[str]]:
        state = row(tmp_path)["handler_state"]
        assert list(state) == ["namespaces", "available_tools", "completed_calls"]
        return state["namespaces"], state["available_tools"]

    async with file_place.crib(say, now) as crib:
        session = await crib.open("s-1", owner="ada")
        assert seen() == (["default"], ["default.say"])
        await crib.open("s-1", owner="ada", namespaces=["default", "time"])
        assert seen() == (["default", "time"], ["default.say", "time.now"])
        crib.remove("default.say")
        await first(session, "tools_changed")
        assert seen() == (["default", "time"], ["time.now"])


@requirement("aomi.table.3")
async def test_completed_calls_are_what_the_model_has_not_consumed_in_order(file_place: Place, tmp_path: Path) -> None:
    async with file_place.crib(say, fail, export) as crib:
        session = await crib.open("s-1", owner="ada")
        said = await session.submit("say", {"value": {"status": "success"}})
        await session.result(said.id)
        failed = await session.submit("fail")
        await session.result(failed.id)
        exported = (await session.call("export")).data["id"]
        await session.result(exported)
        assert row(tmp_path)["handler_state"]["completed_calls"] == [
            {"call_id": said.id, "tool_name": "say", "sync": True, "result": {"Ok": {"status": "success"}}},
            {"call_id": failed.id, "tool_name": "fail", "sync": True, "result": {"Err": "it's broken"}},
            {"call_id": exported, "tool_name": "export", "sync": False, "result": {"Ok": {"rows": 3}}},
        ]
        await session.consume("ui", 10_000)
        assert len(results(tmp_path)) == 3
        await session.consume("model", (await session.status(failed.id)).seq)
        assert results(tmp_path) == [{"Ok": {"rows": 3}}]


@requirement("aomi.table.3")
@pytest.mark.parametrize(
    "value", [None, True, False, 0, 1.5, "text", '{"a": 1}', "", [], [1, [2]], {}, "x" * 100_000, {"k": "y" * 70_000}]
)
async def test_any_json_comes_out_as_it_went_in(file_place: Place, tmp_path: Path, value: Any) -> None:
    async with file_place.crib(say) as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("say", {"value": value})
        assert (await session.result(call.id)).ok
        await crib.store.flush()
        assert results(tmp_path) == [{"Ok": value}]


@requirement("aomi.table.4")
async def test_the_base_table_is_indexed_by_owner_and_by_last_update(file_place: Place, tmp_path: Path) -> None:
    async with file_place.crib():
        pass
    with closing(sqlite3.connect(tmp_path / "log.db")) as db:
        for column, how in (("owner", "owner = 'ada'"), ("updated_at", "updated_at < 5")):
            plan = db.execute(f"EXPLAIN QUERY PLAN SELECT id FROM sessions WHERE {how}").fetchall()
            assert re.search("USING (COVERING )?INDEX", str(plan)), f"no index on {column}: {plan}"


@requirement("aomi.table.3")
async def test_story_8_the_rows_before_and_after_a_logout_tell_the_story(file_place: Place, tmp_path: Path) -> None:
    gate = Gate()

    @tool(idempotent=True)
    async def brief() -> str:
        """Take a moment."""
        await gate.passed()
        return "finished"

    @tool(idempotent=True)
    async def long() -> None:
        """Take too long."""
        await asyncio.Event().wait()

    clock = FakeClock()
    async with file_place.crib(brief, long, approve, clock=clock) as crib:
        session = await crib.open("s-1", owner="ada")
        for name in ("brief", "long", "approve"):
            await session.submit(name)
        assert results(tmp_path) == []
        logout = asyncio.create_task(session.close(timeout=30))
        await first(session, "closing")
        gate.opened.set()
        await first(session, "done")
        await clock.advance(30)
        await logout
        assert results(tmp_path) == [{"Ok": "finished"}, {"Err": "Timed out during logout"}]
    async with file_place.crib(brief, long, approve, clock=clock) as crib:
        session = await crib.open("s-1", owner="ada")
        await session.consume("model", (await session.completed("model"))[-1].seq)
        (question,) = await session.questions()
        await session.answer(question.id, "accept")
        await session.result(question.call)
        assert results(tmp_path) == [{"Ok": "approved"}]

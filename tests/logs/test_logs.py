"""A log that version 0.1.0 wrote opens, means what it meant, goes on where it stopped, and is never written anew."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.logs import shop
from tests.logs.views import views
from tests.requirements import requirement
from tests.session.place import first
from toolcrib.testing.index_check import check_index

LOGS = Path(__file__).parents[1] / "data" / "logs"
KINDS = 44


class Recorded:
    """A copy of a recorded log, what it meant when it was recorded, and a look at its rows."""

    def __init__(self, url: str, views: str) -> None:
        self.url = url
        self.views: dict[str, Any] = json.loads((LOGS / views).read_text("utf-8"))

    async def rows(self) -> dict[str, list[Any]]:
        """Every row of the log and of the values beside it, as the database holds them."""
        events = "SELECT {}, seq, at, call, kind, data, large FROM events ORDER BY session, seq"
        kept = "SELECT session, id, data FROM kept ORDER BY session, id"
        if self.url.startswith("sqlite"):
            with sqlite3.connect(self.url.removeprefix("sqlite:///")) as db:
                found = {"events": db.execute(events.format("session")).fetchall(), "kept": db.execute(kept).fetchall()}
            db.close()
            return found
        connection = await asyncpg.connect(self.url)
        try:
            return {
                "events": [tuple(row) for row in await connection.fetch(events.format("session"))],
                "kept": [tuple(row) for row in await connection.fetch(kept)],
            }
        finally:
            await connection.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Recorded:
    if request.param == "sqlite":
        shutil.copy(LOGS / "0.1.0.db", tmp_path / "log.db")
        return Recorded(f"sqlite:///{tmp_path / 'log.db'}", "0.1.0.db.json")
    url: str = request.getfixturevalue("empty_postgres_url")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute((LOGS / "0.1.0.sql").read_text("utf-8"))
    finally:
        await connection.close()
    return Recorded(url, "0.1.0.sql.json")


def still_secret(line: str, over: set[str]) -> str:
    """A line of an export; what was kept of the secrets of calls that are over is deleted when the file is opened."""
    if not line.startswith('{"cursors"'):
        return line
    value = json.loads(line)
    value["secret"] = [call for call in value["secret"] if call not in over]
    return json.dumps(value, separators=(",", ":")) + "\n"


def saying_that_it_waits(node: Any, last: dict[str, str]) -> Any:
    """A node of the progress of 0.1.0, which did not say that its call waits for somebody."""
    waits = last.get(node["call_id"]) in ("waiting", "paused")
    return {**node, "status": "waiting"} if waits else node


@requirement("store.10")
async def test_a_log_of_an_earlier_version_means_what_it_meant(recorded: Recorded) -> None:
    before = await recorded.rows()
    over = {row[3] for row in before["events"] if row[4] == "done"}
    moves = ("waiting", "paused", "answered", "started", "done")
    last = {row[3]: row[4] for row in before["events"] if row[4] in moves}
    assert len({row[4] for row in before["events"]}) == KINDS
    made = await views(recorded.url)
    assert made.keys() == recorded.views.keys()
    for session, shown in recorded.views.items():
        for name, view in shown.items():
            expected = view
            if name == "export":
                expected = [still_secret(line, over) for line in view]
            elif name == "progress":
                expected = [saying_that_it_waits(node, last) for node in view]
            assert made[session][name] == expected, (session, name)
    after = await recorded.rows()
    assert set(before["events"]) <= set(after["events"])
    assert after["kept"] == [row for row in before["kept"] if not (set(row[1].split(":")[1:2]) & over)]


@requirement("store.10")
async def test_the_waiting_calls_of_an_earlier_version_go_on(recorded: Recorded) -> None:
    before = await recorded.rows()
    async with shop.crib(recorded.url) as crib:
        session = await crib.open("waiting", owner="ada")
        asked = {one.tool.partition(".")[2]: one for one in await session.questions()}
        assert sorted(asked) == ["choose", "pay", "pick", "refund", "ship"]
        answers: tuple[tuple[str, str, Any], ...] = (
            ("refund", "cleo", None),
            ("pay", "ada", None),
            ("ship", "ada", None),
            ("choose", "ada", "b"),
            ("pick", "ada", {"picked": 1}),
        )
        results = {}
        for tool, actor, value in answers:
            await session.answer(asked[tool].id, "accept", value, actor=actor)
            results[tool] = (await session.result(asked[tool].call)).data
        assert results == {
            "refund": "refunded 100 of B-1",
            "pay": "paid 2",
            "ship": "shipped B-2",
            "choose": "b",
            "pick": {"picked": 1},
        }
        await check_index(crib.store, "waiting")
    after = await recorded.rows()
    assert len(after["events"]) > len(before["events"])
    assert set(before["events"]) <= set(after["events"])


@requirement("store.10")
async def test_a_waiting_run_of_an_earlier_version_goes_on(recorded: Recorded) -> None:
    before = await recorded.rows()
    async with shop.crib(recorded.url) as crib:
        session = await crib.open("talk", owner="ada")
        (question,) = await session.questions()
        await session.answer(question.id, "accept", actor="bob")
        done = await first(session, "done", question.call)
        assert (await session.result(done.call or "")).data == "paid 9"
        agents: Any = crib.agents
        assert (await agents.settled(session)).answer == "Now I have time."  # to the message that was queued then
        await check_index(crib.store, "talk")
    assert set(before["events"]) <= set((await recorded.rows())["events"])

"""Statements over the index of calls are planned by what they look for, however many calls of others there are."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib.store.postgres.connection import DatabaseAddress
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.store.schema import queries

SESSIONS = 2000
PLAN = "EXPLAIN (FORMAT JSON) EXECUTE asked({})"

Node = dict[str, Any]


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[Any]:
    """A connection as the store has them, to a database with some thousands of sessions and calls."""
    store = PostgresStore(postgres_url)
    await store.start("planner")
    await store.close()
    connection = await DatabaseAddress(postgres_url).connect(60)
    await connection.execute(
        "INSERT INTO sessions (id, owner, created_at, updated_at)"
        f" SELECT 's' || n, 'o' || n % 100, n, n FROM generate_series(1, {SESSIONS}) n"
    )
    for state in ("done", "queued", "waiting", "running"):
        await connection.execute(
            "INSERT INTO calls (id, session, owner, tool, effect, state, attempt, worker, accepted_at, background,"
            " crashes, accepted_seq, expires_at, queued_at) SELECT $1 || s.n || '-' || i, s.n, s.owner, 'shop.pay',"
            " 'once', $1, 0, 'w', i, false, 0, i,"
            " CASE WHEN $1 = 'waiting' THEN i END, CASE WHEN $1 = 'queued' THEN i END"
            " FROM sessions s, generate_series(1, CASE WHEN $1 = 'done' THEN 4 ELSE 1 END) i",
            state,
        )
    await connection.execute("ANALYZE")
    yield connection
    await connection.close()


async def planned(connection: Any, name: str, *values: str) -> list[Node]:
    """All parts of the plan of a statement; it reads no table from one end to the other."""
    await connection.execute(f"PREPARE asked AS {queries('postgres')[name]}")
    ((plan,),) = await connection.fetch(PLAN.format(", ".join(values)))
    await connection.execute("DEALLOCATE asked")
    found = list(parts(json.loads(plan)[0]["Plan"]))
    assert not [part for part in found if part["Node Type"] == "Seq Scan"], "it looks at a whole table"
    return found


async def scans(connection: Any, name: str, *values: str) -> list[Node]:
    """The indexes that a statement goes by."""
    return over_indexes(await planned(connection, name, *values))


def over_indexes(found: list[Node]) -> list[Node]:
    """Those parts of a plan that go by an index."""
    return [part for part in found if "Index Name" in part]


def parts(plan: Node) -> Iterator[Node]:
    """All parts of a plan."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from parts(below)


@requirement("store.1")
@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("calls_open", "{waiting,queued,running}"),
        ("calls_waiting", "{waiting}"),
        ("calls_busy", "{queued,running}"),
        ("calls", "{}"),
    ],
)
async def test_the_calls_of_a_session_are_found_without_a_look_at_those_of_others(
    connection: Any, name: str, states: str
) -> None:
    found = await scans(connection, name, "'s7'", f"'{states}'", "NULL", "100000")
    assert all("Index Cond" in scan for scan in found), found
    looked = [scan for scan in found if scan["Index Name"].startswith("calls")]
    assert looked
    assert all("session = " in scan["Index Cond"] for scan in looked), looked


@requirement("store.1")
@pytest.mark.parametrize("before", [("NULL", "NULL"), ("1000", "'s1000'")])
async def test_the_sessions_of_an_owner_are_found_page_by_page(connection: Any, before: tuple[str, str]) -> None:
    (scan,) = await scans(connection, "sessions", "'o7'", "100", *before)
    assert scan["Index Name"] == "sessions_owner"
    assert "owner = " in scan["Index Cond"]
    assert "updated_at <= " in scan["Index Cond"]


@requirement("store.1", "engine.4")
async def test_what_is_lost_is_found_without_a_look_at_what_is_done_or_waits(connection: Any) -> None:
    plan = await planned(connection, "stale", "15", "10", "1000", "false", "true", "NULL")
    found = over_indexes(plan)
    over_calls = {scan["Index Name"] for scan in found if scan["Index Name"].startswith("calls")}
    assert over_calls <= {"calls_queued", "calls_parked", "calls_parked_here", "calls_running"}
    (queued,) = (scan for scan in found if scan["Index Name"] == "calls_queued")
    assert "queued_at < " in queued["Index Cond"]
    others = [scan for scan in found if scan["Index Name"].startswith("sessions")]
    assert all("Index Cond" in scan for scan in others), others
    pages = [{scan["Index Name"] for scan in over_indexes(list(parts(part)))} for part in plan if limits(part)]
    assert {"calls_queued"} in pages  # no more of them are looked at than are wanted, before anything else is


def limits(part: Node) -> bool:
    """Whether it ends after so many rows."""
    return bool(part["Node Type"] == "Limit")

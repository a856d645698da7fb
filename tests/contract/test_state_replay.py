"""The state is what the log says, whatever is declared now; and no change of it is tried for ever."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, log
from tests.requirements import requirement
from toolcrib import Change, Context, Crib, Result, Session, tool
from toolcrib.cli.verify import differences, mend
from toolcrib.events import StateRecord
from toolcrib.state import Key, State
from toolcrib.store import Conflict, Store, Write, open_store
from toolcrib.store.codec import Stored, encode
from toolcrib.store.memory import MemoryStore
from toolcrib.testing import check_index

FIRST: dict[str, Any] = {"set": 1, "add": 1, "append": ["a"], "merge": {"a": 1}}
DECLARED: dict[str, Any] = {
    "nothing": {},
    "exclusive": {"k": "exclusive"},
    "add": {"k": "add"},
    "append": {"k": "append"},
    "merge": {"k": "merge"},
    "for a run": {"k": Key(lives="run")},
    "append for a run": {"k": Key("append", "run")},
}
each_now = pytest.mark.parametrize("now", list(DECLARED))


@tool(effect="idempotent", timeout=1)
async def change(key: str, op: str, value: Any = None) -> Result:
    """Change a key."""
    return Result("changed", changes=[{"op": op, "key": key, "value": value}])


@tool(read_only=True)
async def seen(ctx: Context) -> dict[str, Any]:
    """What a call sees."""
    return dict(ctx.state)


async def write(session: Session, op: str, value: Any, **options: Any) -> Result:
    return await session.call("change", {"key": "k", "op": op, "value": value}, **options)


@requirement("reliability.state.1")
@each_now
@pytest.mark.parametrize("op", ["set", "add", "append", "merge"])
@pytest.mark.parametrize("then", ["exclusive", "own"])
async def test_what_was_committed_reads_the_same_whatever_is_declared_later(
    open_crib: OpenCrib, op: str, then: str, now: str
) -> None:
    keys: dict[str, Any] = {} if then == "exclusive" or op == "set" else {"k": op}
    crib = await open_crib(change, seen, state_keys=keys)
    session = await crib.open("s", owner="ada")
    assert (await write(session, op, FIRST[op])).ok
    assert (await write(session, op, FIRST[op])).ok
    before = dict(session.state.now)

    crib = await open_crib(change, seen, state_keys=DECLARED[now])
    session = await crib.open("s", owner="ada")
    assert (dict(session.state.now), session.state.revision) == (before, 2)
    assert (await session.call("seen", run="r1")).data == before
    for later in FIRST:
        assert code(await write(session, later, FIRST[later])) in (None, "failed")
    await check_index(crib.store, "s")


@requirement("reliability.state.1")
@each_now
async def test_what_lived_for_a_run_stays_with_it_whatever_is_declared_later(open_crib: OpenCrib, now: str) -> None:
    crib = await open_crib(change, seen, state_keys={"k": Key("append", "run")})
    session = await crib.open("s", owner="ada")
    for run in ("r1", "r2"):
        assert (await write(session, "append", run, run=run)).ok
    crib = await open_crib(change, seen, state_keys=DECLARED[now])
    session = await crib.open("s", owner="ada")
    assert [(await session.call("seen", run=run)).data for run in ("r1", "r2", None)] == [
        {"k": ["r1"]},
        {"k": ["r2"]},
        {},
    ]


@requirement("reliability.state.1")
async def test_a_commit_says_in_which_mode_each_key_was_changed(open_crib: OpenCrib) -> None:
    crib = await open_crib(change, seen, state_keys={"k": "add", "of_run": Key("append", "run")})
    session = await crib.open("s", owner="ada")
    await write(session, "add", 1)
    await session.call("change", {"key": "of_run", "op": "append", "value": 1}, run="r")
    await session.call("change", {"key": "plain", "op": "set", "value": 1})
    states = [event.fields["state"] for event in await log(session, "done")]
    assert [state["keys"] for state in states] == [
        {"k": "add"},
        {"of_run": {"mode": "append", "lives": "run"}},
        {"plain": "exclusive"},
    ]


@requirement("reliability.state.2")
async def test_changed_declarations_hold_from_then_on(open_crib: OpenCrib) -> None:
    crib = await open_crib(change, seen)
    session = await crib.open("s", owner="ada")
    await write(session, "set", 5)
    crib = await open_crib(change, seen, state_keys={"k": "add"})
    session = await crib.open("s", owner="ada")
    assert code(await write(session, "set", 1)) == "failed"
    assert (await write(session, "add", 2)).ok
    assert dict(session.state.now) == {"k": 7}


@requirement("reliability.state.1")
@pytest.mark.parametrize("keys", list(DECLARED.values()), ids=list(DECLARED))
def test_commits_of_older_versions_are_replayed_without_being_judged(keys: Any) -> None:
    state = State(keys)
    for revision, (op, value) in enumerate([("set", 1), ("add", 2), ("set", ["a"]), ("append", "b")], 1):
        kind: Any = op
        made = Change(kind, "k", value)
        assert state.replay(StateRecord(0, revision, [made]), f"c{revision}") is None
    assert (dict(state.now), state.revision) == ({"k": ["a", "b"]}, 4)


@requirement("reliability.state.1")
def test_a_commit_of_an_older_version_for_a_run_belongs_to_it_as_far_as_is_declared() -> None:
    state = State({"k": Key("append", "run")})
    changes = [Change("append", "k", 1), Change("set", "other", 2)]
    state.replay(StateRecord(0, 1, changes, run="r"), "c1")
    assert (dict(state.now), dict(state.snapshot("r"))) == ({"other": 2}, {"k": [1], "other": 2})


@requirement("reliability.state.5")
def test_a_replay_tells_what_is_wrong_and_goes_on() -> None:
    state = State()
    state.commit([Change("set", "k", 1)], 0, "c1")
    append = Change("append", "k", "a")
    problem = state.replay(StateRecord(0, 2, [append], {"k": "append"}), "c2")
    assert problem is not None
    assert problem.problem == "type"
    problem = state.replay(StateRecord(0, 4, [append], {"k": "append"}), "c4")
    assert problem is not None
    assert problem.problem == "gap"
    assert (dict(state.now), state.revision) == ({"k": ["a", "a"]}, 4)


class Contended(MemoryStore):
    """A store where another process always changes the state just before."""

    contended: asyncio.Event

    async def commit(self, write: Write) -> Conflict | None:
        """Somebody is faster."""
        if write.revision is not None and write.row is not None and write.row.tool == "default.slow":
            last = write.revision[0]
            state = State({"k": "add"})
            state.revision = last
            done = {"ok": True, "state": state.record([Change("add", "k", 1)], last)}
            other = Write(write.session, [(0.0, None, "done", Stored(encode(done)))], revision=(last, last + 1))
            await super().commit(other)
            self.contended.set()
            await asyncio.sleep(0)
        return await super().commit(write)


@tool(effect="idempotent", timeout=60)
async def slow() -> Result:
    """Change a key that others change all the time."""
    return Result("changed", changes=[{"op": "add", "key": "k", "value": 1}])


async def contended() -> tuple[Crib, Session, str]:
    store = Contended()
    store.contended = asyncio.Event()
    crib = Crib([slow], store=store, state_keys={"k": "add"})
    await crib.start()
    session = await crib.open("s", owner="ada")
    call = await session.submit("slow")
    await store.contended.wait()
    return crib, session, call.id


@requirement("reliability.state.3")
async def test_a_call_whose_state_is_contended_for_ever_can_be_cancelled() -> None:
    crib, session, call = await contended()
    async with asyncio.timeout(30):
        assert await session.cancel(call)
        result = await session.result(call)
    assert (code(result), result.metadata["unsaved"]) == ("cancelled", "changed")
    await crib.stop()


@requirement("reliability.state.3")
async def test_a_call_whose_state_is_contended_for_ever_does_not_hold_up_a_logout() -> None:
    crib, session, call = await contended()
    async with asyncio.timeout(30):
        closed = await session.close(timeout=0.1)
        result = await session.result(call)
    assert (closed.timed_out, code(result)) == (1, "timeout")
    await crib.stop()


@requirement("reliability.state.3")
async def test_a_call_whose_state_is_contended_for_ever_ends_at_its_timeout() -> None:
    crib, session, first = await contended()
    async with asyncio.timeout(30):
        result = await session.call("slow", timeout_s=0.2)
        assert await session.cancel(first)
    assert code(result) == "timeout"
    await crib.stop()


@pytest.fixture
async def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/log.db")


def damage(path: Path, sql: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute(sql)
    db.close()


@requirement("reliability.state.3", "reliability.state.5")
async def test_a_revision_that_the_log_does_not_know_ends_the_call_and_is_found_and_mended(
    open_crib: OpenCrib, tmp_path: Path
) -> None:
    crib = await open_crib(change, seen, state_keys={"k": "add"})
    session = await crib.open("s", owner="ada")
    await write(session, "add", 1)
    await crib.stop()
    damage(tmp_path / "log.db", "UPDATE sessions SET revision = 7")
    crib = await open_crib(change, seen, state_keys={"k": "add"})
    session = await crib.open("s", owner="ada")
    async with asyncio.timeout(30):
        assert code(await write(session, "add", 1)) == "unavailable"
    assert [one.problem for one in await differences(crib.store, "s")] == [
        "state revision: the log says 1, the index 7"
    ]
    assert (await mend(crib.store, "s")).left == []
    assert (await write(session, "add", 1)).ok
    assert dict(session.state.now) == {"k": 2}


@requirement("reliability.state.5")
@pytest.mark.parametrize(
    ("new", "problem"),
    [
        ("json_set(data, '$.state.revision', 3)", "the state at event 8 has revision 3 after 1"),
        ("json_set(data, '$.state.revision', 1)", "the state at event 8 has revision 1 after 1"),
        ("json_set(data, '$.state.changes[0].op', 'append')", "the state at event 8: State key 'k' holds"),
        ("json_remove(data, '$.state')", "state revision: the log says 1, the index 2"),
    ],
)
async def test_verify_finds_a_state_that_does_not_follow_from_the_log(
    open_crib: OpenCrib, tmp_path: Path, new: str, problem: str
) -> None:
    crib = await open_crib(change, seen, state_keys={"k": "add"})
    session = await crib.open("s", owner="ada")
    await write(session, "add", 1)
    await write(session, "add", 1)
    assert await differences(crib.store, "s") == []
    last = (await log(session, "done"))[-1].seq
    await crib.stop()
    damage(tmp_path / "log.db", f"UPDATE events SET data = {new} WHERE kind = 'done' AND seq = {last}")
    crib = await open_crib(change, seen)
    found = [one.problem for one in await differences(crib.store, "s")]
    assert any(one.startswith(problem.replace("event 8", f"event {last}")) for one in found), found
    with pytest.raises(AssertionError):
        await check_index(crib.store, "s")


@requirement("reliability.state.4")
async def test_a_store_that_was_put_in_later_tells_what_others_committed(tmp_path: Path) -> None:
    """As `toolcrib --store` does."""
    url = f"sqlite:///{tmp_path}/log.db"

    @tool(idempotent=True)
    def count() -> Result:
        """Count."""
        return Result("counted", changes=[Change("add", "total", 1)])

    @tool(read_only=True)
    def total(ctx: Context) -> int:
        """How many were counted."""
        return int(ctx.state.get("total", 0))

    made = Crib([count, total], state_keys={"total": "add"})
    made.store = made.pipeline.store = open_store(url)
    async with made, Crib([count, total], store=url, state_keys={"total": "add"}) as other:
        session, elsewhere = await made.open("s", owner="ada"), await other.open("s", owner="ada")
        for number in range(1, 4):
            assert (await elsewhere.call("count")).ok
            assert (await session.call("total")).data == number

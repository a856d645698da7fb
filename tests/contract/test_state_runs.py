"""contract.state.2: how keys may be changed, and keys that live for a run alone."""

import asyncio
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, log, parked
from tests.requirements import requirement
from toolcrib import Change, Context, Result, Session, tool
from toolcrib.state import Key, State

KEYS = {"notes": Key("append", "run"), "plan": Key(lives="run"), "visits": "add"}


@tool(effect="idempotent")
async def change(key: str, op: str, value: Any = None) -> Result:
    """Change a key."""
    return Result(changes=[{"op": op, "key": key, "value": value}])


@tool(read_only=True)
async def seen(ctx: Context) -> dict[str, Any]:
    """What a call sees."""
    return dict(ctx.state)


async def note(session: Session, key: str, op: str, value: Any, run: str | None) -> Result:
    return await session.call("change", {"key": key, "op": op, "value": value}, run=run)


async def state(session: Session, run: str | None = None) -> Any:
    return (await session.call("seen", run=run)).data


@requirement("contract.state.2")
@pytest.mark.parametrize("op", ["set", "merge", "append", "add", "delete"])
@pytest.mark.parametrize("mode", ["exclusive", "add", "append", "merge"])
def test_a_commutative_key_takes_its_one_op_and_an_exclusive_one_any(mode: Any, op: Any) -> None:
    before = {"merge": {}, "append": [], "add": 1}.get(op if mode == "exclusive" else mode)
    value = {"merge": {"a": 1}, "append": 2, "add": 2}.get(op)
    state = State({"k": mode})
    first: Any = "set" if mode == "exclusive" else mode
    begun = state.commit([Change(op=first, key="k", value=[] if first == "append" else before)], 0, "c1")
    assert begun is None
    problem = state.check([Change(op=op, key="k", value=value)], state.revision)
    assert (problem is None) is (mode in ("exclusive", op))
    if problem is not None:
        assert problem.problem == "op"


@requirement("contract.state.2")
async def test_a_key_that_lives_for_a_run_is_seen_by_its_run_alone(open_crib: OpenCrib) -> None:
    crib = await open_crib(change, seen, state_keys=KEYS)
    session = await crib.open("s", owner="ada")
    for run, text in (("r1", "a"), ("r2", "b"), ("r1", "c")):
        assert (await note(session, "notes", "append", text, run)).ok
    assert (await note(session, "visits", "add", 1, "r1")).ok
    assert await state(session, "r1") == {"notes": ["a", "c"], "visits": 1}
    assert await state(session, "r2") == {"notes": ["b"], "visits": 1}
    assert await state(session) == {"visits": 1}
    assert code(await note(session, "notes", "set", [], "r1")) == "failed"


@requirement("contract.state.2")
async def test_what_lived_for_a_run_goes_with_it_also_after_a_restart(open_crib: OpenCrib) -> None:
    crib = await open_crib(change, seen, state_keys=KEYS)
    session = await crib.open("s", owner="ada")
    for run in ("r1", "r2"):
        await note(session, "plan", "set", f"plan of {run}", run)
    crib = await open_crib(change, seen, state_keys=KEYS)
    session = await crib.open("s", owner="ada")
    assert await state(session, "r1") == {"plan": "plan of r1"}
    await session.end_run("r1")
    assert [event.fields for event in await log(session, "run_ended")] == [{"run": "r1"}]
    assert await state(session, "r1") == {}
    assert await state(session, "r2") == {"plan": "plan of r2"}
    crib = await open_crib(change, seen, state_keys=KEYS)
    session = await crib.open("s", owner="ada")
    assert (await state(session, "r1"), await state(session, "r2")) == ({}, {"plan": "plan of r2"})


@requirement("contract.state.2", "contract.state.3")
async def test_calls_of_two_runs_do_not_conflict_over_a_key_of_a_run(open_crib: OpenCrib) -> None:
    go = asyncio.Event()

    @tool(effect="once")
    async def plan(ctx: Context, text: str) -> Result:
        """Make a plan."""
        await go.wait()
        return Result(changes=[{"op": "set", "key": "plan", "value": text}])

    crib = await open_crib(plan, seen, state_keys=KEYS)
    session = await crib.open("s", owner="ada")
    calls = [await session.submit("plan", {"text": f"{run}{n}"}, run=run) for n in (1, 2) for run in ("r1", "r2")]
    await asyncio.sleep(0)
    go.set()
    results = [await session.result(call.id) for call in calls]
    for run in ("r1", "r2"):
        two = [result for result, call in zip(results, calls, strict=True) if call.run == run]
        assert sorted(result.ok for result in two) == [False, True]
        assert (await state(session, run))["plan"].startswith(run)


@requirement("contract.state.2")
async def test_a_call_that_waited_goes_on_with_the_state_of_its_run(open_crib: OpenCrib) -> None:
    @tool(requires_confirmation=True)
    async def look(ctx: Context) -> Any:
        """See the notes."""
        return ctx.state.get("notes")

    crib = await open_crib(change, look, state_keys=KEYS)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "look", run="r1")
    await note(session, "notes", "append", "a", "r1")
    await note(session, "notes", "append", "b", "r2")
    await session.answer(question.id, "accept")
    assert (await session.result(question.call)).data == ["a"]

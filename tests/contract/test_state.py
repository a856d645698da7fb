"""contract.state: changes are committed with the call that made them, all or none, and conflicts are found."""

import asyncio
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, log, message, only, parked
from tests.requirements import requirement
from tests.shared import case_data, nonempty
from toolcrib import Change, Context, Handover, Result, Session, tool
from toolcrib.state import State
from toolcrib.types import Effect

CASES = case_data("contract/state.json")
each_case = pytest.mark.parametrize("case", CASES, ids=[case["case"].replace(" ", "-") for case in CASES])


@requirement("contract.state.1", "contract.state.3", "contract.state.4")
@each_case
def test_the_state_folds_as_the_shared_cases_say(case: dict[str, Any]) -> None:
    state = State(case["keys"])
    for step in nonempty(case["steps"]):
        changes = [Change(**change) for change in step["changes"]]
        problem = state.commit(changes, step["base"], step["call"])
        assert (problem is None) is step["ok"]
        if problem is not None:
            assert problem.problem == step["problem"]
            assert step.get("key", problem.key) == problem.key
            assert step.get("by", problem.by) == problem.by
        assert (state.revision, dict(state.snapshot())) == (step["revision"], step["state"])


class Steps:
    """Calls that start on the state of one revision and commit when they are told to."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self.steps = steps
        self.release = [asyncio.Event() for _ in steps]
        self.calls: dict[int, str] = {}

    async def start_those_on(self, session: Session) -> None:
        for number, step in enumerate(self.steps):
            if number not in self.calls and step["base"] == session.state.revision:
                self.calls[number] = (await session.submit("change", {"number": number})).id

    def id_of(self, call: str) -> str:
        return next(self.calls[number] for number, step in enumerate(self.steps) if step["call"] == call)


@requirement("contract.state.1", "contract.state.3", "contract.state.4")
@each_case
async def test_calls_of_a_session_change_it_as_the_shared_cases_say(open_crib: OpenCrib, case: dict[str, Any]) -> None:
    steps = Steps(case["steps"])

    @tool(effect="idempotent")
    async def change(number: int) -> Result:
        """Change the state."""
        await steps.release[number].wait()
        return Result(number, changes=case["steps"][number]["changes"])

    if any(step.get("problem") == "revision" for step in case["steps"]):
        pytest.skip("no call of a session can know a state that is not there yet")
    crib = await open_crib(change, state_keys=case["keys"])
    session = await crib.open("s", owner="ada")
    for number, step in enumerate(case["steps"]):
        await steps.start_those_on(session)
        steps.release[number].set()
        result = await session.result(steps.calls[number])
        assert result.ok is step["ok"]
        if not result.ok:
            assert (code(result), result.metadata["unsaved"]) == ("failed", number)
        if step.get("problem") == "conflict":
            expected = {"key": step["key"], "base": step["base"], "by": steps.id_of(step["by"])}
            assert result.metadata["conflict"] == expected
        assert (session.state.revision, dict(session.state.snapshot())) == (step["revision"], step["state"])
    crib = await open_crib(change, state_keys=case["keys"])
    session = await crib.open("s", owner="ada")
    assert dict(session.state.snapshot()) == case["steps"][-1]["state"]


@requirement("contract.state.1")
async def test_a_tool_sees_a_frozen_snapshot_of_the_state_it_started_with(open_crib: OpenCrib) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="idempotent")
    async def put(value: list[int]) -> Result:
        """Put."""
        return Result(changes=[Change("set", "cart", value)])

    @tool(read_only=True)
    async def look(ctx: Context) -> list[Any]:
        """Look, late."""
        begun.set()
        await go_on.wait()
        ctx.state["cart"].append(9)
        with pytest.raises(TypeError):
            ctx.state["cart"] = []  # type: ignore[index]
        return [ctx.state.revision, dict(ctx.state)]

    crib = await open_crib(put, look)
    session = await crib.open(owner="ada")
    await session.call("put", {"value": [1]})
    call = await session.submit("look")
    await begun.wait()
    await session.call("put", {"value": [2]})
    go_on.set()
    assert (await session.result(call.id)).data == [1, {"cart": [1]}]
    assert dict(session.state.snapshot()) == {"cart": [2]}


@requirement("contract.state.1")
async def test_the_state_is_a_fold_of_the_log(open_crib: OpenCrib) -> None:
    @tool
    async def change(op: str, key: str, value: Any = None) -> Result:
        """Change one key."""
        return Result(changes=[{"op": op, "key": key, "value": value}])

    crib = await open_crib(change)
    session = await crib.open("s", owner="ada")
    changes: list[tuple[str, str, Any]] = [
        ("set", "a", 1),
        ("add", "a", 2),
        ("append", "l", "x"),
        ("merge", "m", {"k": 1}),
    ]
    for op, key, value in [*changes, ("append", "l", ["y", "z"]), ("set", "gone", 1), ("delete", "gone", None)]:
        assert (await session.call("change", {"op": op, "key": key, "value": value})).ok
    expected = {"a": 3, "l": ["x", "y", "z"], "m": {"k": 1}}
    assert (session.state.revision, dict(session.state.snapshot())) == (7, expected)
    assert [e.fields["state"]["revision"] for e in await log(session, "done")] == [1, 2, 3, 4, 5, 6, 7]
    crib = await open_crib(change)
    session = await crib.open("s", owner="ada")
    assert (session.state.revision, dict(session.state.snapshot())) == (7, expected)


@requirement("contract.state.1")
async def test_a_call_that_fails_or_changes_nothing_leaves_the_revision(open_crib: OpenCrib) -> None:
    @tool
    async def nothing(fail: bool) -> Result:
        """Change nothing."""
        if fail:
            raise RuntimeError
        return Result("ok", changes=[])

    crib = await open_crib(nothing)
    session = await crib.open(owner="ada")
    await session.call("nothing", {"fail": False})
    await session.call("nothing", {"fail": True})
    assert session.state.revision == 0
    assert all("state" not in event.fields for event in await log(session, "done"))


class Racers:
    """Two calls that both have started before either commits."""

    def __init__(self, change: Change, effect: Effect = "idempotent", *, looks: bool = False) -> None:
        self.both = asyncio.Barrier(2)
        self.runs = 0

        @tool(effect=effect, on_conflict="retry" if effect == "idempotent" and looks else "fail")
        async def race(ctx: Context, who: str) -> Result:
            """Race."""
            self.runs += 1
            if self.runs <= 2:
                await self.both.wait()
            return Result({"who": who}, changes=[change])

        self.tool = race


@requirement("contract.state.3")
@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
async def test_of_two_parallel_calls_on_one_exclusive_key_the_second_fails_and_keeps_its_data(
    open_crib: OpenCrib, effect: Effect
) -> None:
    """Story 6 of the chapter."""
    racers = Racers(Change("set", "cart", ["x"]), effect)
    crib = await open_crib(racers.tool)
    session = await crib.open(owner="ada")
    calls = [await session.submit("race", {"who": who}) for who in ("a", "b")]
    results = {call.id: await session.result(call.id) for call in calls}
    (won,) = [id for id, result in results.items() if result.ok]
    (lost,) = [id for id, result in results.items() if not result.ok]
    assert (code(results[lost]), message(results[lost])) == ("failed", f"State key 'cart' was changed by call {won}")
    assert results[lost].metadata["conflict"] == {"key": "cart", "base": 0, "by": won}
    assert results[lost].metadata["unsaved"]["who"] in ("a", "b")
    assert (session.state.revision, racers.runs) == (1, 2)


@requirement("contract.state.3")
async def test_with_a_commutative_key_both_count(open_crib: OpenCrib) -> None:
    racers = Racers(Change("add", "hits", 2))
    crib = await open_crib(racers.tool, state_keys={"hits": "add"})
    session = await crib.open(owner="ada")
    calls = [await session.submit("race", {"who": who}) for who in ("a", "b")]
    assert all([(await session.result(call.id)).ok for call in calls])
    assert (session.state.revision, dict(session.state.snapshot())) == (2, {"hits": 4})


@requirement("contract.state.4")
@pytest.mark.parametrize(
    ("keys", "changes", "said"),
    [
        ({"hits": "add"}, [("set", "a", 1), ("set", "hits", 5)], "State key 'hits' does not allow this change"),
        ({"hits": "add"}, [("delete", "hits", None)], "State key 'hits' does not allow this change"),
        ({}, [("set", "a", 1), ("append", "a", 2)], "State key 'a' holds a value of another type"),
        ({}, [("add", "a", "x")], "State key 'a' holds a value of another type"),
        ({}, [("merge", "a", 5)], "State key 'a' holds a value of another type"),
        ({}, [("set", "a", 1), ("twist", "a", 5)], "State key 'a' does not allow this change"),
    ],
)
async def test_a_batch_with_a_problem_is_refused_whole(
    open_crib: OpenCrib, keys: dict[str, Any], changes: list[Any], said: str
) -> None:
    @tool
    async def change() -> Result:
        """Change."""
        return Result("data", changes=[{"op": op, "key": key, "value": value} for op, key, value in changes])

    crib = await open_crib(change, state_keys=keys)
    session = await crib.open(owner="ada")
    result = await session.call("change")
    assert (code(result), message(result), result.metadata["unsaved"]) == ("failed", said, "data")
    assert (session.state.revision, dict(session.state.snapshot())) == (0, {})
    assert "conflict" not in result.metadata


@requirement("contract.state.4")
def test_changes_for_a_state_that_is_not_there_yet_are_refused() -> None:
    state = State()
    problem = state.commit([Change("set", "a", 1)], 3, "c")
    assert problem is not None
    assert (problem.problem, state.revision) == ("revision", 0)


@requirement("contract.state.5")
async def test_a_tool_that_wants_to_runs_again_on_a_fresh_snapshot(open_crib: OpenCrib) -> None:
    both, seen, steps = asyncio.Barrier(2), [], []

    @tool(effect="idempotent", on_conflict="retry")
    async def add(ctx: Context, item: str) -> Result:
        """Add to the cart."""
        cart = ctx.state.get("cart", [])
        seen.append(cart)
        await ctx.step("once", lambda: steps.append(item))
        if len(seen) <= 2:
            await both.wait()
        return Result(item, changes=[Change("set", "cart", [*cart, item])])

    crib = await open_crib(add)
    session = await crib.open("s", owner="ada")
    calls = [await session.submit("add", {"item": item}) for item in ("a", "b")]
    assert [(await session.result(call.id)).data for call in calls] == ["a", "b"]
    assert sorted(session.state.snapshot()["cart"]) == ["a", "b"]
    assert (len(seen), sorted(steps)) == (3, ["a", "b"])
    assert sorted(event.fields["attempt"] for event in await log(session, "started")) == [1, 1, 2]
    assert len(await log(session, "done")) == 2


@requirement("contract.state.5")
@pytest.mark.parametrize(("effect", "runs"), [("read", 4), ("idempotent", 4), ("once", 1)])
async def test_it_runs_again_at_most_three_times_and_a_once_tool_never(
    open_crib: OpenCrib, effect: Effect, runs: int
) -> None:
    ran = []

    @tool(effect="idempotent")
    async def disturb(n: int) -> Result:
        """Always be quicker."""
        return Result(changes=[Change("set", "cart", n)])

    @tool(effect=effect, on_conflict="retry")
    async def slow(ctx: Context) -> Result:
        """Always be too late."""
        ran.append(ctx.attempt)
        await ctx.call("disturb", {"n": len(ran)})
        return Result("slow", changes=[Change("set", "cart", "slow")])

    crib = await open_crib(disturb, slow)
    session = await crib.open(owner="ada")
    result = await session.call("slow")
    assert (code(result), len(ran), result.metadata["unsaved"]) == ("failed", runs, "slow")
    assert ran == sorted(set(ran))
    assert session.state.snapshot()["cart"] == runs


@requirement("contract.state.5")
async def test_what_is_no_conflict_is_not_tried_again(open_crib: OpenCrib) -> None:
    ran = []

    @tool(read_only=True, on_conflict="retry")
    async def wrong() -> Result:
        """Append to nothing that is a list."""
        ran.append(1)
        return Result(changes=[Change("set", "a", 1), Change("append", "a", 1)])

    crib = await open_crib(wrong)
    session = await crib.open(owner="ada")
    assert code(await session.call("wrong")) == "failed"
    assert ran == [1]


@requirement("contract.state.1")
async def test_changes_and_a_handover_of_a_quick_read_call_are_committed_too(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def note(key: str | None = None) -> Result:
        """Note what was read."""
        return Result("x", changes=[Change("set", key, 1)]) if key else Result("x", handover=Handover("bob"))

    crib = await open_crib(note)
    session = await crib.open(owner="ada")
    assert (await session.call("note", {"key": "a"})).ok
    await session.call("note")
    changed, handed = await log(session, "done")
    assert dict(session.state.snapshot()) == {"a": 1}
    assert (changed.fields["state"]["revision"], handed.fields["handover"]["to"]) == (1, "bob")


@requirement("contract.state.1")
async def test_changes_are_committed_also_by_a_call_that_waited(open_crib: OpenCrib) -> None:
    @tool(requires_confirmation=True)
    async def put() -> Result:
        """Put."""
        return Result("x", changes=[Change("set", "a", 1)])

    crib = await open_crib(put)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "put")
    crib = await open_crib(put)
    session = await crib.open("s", owner="ada")
    await session.answer(question.id, "accept")
    await session.result(question.call)
    assert dict(session.state.snapshot()) == {"a": 1}
    assert (await only(session, "done"))["state"]["base"] == 0

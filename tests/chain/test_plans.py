"""Plans are checked before anything is done."""

import random
from typing import Any

import pytest

from tests.chain.place import CLOSED, OTHER, USER, mainnet, opened
from tests.chain.test_values import cases
from tests.requirements import requirement
from toolcrib.chain import forge
from toolcrib.chain.plans import behind, filled, read_plan, ready
from toolcrib.errors import ToolFailure

CALL = {"to": OTHER, "function": "f(uint256)", "args": ["1"]}


def plan(*deps: list[int], **more: Any) -> list[dict[str, Any]]:
    """Groups with these dependencies."""
    return [{"description": f"g{i}", "dependencies": needed, "calls": [CALL], **more} for i, needed in enumerate(deps)]


@requirement("forge.plan.4")
def test_groups_are_ready_once_what_they_need_is_done() -> None:
    for case in cases("plan.ready"):
        assert forge.ready(**case["input"]) == case["expect"], case["id"]
    assert ready([[], [0], [0], [1, 2]], done=[0, 1], in_progress=[2]) == []
    assert ready([[], [0], [0], [1, 2]], done=[0, 1, 2]) == [3]


@requirement("forge.plan.2")
async def test_plans_that_cannot_be_carried_out_are_refused() -> None:
    async with opened(mainnet(CLOSED)) as session:
        for case in cases("plan.refused"):
            call = await session.submit("forge_execute", {"plan": plan(*case["input"]["deps"])})
            failure = (await session.result(call.id)).failure
            assert failure is not None
            assert failure.code == case["expect"]["code"]
            assert case["expect"]["message_contains"] in failure.message


@requirement("forge.plan.1", "forge.plan.2")
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (plan([0]), "Group 0 depends on itself"),
        (plan([1], [0]), "Dependency cycle: 0 -> 1 -> 0"),
        (plan([], [3], [1], [2, 0]), "Dependency cycle: 1 -> 3 -> 2 -> 1"),
        (plan([5]), "Group 0 depends on group 5; there are 1"),
        (plan([-1]), "Group 0 depends on group -1; there are 1"),
        ([], "A plan needs at least one group"),
        (plan(*[[]] * 21), "at most 20 groups"),
        ([{"calls": [CALL] * 21}], "Group 0: at most 20 calls; there are 21"),
        (["x"], "Group 0: expected an object"),
        ([{"dependencies": [True]}], "Group 0: dependencies are the indices of groups"),
        ([{"calls": [{"to": "x", "function": "f()"}]}], "Group 0, call 0: Invalid address: x"),
        ([{"calls": [{"to": OTHER, "function": "f"}]}], "Group 0, call 0: Invalid function signature: missing '('"),
        ([{"calls": [{"to": OTHER}]}], "Group 0, call 0: name a function, or a value to pay"),
        ([{"calls": [{**CALL, "value": "-1"}]}], "Group 0, call 0: Invalid value"),
        ([{"calls": [{**CALL, "args": "x"}]}], "Group 0, call 0: args must be an array"),
        ([{"reads": [{**CALL, "as": "sender"}]}], "Group 0, read 0: `as` must be a name of its own"),
        ([{"reads": [{**CALL, "as": "a"}] * 2}], "Group 0: two reads have one name"),
        ([{"contracts": [[1, OTHER, "A"]]}, {"contracts": [{"chain_id": 137, "address": OTHER}]}], "found [1, 137]"),
        ([{"contracts": [[1, "x", "A"]]}], "Group 0, contracts: Invalid address: x"),
    ],
)
def test_what_is_wrong_with_a_plan_is_told(groups: Any, message: str) -> None:
    with pytest.raises(ToolFailure) as refused:
        read_plan(groups)
    assert refused.value.code == "invalid_arguments"
    assert message in refused.value.message


def test_a_plan_of_one_chain_knows_it() -> None:
    chain, groups = read_plan([{"contracts": [[1, OTHER, "A"], {"chain_id": "mainnet", "address": OTHER}]}], 1)
    assert (chain, groups[0].contracts) == (1, ((1, OTHER), (1, OTHER)))
    with pytest.raises(ToolFailure, match="one chain"):
        read_plan([{"contracts": [[1, OTHER, "A"]]}], 10)


def test_random_plans_end_or_are_refused() -> None:
    rng = random.Random(3)
    for _ in range(300):
        count = rng.randint(1, 8)
        deps = [[one for one in range(count) if rng.random() < 0.2] for _ in range(count)]
        try:
            _, groups = read_plan(plan(*deps))
        except ToolFailure:
            done: set[int] = set()
            while found := set(ready(deps, done)):
                done |= found
            assert len(done) < count
            continue
        for one in groups:
            after = behind(groups, one.index)
            assert one.index not in after
            assert all(other.index in after for other in groups if one.index in other.dependencies)


@requirement("forge.plan.3")
def test_names_are_replaced_wherever_they_stand() -> None:
    known = {"sender": USER, "weth": "5"}
    assert filled(["$sender", ["$weth", {"a": "$weth"}], "$$weth", 7, "x$weth"], known) == [
        *(USER, ["5", {"a": "5"}], "$weth", 7, "x$weth")
    ]
    with pytest.raises(ToolFailure, match="Unknown name: \\$other"):
        filled(["$other"], known)

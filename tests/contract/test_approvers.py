"""policy.approve.5: who may answer, how many have to agree, who is asked when they do not, and who never may."""

import asyncio
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, kinds, log, parked, refusal
from tests.requirements import requirement
from toolcrib import Context, Event, Question, Session, tool
from toolcrib._call import answers, approvals
from toolcrib.store import Store
from toolcrib.testing import FakeClock

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


@tool(effect="once")
async def refund(order: str) -> str:
    """Refund an order."""
    ran.append(order)
    return order


@tool(capabilities=["exec:cmd:{command}"])
async def shell(command: str) -> str:
    """Run a command."""
    ran.append(command)
    return command


@tool
async def errand(ctx: Context, order: str) -> str:
    """Have an order refunded."""
    return str((await ctx.call("refund", {"order": order})).data)


GROUPS = {"finance": ["ann", "bob"], "security": ["sam"]}


def two(**more: Any) -> dict[str, Any]:
    """A policy that wants two of finance."""
    rule = {"ask": "refund", "approvers": "finance", "quorum": 2, **more}
    return {"groups": GROUPS, "rules": [rule]}


async def told(session: Session, kind: str) -> Event:
    """The first event of that kind, as soon as it is there."""
    async with asyncio.timeout(60):
        async for event in session.events():
            if event.kind == kind:
                return event
    raise AssertionError(kind)


async def opened(open_crib: OpenCrib, policy: dict[str, Any], *tools: Any) -> Session:
    crib = await open_crib(*(tools or (refund, shell, errand)), policy=policy)
    return await crib.open("s", owner="ada")


async def yes(session: Session, question: Question, actor: str, **more: Any) -> Any:
    return await session.answer(question.id, "accept", actor=actor, **more)


async def no(session: Session, question: Question, actor: str, **more: Any) -> str:
    """The code with which an approval is refused."""
    return (await refusal(yes(session, question, actor, **more))).code


# Who


@requirement("policy.approve.5")
async def test_where_approvers_are_named_only_they_and_the_owner_may_answer(open_crib: OpenCrib) -> None:
    policy = {"groups": GROUPS, "approvers": ["security", "lou"], "rules": [{"ask": "refund"}]}
    session = await opened(open_crib, policy)
    questions = [await parked(session, "refund", {"order": name}) for name in ("ada", "sam", "lou")]
    for stranger in ("zed", "ann", "security", "Sam"):
        assert await no(session, questions[0], stranger) == "denied"
        refused = await refusal(session.answer(questions[0].id, "decline", actor=stranger))
        assert refused.code == "denied"
    for question, actor in zip(questions, ("ada", "sam", "lou"), strict=True):
        await yes(session, question, actor)
        assert (await session.result(question.call)).ok
    assert ran == ["ada", "sam", "lou"]


@requirement("policy.approve.5")
async def test_without_approvers_the_program_vouches_for_whom_it_names(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, {"rules": [{"ask": "refund"}]})
    question = await parked(session, "refund", {"order": "A"})
    await yes(session, question, "whoever")
    assert (await session.result(question.call)).ok


@pytest.mark.parametrize("forged", ["", 7, ["ann"], {"name": "ann"}])
async def test_an_actor_without_a_name_answers_nothing(open_crib: OpenCrib, forged: Any) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})
    assert await no(session, question, forged) == "invalid_arguments"
    assert await session.questions() == [question]


@requirement("policy.approve.5")
@pytest.mark.parametrize(
    "policy", [{"rules": [{"ask": "refund"}]}, {"rules": [{"ask": "refund"}], "approvers": ["scout"]}]
)
async def test_the_agent_that_asked_never_answers(open_crib: OpenCrib, policy: dict[str, Any]) -> None:
    session = await opened(open_crib, policy)
    question = await parked(session, "refund", {"order": "A"}, by=("agent", "scout"))
    for action in ("accept", "decline", "cancel"):
        refused = await refusal(session.answer(question.id, action, actor="scout"))
        assert (refused.code, "asked for this call" in refused.message) == ("denied", True)
    assert ran == []
    await yes(session, question, "ada")
    assert (await session.result(question.call)).ok


@requirement("policy.approve.5")
async def test_the_tool_that_asked_never_answers_nor_the_agent_behind_it(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, {"rules": [{"ask": "refund"}]})
    outer = await session.submit("errand", {"order": "A"}, by=("agent", "scout"), agent="scout")
    event = await told(session, "waiting")
    (question,) = await session.questions()
    assert question.call == event.call != outer.id
    for actor in ("default.errand", "scout"):
        assert await no(session, question, actor) == "denied"
    await yes(session, question, "ada")
    assert (await session.result(outer.id)).data == "A"


@requirement("policy.approve.5")
async def test_a_rule_names_who_has_to_agree_and_the_owner_is_not_enough(open_crib: OpenCrib) -> None:
    policy = {"groups": GROUPS, "rules": [{"ask": "refund", "approvers": ["finance", "lou"]}]}
    session = await opened(open_crib, policy)
    first, second = [await parked(session, "refund", {"order": name}) for name in ("A", "B")]
    assert first.demands == ({"approvers": ["finance", "lou"], "quorum": 1},)
    refused = await refusal(yes(session, first, "ada"))
    assert refused.message == "Only finance or lou may approve this, not 'ada'"
    await yes(session, first, "ann")
    await yes(session, second, "lou")
    assert [(await session.result(one.call)).ok for one in (first, second)] == [True, True]


async def test_the_named_of_a_rule_may_answer_where_they_are_no_approvers_of_all(open_crib: OpenCrib) -> None:
    policy = {"groups": GROUPS, "approvers": [], "rules": [{"ask": "refund", "approvers": "finance"}]}
    session = await opened(open_crib, policy)
    question = await parked(session, "refund", {"order": "A"})
    assert await no(session, question, "sam") == "denied"
    await session.answer(question.id, "decline", actor="bob")
    assert code(await session.result(question.call)) == "declined"


@requirement("policy.approve.5")
async def test_the_owner_may_decline_what_others_have_to_approve(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})
    await yes(session, question, "ann")
    await session.answer(question.id, "decline", actor="ada", reason="no need")
    assert code(await session.result(question.call)) == "declined"
    assert ran == []


async def test_a_group_is_as_it_is_when_they_answer(open_crib: OpenCrib) -> None:
    question = await parked(await opened(open_crib, two()), "refund", {"order": "A"})
    session = await opened(open_crib, two() | {"groups": {"finance": ["ann", "eve"]}})
    assert await no(session, question, "bob") == "denied"
    await yes(session, question, "ann")
    session = await opened(open_crib, two() | {"groups": {"finance": ["bob", "eve"]}})
    await yes(session, question, "eve")
    assert (await session.questions())[0].approved_by == ("ann", "eve")
    assert ran == []
    await yes(session, question, "bob")
    assert (await session.result(question.call)).ok


# How many


@requirement("policy.approve.5")
async def test_two_different_people_have_to_agree(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})
    given = await yes(session, question, "ann", reason="fine")
    assert (given.action, given.reason) == ("accept", "fine")
    (open_still,) = await session.questions()
    assert (open_still.id, open_still.approved_by) == (question.id, ("ann",))
    assert await no(session, question, "ann") == "already_answered"
    assert ran == []
    await yes(session, question, "bob")
    assert (await session.result(question.call)).data == "A"
    assert ran == ["A"]
    assert await kinds(session) == ["accepted", "waiting", "endorsed", "answered", "started", "done"]


async def test_the_same_yes_with_the_same_key_is_one_yes_before_and_after_the_end(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})
    first = await yes(session, question, "ann", key="k1")
    assert await yes(session, question, "ann", key="k1") == first
    assert (await session.questions())[0].approved_by == ("ann",)
    last = await yes(session, question, "bob", key="k2")
    await session.result(question.call)
    assert await yes(session, question, "ann", key="k1") == first
    assert await yes(session, question, "bob", key="k2") == last
    assert await no(session, question, "ann", key="k2") == "already_answered"
    assert len(await log(session, "answered")) == len(await log(session, "endorsed")) == 1
    assert ran == ["A"]


@requirement("policy.approve.5")
async def test_of_two_who_agree_at_once_one_lets_the_call_run_and_it_runs_once(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, two())
    for number in range(20):
        question = await parked(session, "refund", {"order": str(number)})
        given = await asyncio.gather(yes(session, question, "ann"), yes(session, question, "bob"))
        assert [one.actor for one in given] == ["ann", "bob"]
        assert (await session.result(question.call)).ok
    assert ran == [str(number) for number in range(20)]
    assert len(await log(session, "answered")) == 20


async def test_a_crash_between_the_last_yes_and_the_run_is_made_good_by_the_same_yes(
    open_crib: OpenCrib, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})

    with monkeypatch.context() as patched:
        patched.setattr(approvals, "enough", lambda *_: False)  # as if both were the first
        for actor in ("ann", "bob"):
            await yes(session, question, actor, key=actor)
    session = await opened(open_crib, two())
    assert (await session.questions())[0].approved_by == ("ann", "bob")
    assert ran == []
    await yes(session, question, "ann", key="ann")
    assert (await session.result(question.call)).ok
    assert ran == ["A"]


async def test_who_agreed_may_think_better_of_it_until_all_have(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})
    await yes(session, question, "ann", key="k1")
    again = await refusal(session.answer(question.id, "decline", actor="ann", key="k1"))
    assert again.code == "already_answered"
    await session.answer(question.id, "decline", actor="ann")
    assert code(await session.result(question.call)) == "declined"
    assert await no(session, question, "bob") == "already_answered"


@requirement("policy.approve.5")
async def test_one_no_is_enough(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})
    await yes(session, question, "ann")
    await session.answer(question.id, "decline", actor="bob", reason="too much")
    assert code(await session.result(question.call)) == "declined"
    assert ran == []


async def test_a_quorum_without_names_is_of_any_who_may_answer(open_crib: OpenCrib) -> None:
    policy = {"groups": GROUPS, "approvers": ["finance"], "rules": [{"ask": "refund", "quorum": 2}]}
    session = await opened(open_crib, policy)
    question = await parked(session, "refund", {"order": "A"})
    assert await no(session, question, "sam") == "denied"
    await yes(session, question, "ada")
    await yes(session, question, "bob")
    assert (await session.result(question.call)).ok


@requirement("policy.approve.5")
async def test_half_of_a_quorum_survives_a_restart(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})
    await yes(session, question, "ann")
    session = await opened(open_crib, two())
    (asked,) = await session.questions()
    assert (asked.approved_by, asked.demands) == (("ann",), ({"approvers": ["finance"], "quorum": 2},))
    assert await no(session, question, "ann") == "already_answered"
    await yes(session, question, "bob")
    assert (await session.result(question.call)).ok


async def test_a_deny_that_came_after_all_agreed_holds(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})
    await yes(session, question, "ann")
    policy = two()
    policy["rules"] = [*policy["rules"], {"deny": "refund"}]
    session = await opened(open_crib, policy)
    await yes(session, question, "bob")
    assert code(await session.result(question.call)) == "denied"
    assert ran == []


# What


@requirement("policy.approve.5", "policy.approve.3")
async def test_where_several_have_to_agree_nobody_changes_what_they_agree_to(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, two())
    question = await parked(session, "refund", {"order": "A"})
    for actor in ("ann", "bob"):
        refused = await refusal(yes(session, question, actor, arguments={"order": "B"}))
        assert (refused.code, refused.message) == (
            "invalid_arguments",
            "Several people have to approve the same arguments",
        )
        await yes(session, question, actor)
    assert (await session.result(question.call)).data == "A"


@requirement("policy.approve.5", "policy.approve.3")
async def test_nobody_changes_arguments_into_what_others_have_to_approve(open_crib: OpenCrib) -> None:
    rules = [
        {"ask": "refund", "approvers": "finance"},
        {"ask": 'refund(order = "big")', "approvers": "security"},
        {"ask": 'refund(order = "huge")', "quorum": 2},
    ]
    session = await opened(open_crib, {"groups": GROUPS, "rules": rules})
    question = await parked(session, "refund", {"order": "A"})
    for order in ("big", "huge"):
        refused = await refusal(yes(session, question, "ann", arguments={"order": order}))
        assert (refused.code, refused.message) == ("denied", "The changed arguments have to be approved by others")
    assert await session.questions() == [question]
    await yes(session, question, "ann", arguments={"order": "small"})
    assert (await session.result(question.call)).data == "small"


@requirement("policy.approve.5", "policy.approve.4")
async def test_where_somebody_has_to_be_asked_nothing_is_offered_for_the_session(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, {"groups": GROUPS, "rules": [{"ask": "refund", "approvers": "finance"}]})
    question = await parked(session, "refund", {"order": "A"})
    assert question.offer is None
    await yes(session, question, "ann", scope="session")
    assert (await session.result(question.call)).ok
    again = await parked(session, "refund", {"order": "A"})
    assert await no(session, again, "ada") == "denied"


@requirement("policy.approve.5", "policy.approve.4")
async def test_what_was_allowed_for_a_session_silences_no_rule_that_names_who_has_to_agree(open_crib: OpenCrib) -> None:
    session = await opened(open_crib, {"rules": [{"ask": "refund"}]})
    question = await parked(session, "refund", {"order": "A"})
    assert question.offer is not None
    await yes(session, question, "ada", scope="session")
    assert (await session.call("refund", {"order": "A"})).ok
    session = await opened(open_crib, two())
    asked = await parked(session, "refund", {"order": "A"})
    assert asked.demands == ({"approvers": ["finance"], "quorum": 2},)


@requirement("policy.approve.5")
async def test_several_parts_of_a_command_want_all_whom_each_of_them_wants(open_crib: OpenCrib) -> None:
    rules = [
        {"ask": "shell(git push *)", "approvers": "finance"},
        {"ask": "shell(rm *)", "approvers": "security"},
        {"allow": "shell(echo *)"},
    ]
    session = await opened(open_crib, {"groups": GROUPS, "rules": rules, "grants": {"allow": ["*"]}})
    question = await parked(session, "shell", {"command": "git push; echo so; rm x"})
    assert [one["approvers"] for one in question.demands] == [["finance"], ["security"]]
    assert await no(session, question, "ada") == "denied"
    assert await no(session, question, "ann", arguments={"command": "rm y"}) == "invalid_arguments"
    await yes(session, question, "ann")
    assert await no(session, question, "ann") == "already_answered"
    await yes(session, question, "bob")  # it changes nothing: security is still to be asked
    assert ran == []
    await yes(session, question, "sam")
    assert (await session.result(question.call)).ok


async def test_who_is_in_both_groups_is_enough_and_may_change_the_arguments(open_crib: OpenCrib) -> None:
    rules = [{"ask": "shell(git push *)", "approvers": "a"}, {"ask": "shell(rm *)", "approvers": "b"}]
    policy = {"groups": {"a": ["max"], "b": ["max"]}, "rules": rules, "grants": {"allow": ["*"]}}
    session = await opened(open_crib, policy)
    question = await parked(session, "shell", {"command": "git push; rm x"})
    await yes(session, question, "max", arguments={"command": "git push; rm y"})
    assert (await session.result(question.call)).data == "git push; rm y"


# When nobody does


LATER = {"after_s": 60, "to": ["lead"]}


async def advanced(session: Session, clock: FakeClock, seconds: float, kind: str) -> Event:
    await clock.advance(seconds)
    return await told(session, kind)


@requirement("policy.approve.5")
async def test_after_a_while_others_are_asked_as_well(open_crib: OpenCrib, clock: FakeClock) -> None:
    session = await opened(open_crib, two(escalate=LATER) | {"approvers": []})
    question = await parked(session, "refund", {"order": "A"})
    assert await no(session, question, "lead") == "denied"
    await clock.advance(59)
    await yes(session, question, "ann")
    event = await advanced(session, clock, 2, "escalated")
    assert event.fields == {"question": question.id, "to": ["lead"]}
    (asked,) = await session.questions()
    assert (asked.escalated, asked.approved_by, asked.expires_at) == (True, ("ann",), question.expires_at)
    await yes(session, question, "lead")
    assert (await session.result(question.call)).ok


@requirement("policy.approve.5")
async def test_what_was_escalated_still_expires_in_its_time(open_crib: OpenCrib, clock: FakeClock) -> None:
    session = await opened(open_crib, two(escalate=LATER))
    question = await parked(session, "refund", {"order": "A"})
    await advanced(session, clock, 61, "escalated")
    await clock.advance(24 * 3600 - 62)
    assert [one.id for one in await session.questions()] == [question.id]
    await clock.advance(2)
    assert code(await asyncio.wait_for(session.result(question.call), 60)) == "timeout"
    assert len(await log(session, "escalated")) == 1


@requirement("policy.approve.5")
async def test_others_are_asked_also_where_the_time_came_while_nobody_was_there(
    open_crib: OpenCrib, clock: FakeClock
) -> None:
    session = await opened(open_crib, two(escalate=LATER))
    question = await parked(session, "refund", {"order": "A"})
    await session.crib.stop()
    await clock.advance(3600)
    session = await opened(open_crib, two(escalate=LATER))
    await told(session, "escalated")
    await yes(session, question, "lead")
    await yes(session, question, "bob")
    assert (await session.result(question.call)).ok


async def test_a_question_that_ends_before_others_would_be_asked_just_ends(
    open_crib: OpenCrib, clock: FakeClock
) -> None:
    @tool(wait_s=30)
    async def short() -> None:
        """Wait half a minute."""

    session = await opened(open_crib, {"rules": [{"ask": "short", "escalate": LATER}]}, short)
    question = await parked(session, "short")
    await clock.advance(31)
    assert code(await asyncio.wait_for(session.result(question.call), 60)) == "timeout"
    assert await log(session, "escalated") == []


async def test_each_demand_has_a_time_of_its_own(open_crib: OpenCrib, clock: FakeClock) -> None:
    rules = [
        {"ask": "shell(git *)", "approvers": "finance", "escalate": {"after_s": 60, "to": "lead"}},
        {"ask": "shell(rm *)", "approvers": "security", "escalate": {"after_s": 600, "to": "lead"}},
    ]
    session = await opened(open_crib, {"groups": GROUPS, "rules": rules, "grants": {"allow": ["*"]}})
    question = await parked(session, "shell", {"command": "git push; rm x"})
    await advanced(session, clock, 61, "escalated")
    await yes(session, question, "lead")
    assert ran == []
    (asked,) = await session.questions()
    assert [one.get("escalate_s") for one in asked.demands] == [None, 600.0]
    await clock.advance(600)
    assert (await asyncio.wait_for(session.result(question.call), 60)).ok  # who agreed counts for both now
    assert [one.fields["to"] for one in await log(session, "escalated")] == [["lead"], ["lead"]]


async def test_an_endorsement_beside_an_escalation_does_not_end_the_question(
    open_crib: OpenCrib, clock: FakeClock, store: Store
) -> None:
    session = await opened(open_crib, two(escalate=LATER))
    question = await parked(session, "refund", {"order": "A"})
    stale = await session._row(question.call)
    await advanced(session, clock, 61, "escalated")
    assert await answers.escalate(session, stale)  # as if the timer of before had rung again
    assert [one.id for one in await session.questions()] == [question.id]
    assert len(await log(session, "escalated")) == 1
    assert await store.next_expiry() == question.expires_at

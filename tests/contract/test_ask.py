"""contract.ask: a call waits, costs nothing meanwhile, and goes on in one of three ways."""

import asyncio
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, kinds, log, message, next_question, only, parked, refusal
from tests.requirements import requirement
from toolcrib import By, Context, DuplicateQuestion, Result, Tool, testing, tool
from toolcrib.keywords import AnswerKeywords
from toolcrib.policy import AutoPolicy, Verdict
from toolcrib.store import Store
from toolcrib.testing import FakeClock

ran: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


def positive(cents: int) -> str | None:
    return "must be positive" if cents <= 0 else None


@tool(effect="once", requires_confirmation=True, validate=positive)
async def pay(to: str, cents: int = 100) -> str:
    """Pay somebody."""
    ran.append([to, cents])
    return f"{to} got {cents}"


@tool(effect="once")
async def greet(ctx: Context) -> str:
    """Ask for a name."""
    ran.append("greet")
    answer = await ctx.ask("Which name?", schema={"type": "string", "minLength": 2})
    return f"Hello {answer.value}"


@requirement("contract.ask.1")
async def test_a_call_waits_because_the_policy_the_client_or_the_tool_asks(open_crib: OpenCrib) -> None:
    crib = await open_crib(pay, greet)
    session = await crib.open(owner="ada")
    await session.offer([{"name": "sign", "description": "Sign."}])
    asked = [await parked(session, name, args) for name, args in (("pay", {"to": "x"}), ("sign", {}), ("greet", {}))]
    assert [(question.kind, question.resume) for question in asked] == [
        ("confirm", "run"),
        ("client", "use"),
        ("input", "pass"),
    ]
    assert ran == ["greet"]
    assert session.live == {}
    assert await session.questions() == asked


@requirement("contract.ask.1", "contract.ask.2")
async def test_a_tool_says_all_that_a_question_holds(open_crib: OpenCrib, clock: FakeClock) -> None:
    @tool(effect="once")
    async def sign(ctx: Context, amount: int = 5) -> Any:
        """Ask for a signature."""
        data, schema = {"tx": [1, 2]}, {"type": "string"}
        answer = await ctx.ask("Sign it", kind="external", schema=schema, data=data, key="sig", expires_s=30)
        return [answer.question, answer.action, answer.value, answer.reason, answer.actor, answer.key, answer.scope]

    crib = await open_crib(sign)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "sign", {"amount": "7"}, agent="top", by=By("agent", "top"))
    assert (question.tool, question.prompt, question.key) == ("default.sign", "Sign it", "sig")
    assert (question.arguments, question.schema, question.data) == ({"amount": 7}, {"type": "string"}, {"tx": [1, 2]})
    assert (question.path, question.session, question.offer) == (("top",), "s", None)
    assert (question.asked_at, question.expires_at) == (clock.now(), clock.now() + 30)
    assert question.digest == (await only(session, "accepted"))["digest"]
    answer = await session.answer(question.id, "accept", "sig!", actor="bob", reason="ok", key="k", scope="once")
    assert answer.at == clock.now()
    assert (await session.result(question.call)).data == [question.id, "accept", "sig!", "ok", "bob", "k", "once"]


@requirement("contract.ask.2")
@pytest.mark.parametrize(
    ("action", "more"), [("maybe", {}), ("fail", {}), ("accept", {"scope": "ever"}), ("decline", {"arguments": {}})]
)
async def test_an_answer_that_says_nothing_known_is_refused(
    open_crib: OpenCrib, action: str, more: dict[str, Any]
) -> None:
    crib = await open_crib(pay)
    session = await crib.open(owner="ada")
    question = await parked(session, "pay", {"to": "x"})
    assert (await refusal(session.answer(question.id, action, **more))).code == "invalid_arguments"
    assert (await refusal(session.answer(question.id, "accept", object()))).code == "invalid_arguments"
    assert await session.questions() == [question]


@requirement("contract.ask.3")
async def test_run_runs_the_original_call_once(open_crib: OpenCrib) -> None:
    crib = await open_crib(pay)
    session = await crib.open(owner="ada")
    question = await parked(session, "pay", {"to": "bob"})
    assert ran == []
    await session.answer(question.id, "accept")
    assert (await session.result(question.call)).data == "bob got 100"
    assert ran == [["bob", 100]]
    assert await kinds(session) == ["accepted", "waiting", "answered", "started", "done"]


@requirement("contract.ask.3")
async def test_pass_runs_the_body_again_and_hands_it_the_answer(open_crib: OpenCrib) -> None:
    crib = await open_crib(greet)
    session = await crib.open(owner="ada")
    question = await parked(session, "greet")
    await session.answer(question.id, "accept", "Bob")
    assert (await session.result(question.call)).data == "Hello Bob"
    assert ran == ["greet", "greet"]


@requirement("contract.ask.3")
@pytest.mark.parametrize("kind", ["confirm", "input", "client", "external"])
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_pass_any_hands_a_refusal_over_like_any_answer(open_crib: OpenCrib, kind: Any, action: str) -> None:
    @tool(effect="once")
    async def work(ctx: Context) -> Any:
        """Ask."""
        answer = await ctx.ask("Well?", kind=kind, resume="pass_any")
        return [answer.accepted, answer.action, answer.reason]

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    question = await parked(session, "work")
    await session.answer(question.id, action, reason="so")
    assert (await session.result(question.call)).data == [action == "accept", action, "so"]
    ctx = testing.context(answers={"Well?": testing.Reply(action, reason="so")})
    assert (await testing.run(work, ctx=ctx)).data == [action == "accept", action, "so"]


@requirement("contract.ask.3")
@pytest.mark.parametrize("kind", ["confirm", "input", "client", "external"])
@pytest.mark.parametrize("resume", ["run", "use", "pass"])
async def test_resume_overrides_the_way_of_any_kind(open_crib: OpenCrib, kind: Any, resume: Any) -> None:
    @tool(effect="once")
    async def work(ctx: Context, n: int = 1) -> Any:
        """Ask."""
        ran.append(n)
        answer = await ctx.ask("Well?", kind=kind, resume=resume)
        return {"n": n, "got": answer.value}

    crib = await open_crib(work)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "work")
    assert question.resume == resume
    crib = await open_crib(work)
    session = await crib.open("s", owner="ada")
    edited: AnswerKeywords = {"arguments": {"n": 2}} if resume == "run" else {}
    await session.answer(question.id, "accept", {"v": 1}, **edited)
    result = await session.result(question.call)
    if resume == "use":
        assert (result.data, ran) == ({"v": 1}, [1])
    else:
        n = 2 if resume == "run" else 1
        assert (result.data, ran) == ({"n": n, "got": {"v": 1}}, [1, n])


@requirement("contract.ask.3")
async def test_only_what_runs_the_original_call_takes_edited_arguments(open_crib: OpenCrib) -> None:
    crib = await open_crib(greet)
    session = await crib.open(owner="ada")
    question = await parked(session, "greet")
    refused = await refusal(session.answer(question.id, "accept", "Bob", arguments={}))
    assert refused.code == "invalid_arguments"
    assert await session.questions() == [question]


@requirement("contract.ask.3")
async def test_a_value_that_is_used_must_fit_the_output_schema(open_crib: OpenCrib) -> None:
    @tool(effect="once", output_schema={"type": "integer"})
    async def work(ctx: Context) -> Any:
        """Let somebody else do it."""
        await ctx.ask("Do it", kind="client")

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    question = await parked(session, "work")
    assert (await refusal(session.answer(question.id, "accept", "five"))).code == "invalid_arguments"
    await session.answer(question.id, "accept", 5)
    assert (await session.result(question.call)).data == 5


@requirement("contract.ask.4")
async def test_the_same_question_twice_in_one_pass_is_an_error_unless_it_has_a_key(open_crib: OpenCrib) -> None:
    @tool(effect="once")
    async def twice(ctx: Context, keys: bool) -> list[Any]:
        """Ask the same twice."""
        one = await ctx.ask("Name?", key="a" if keys else None)
        if not keys:
            with pytest.raises(DuplicateQuestion, match=r"Name\?"):
                await ctx.ask("Name?")
            other = await ctx.ask("Name?", schema={"type": "string"})
            return [one.value, other.value]
        again = await ctx.ask("Name, please?", key="a")
        other = await ctx.ask("Name?", key="b")
        return [one.value, again.value, other.value]

    crib = await open_crib(twice)
    session = await crib.open(owner="ada")
    for keys, expected in ((True, ["x", "x", "y"]), (False, ["x", "y"])):
        first = await parked(session, "twice", {"keys": keys})
        await session.answer(first.id, "accept", "x")
        second = await next_question(session, first)
        await session.answer(second.id, "accept", "y")
        assert (await session.result(first.call)).data == expected
    assert len(await log(session, "waiting")) == 4


@requirement("contract.ask.4")
async def test_answers_belong_to_questions_not_to_positions(open_crib: OpenCrib) -> None:
    order = ["Name?", "Town?"]

    @tool(effect="once")
    async def form(ctx: Context) -> dict[str, Any]:
        """Ask in an order that changes."""
        return {prompt: (await ctx.ask(prompt)).value for prompt in order}

    crib = await open_crib(form)
    session = await crib.open(owner="ada")
    first = await parked(session, "form")
    order.reverse()
    await session.answer(first.id, "accept", "Bob")
    second = await next_question(session, first)
    assert second.prompt == "Town?"
    await session.answer(second.id, "accept", "Rome")
    assert (await session.result(first.call)).data == {"Name?": "Bob", "Town?": "Rome"}


@requirement("contract.ask.4")
@pytest.mark.parametrize("odd", [{"kind": "shout"}, {"resume": "later"}, {"schema": {"type": 5}}, {"data": object()}])
async def test_what_cannot_be_asked_ends_the_call(open_crib: OpenCrib, odd: dict[str, Any]) -> None:
    @tool(effect="once")
    async def work(ctx: Context) -> None:
        """Ask nonsense."""
        await ctx.ask("Well?", **odd)

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    assert code(await asyncio.wait_for(session.call("work"), 60)) == "internal"
    assert await session.questions() == []


class NoGold(AutoPolicy):
    """A policy that also looks at the arguments."""

    def decide(self, session: Any, tool: Tool, arguments: Any) -> Verdict:
        if arguments().get("to") == "gold":
            return Verdict("deny", "rule", "No gold")
        return super().decide(session, tool, arguments)


@requirement("contract.ask.5", "contract.result.5")
async def test_edited_arguments_are_checked_as_those_of_a_new_call_are(open_crib: OpenCrib) -> None:
    """Story 5 of the chapter."""
    crib = await open_crib(pay, policy=NoGold())
    session = await crib.open(owner="ada")
    question = await parked(session, "pay", {"to": "bob"})
    for arguments, refused_as, said in (
        ({"to": 5}, "invalid_arguments", "to: expected string"),
        ({"to": "bob", "more": 1}, "invalid_arguments", "more"),
        ({"to": "bob", "cents": 0}, "invalid_arguments", "must be positive"),
        ({"to": "gold"}, "denied", "No gold"),
        ([], "invalid_arguments", ""),
    ):
        refused = await refusal(session.answer(question.id, "accept", arguments=arguments))
        assert (refused.code, said in refused.message) == (refused_as, True)
        assert await session.questions() == [question]
    assert await kinds(session) == ["accepted", "waiting"]
    await session.answer(question.id, "accept", arguments={"to": "eve", "cents": 7})
    result = await session.result(question.call)
    assert result.text == 'Arguments were changed before running: {"to":"eve","cents":7}\neve got 7'
    assert ran == [["eve", 7]]
    started, accepted = await only(session, "started"), await only(session, "accepted")
    assert started["args"] == {"to": "eve", "cents": 7}
    assert started["digest"] != accepted["digest"]
    assert (await only(session, "answered"))["args"] == {"to": "eve", "cents": 7}


@requirement("contract.ask.5")
async def test_edited_arguments_hold_after_a_restart(open_crib: OpenCrib, store: Store) -> None:
    @tool(effect="once", requires_confirmation=True)
    async def slow(ctx: Context, n: int) -> int:
        """Ask once more."""
        await ctx.ask("Go on?")
        return n

    crib = await open_crib(slow)
    session = await crib.open("s", owner="ada")
    first = await parked(session, "slow", {"n": 1})
    await session.answer(first.id, "accept", arguments={"n": 2})
    second = await next_question(session, first)
    assert second.arguments == {"n": 2}
    crib = await open_crib(slow)
    session = await crib.open("s", owner="ada")
    await session.answer(second.id, "accept")
    result = await session.result(first.call)
    assert (result.data, result.metadata["edited"]) == (2, {"n": 2})


@requirement("contract.ask.5")
@pytest.mark.parametrize("kind", ["input", "confirm", "external", "client"])
async def test_a_value_that_does_not_fit_is_refused_and_the_question_stays(open_crib: OpenCrib, kind: Any) -> None:
    @tool(effect="once")
    async def work(ctx: Context) -> Any:
        """Ask for a number."""
        return (await ctx.ask("How many?", kind=kind, schema={"type": "integer", "maximum": 5})).value

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    question = await parked(session, "work")
    for value in ("five", 6, None):
        refused = await refusal(session.answer(question.id, "accept", value))
        assert refused.code == "invalid_arguments"
    assert await session.questions() == [question]
    await session.answer(question.id, "accept", 5)
    assert (await session.result(question.call)).data == 5


@requirement("contract.ask.6")
async def test_the_same_answer_again_gives_the_first_outcome(open_crib: OpenCrib, clock: FakeClock) -> None:
    crib = await open_crib(pay)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "pay", {"to": "bob"})
    said: dict[str, Any] = {"arguments": {"to": "eve"}, "reason": "ok", "actor": "bob", "key": "k-1"}
    first = await session.answer(question.id, "accept", **said)
    await session.result(question.call)
    await clock.advance(5)
    assert await session.answer(question.id, "accept", **said) == first
    crib = await open_crib(pay)
    session = await crib.open("s", owner="ada")
    assert await session.answer(question.id, "accept", **said) == first
    assert (len(ran), len(await log(session, "answered"))) == (1, 1)


@requirement("contract.ask.6")
async def test_another_answer_to_an_answered_question_is_refused(open_crib: OpenCrib) -> None:
    crib = await open_crib(pay)
    session = await crib.open(owner="ada")
    question = await parked(session, "pay", {"to": "bob"})
    await session.answer(question.id, "accept", actor="bob", key="k-1")
    for action, more in (
        ("decline", {"actor": "bob", "key": "k-1"}),
        ("accept", {"actor": "bob", "key": "k-2"}),
        ("accept", {"actor": "bob"}),
        ("accept", {"actor": "eve", "key": "k-1"}),
        ("accept", {"actor": "bob", "key": "k-1", "reason": "other"}),
        ("accept", {"actor": "bob", "key": "k-1", "arguments": {"to": "eve"}}),
        ("accept", {"actor": "bob", "key": "k-1", "arguments": {"nonsense": 1}}),
    ):
        assert (await refusal(session.answer(question.id, action, **more))).code == "already_answered"
    assert len(ran) == 1


@requirement("contract.ask.6")
async def test_an_unknown_question_and_one_of_another_session_are_not_found(open_crib: OpenCrib) -> None:
    crib = await open_crib(pay)
    session, other = await crib.open(owner="ada"), await crib.open(owner="eve")
    question = await parked(session, "pay", {"to": "bob"})
    for id in ("nothing", f"{question.call}-9", "", "-1"):
        assert (await refusal(session.answer(id, "accept"))).code == "not_found"
    assert (await refusal(other.answer(question.id, "accept"))).code == "not_found"
    assert await session.questions() == [question]


@requirement("contract.ask.6")
async def test_of_answers_that_race_one_wins_and_its_repetition_is_recognised(open_crib: OpenCrib) -> None:
    crib = await open_crib(pay)
    session = await crib.open(owner="ada")
    for keys, distinct in ((["k"] * 4, 1), (["a", "b", "c", "d"], 4)):
        question = await parked(session, "pay", {"to": "bob"})
        answers = [session.answer(question.id, "accept", key=key) for key in keys]
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        refused = [getattr(outcome, "code", None) for outcome in outcomes if isinstance(outcome, Exception)]
        assert refused == ["already_answered"] * (distinct - 1)
        assert (await session.result(question.call)).ok
    assert len(ran) == 2
    assert len(await log(session, "answered")) == 2


@requirement("contract.ask.7")
@pytest.mark.parametrize(
    ("action", "ends_as", "status"),
    [("decline", "declined", "failed"), ("cancel", "cancelled", "cancelled"), ("fail", "failed", "failed")],
)
async def test_a_no_ends_the_call_with_its_reason(open_crib: OpenCrib, action: str, ends_as: str, status: str) -> None:
    @tool(effect="once")
    async def work(ctx: Context) -> None:
        """Ask somebody outside."""
        ran.append(1)
        await ctx.ask("Well?", kind="external", resume="pass")

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    question = await parked(session, "work")
    await session.answer(question.id, action, reason="not today")
    result = await session.result(question.call)
    assert (code(result), message(result), ran) == (ends_as, "not today", [1])
    assert (await session.status(question.call)).status == status
    assert (await kinds(session))[-2:] == ["answered", "done"]
    assert await session.questions() == []


@requirement("contract.ask.7")
@pytest.mark.parametrize(
    ("name", "seconds", "text", "retryable"),
    [
        ("pay", 24 * 3600, "24 h", False),
        ("client.sign", 15 * 60, "15 min", False),
        ("look", 90.5, "90.5 s", True),
        ("short", 60, "1 min", False),
    ],
)
async def test_nobody_answers_in_time(
    open_crib: OpenCrib, clock: FakeClock, name: str, seconds: float, text: str, retryable: bool
) -> None:
    @tool(read_only=True)
    async def look(ctx: Context) -> None:
        """Ask for a moment."""
        await ctx.ask("Well?", expires_s=90.5)

    @tool(requires_confirmation=True, wait_s=60)
    async def short() -> None:
        """Wait a minute."""

    crib = await open_crib(pay, look, short)
    session = await crib.open(owner="ada")
    await session.offer([{"name": "sign", "description": "Sign."}])
    question = await parked(session, name, {"to": "bob"} if name == "pay" else {})
    await clock.advance(seconds - 0.1)
    assert await session.questions() == [question]
    await clock.advance(0.2)
    result = await asyncio.wait_for(session.result(question.call), 60)
    assert (code(result), message(result)) == ("timeout", f"Nobody answered within {text}")
    assert result.failure is not None
    assert result.failure.retryable is retryable
    assert (await refusal(session.answer(question.id, "accept"))).code == "expired"
    assert (await session.questions(), ran) == ([], [])


@requirement("contract.ask.7")
async def test_what_expired_while_nobody_was_there_ends_at_the_next_start(
    open_crib: OpenCrib, clock: FakeClock, store: Store
) -> None:
    crib = await open_crib(pay)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "pay", {"to": "bob"})
    await crib.stop()
    await clock.advance(25 * 3600)
    crib = await open_crib(pay)
    session = await crib.open("s", owner="ada")
    result = await asyncio.wait_for(session.result(question.call), 60)
    assert code(result) == "timeout"
    assert len(await log(session, "done")) == 1


@requirement("contract.ask.8")
async def test_a_call_may_wait_any_number_of_times(open_crib: OpenCrib) -> None:
    @tool(effect="once", requires_confirmation=True)
    async def survey(ctx: Context) -> list[Any]:
        """Ask many questions."""
        return [(await ctx.ask(f"Question {n}?")).value for n in range(5)]

    crib = await open_crib(survey)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "survey")
    await session.answer(question.id, "accept")
    for n in range(5):
        question = await next_question(session, question)
        if n == 2:
            crib = await open_crib(survey)
            session = await crib.open("s", owner="ada")
        await session.answer(question.id, "accept", n)
    assert (await session.result(question.call)).data == [0, 1, 2, 3, 4]
    assert len({event.fields["question"]["id"] for event in await log(session, "waiting")}) == 6
    assert len(await log(session, "started")) == 1


@requirement("contract.ask.8")
async def test_questions_side_by_side_are_answered_in_any_order_and_finished_siblings_rest(open_crib: OpenCrib) -> None:
    @tool(effect="once")
    async def quick() -> str:
        """Be done."""
        ran.append("quick")
        return "quick"

    tools = (pay, greet, quick)
    crib = await open_crib(*tools)
    session = await crib.open("s", owner="ada")
    await session.offer([{"name": "sign", "description": "Sign."}])
    calls = [await session.submit(name, args, turn="t") for name, args in CALLS]
    await session.result(calls[3].id)
    crib = await open_crib(*tools)
    session = await crib.open("s", owner="ada")
    asked = {question.call: question for question in await session.questions()}
    assert len(asked) == 3
    for call, value in zip(reversed(calls[:3]), ("signed", "Bob", None), strict=True):
        await session.answer(asked[call.id].id, "accept", value)
    assert [(await session.result(call.id)).data for call in calls] == ["bob got 100", "Hello Bob", "signed", "quick"]
    assert sorted(map(str, ran)) == ["['bob', 100]", "greet", "greet", "quick"]


CALLS: list[tuple[str, Any]] = [("pay", {"to": "bob"}), ("greet", {}), ("sign", {}), ("quick", {})]


@requirement("contract.ask.9")
async def test_open_questions_are_listed_after_a_restart_and_answered_by_their_id_alone(open_crib: OpenCrib) -> None:
    crib = await open_crib(pay)
    session = await crib.open("s", owner="ada")
    first = await parked(session, "pay", {"to": "bob"})
    second = await parked(session, "pay", {"to": "eve"})
    await (await crib.open("t", owner="eve")).submit("pay", {"to": "mallory"})
    crib = await open_crib(pay)
    session = await crib.open("s", owner="ada")
    assert await session.questions() == [first, second]
    assert await crib.questions("ada") == [first, second]
    assert len(await crib.questions()) == 3
    await session.answer(second.id, "accept")
    assert (await session.result(second.call)).data == "eve got 100"
    assert await session.questions() == [first]


@requirement("contract.ask.9")
async def test_a_question_of_a_child_is_listed_and_its_parent_goes_on(open_crib: OpenCrib) -> None:
    @tool(effect="once")
    async def shop(ctx: Context) -> str:
        """Let another tool pay."""
        result: Result = await ctx.call("pay", {"to": "bob"})
        return f"{result.data}!"

    crib = await open_crib(shop, pay)
    session = await crib.open(owner="ada")
    parent = await session.submit("shop")
    async for event in session.events():
        if event.kind == "waiting":
            break
    (question,) = await session.questions()
    assert question.tool == "default.pay"
    await session.answer(question.id, "accept")
    assert (await session.result(parent.id)).data == "bob got 100!"


@requirement("contract.ask.1")
async def test_a_tool_in_a_thread_asks_without_await(open_crib: OpenCrib) -> None:
    @tool(effect="once")
    def work(ctx: Context) -> Any:
        """Ask from a thread."""
        ran.append(1)
        return ctx.ask("Name?").value  # type: ignore[attr-defined]

    crib = await open_crib(work)
    session = await crib.open(owner="ada")
    question = await parked(session, "work")
    await session.answer(question.id, "accept", "Bob")
    assert (await session.result(question.call)).data == "Bob"
    assert ran == [1, 1]

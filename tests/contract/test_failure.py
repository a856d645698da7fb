"""contract.failure: failures are for the model, nothing escapes, and secrets are told to nobody."""

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import pytest
from pydantic import AfterValidator, BaseModel, Field, SecretStr

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, kinds, log, message, next_question, only, parked, refusal, unsaid, whole
from tests.requirements import requirement
from toolcrib import AntiPattern, Change, Context, Failure, Result, Session, Tool, ToolFailure, block, tool
from toolcrib.store import Draft, Row, Write
from toolcrib.store.codec import Stored, encode
from toolcrib.types import CODES


@requirement("contract.failure.1")
async def test_a_tool_that_fails_on_purpose_is_quoted_as_it_is(open_crib: OpenCrib) -> None:
    failure = ToolFailure("rate_limited", "Slow down", hint="wait", metadata={"retry_after_s": 3})

    @tool(read_only=True)
    async def fetch(returned: bool) -> ToolFailure:
        """Fetch."""
        if returned:
            return failure
        raise failure

    crib = await open_crib(fetch)
    session = await crib.open(owner="ada")
    for returned in (False, True):
        result = await session.call("fetch", {"returned": returned})
        assert result.failure == Failure("rate_limited", "Slow down", True, "wait")
        assert result.metadata == {"retry_after_s": 3}
        assert result.text == "[rate_limited] Slow down\nHint: wait"


@requirement("contract.failure.1")
@pytest.mark.parametrize("said", CODES)
async def test_each_code_says_by_itself_whether_to_try_again(open_crib: OpenCrib, said: str) -> None:
    @tool(read_only=True)
    async def reads() -> None:
        """Read."""
        raise ToolFailure(said, "no")

    @tool(effect="once")
    async def pays() -> None:
        """Pay."""
        raise ToolFailure(said, "no")

    crib = await open_crib(reads, pays, store="memory:")
    session = await crib.open(owner="ada")
    again = said in ("invalid_arguments", "unavailable", "rate_limited", "too_large")
    assert (await session.call("reads")).failure == Failure(said, "no", again or said == "timeout")
    assert (await session.call("pays")).failure == Failure(said, "no", again)


@requirement("contract.failure.1")
async def test_what_the_tool_says_about_trying_again_counts_and_codes_stay_stable(open_crib: OpenCrib) -> None:
    @tool(read_only=True, anti_patterns=[AntiPattern("no such order", "Look the order up first.")])
    async def fetch(code: str) -> None:
        """Fetch."""
        raise ToolFailure(code, "No such order", retryable=True)

    crib = await open_crib(fetch)
    session = await crib.open(owner="ada")
    hint = "Look the order up first."
    assert (await session.call("fetch", {"code": "failed"})).failure == Failure("failed", "No such order", True, hint)
    assert code(await session.call("fetch", {"code": "my_own"})) == "failed"


@requirement("contract.failure.1")
async def test_a_password_in_an_exception_reaches_the_trace_alone(
    open_crib: OpenCrib, trace: Callable[[], str]
) -> None:
    """Story 7 of the chapter."""

    @tool(read_only=True)
    async def login() -> None:
        """Log in."""
        raise RuntimeError("could not log in with hunter2")

    crib = await open_crib(login)
    session = await crib.open(owner="ada")
    result = await session.call("login")
    found = re.fullmatch(r"Tool 'login' failed unexpectedly \(trace (\w+)\)", message(result))
    assert found is not None
    assert (code(result), result.failure and result.failure.retryable) == ("internal", False)
    assert "hunter2" not in result.text + await whole(session)
    assert "hunter2" in trace()
    assert found[1] in trace()
    assert "Traceback" in trace()


@requirement("contract.failure.2")
async def test_failed_denied_and_unknown_calls_do_not_disturb_their_siblings(open_crib: OpenCrib) -> None:
    release = asyncio.Event()

    @tool(read_only=True)
    async def good() -> str:
        """Succeed."""
        await release.wait()
        return "good"

    @tool(read_only=True)
    async def bad() -> None:
        """Fail."""
        raise RuntimeError

    @tool(namespace="closed")
    async def shut() -> None:
        """Not open."""

    crib = await open_crib(good, bad, shut)
    session = await crib.open(owner="ada")
    names = ["good", "bad", "shut", "nobody", "good"]
    calls = [await session.submit(name, turn="t-1") for name in names]
    assert [code(await session.result(call.id)) for call in calls[1:4]] == ["internal", "denied", "not_found"]
    release.set()
    assert [(await session.result(calls[at].id)).data for at in (0, 4)] == ["good", "good"]
    assert (await session.call("good")).ok
    assert len(await log(session, "done")) == 6


@requirement("contract.failure.2")
async def test_an_unknown_tool_is_not_found_with_up_to_three_similar_names(open_crib: OpenCrib) -> None:
    tools = [Tool(name=f"get_order{n}", description="Get.", run=lambda ctx, values: None) for n in range(5)]
    crib = await open_crib(*tools)
    session = await crib.open(owner="ada")
    result = await session.call("get_ordr1")
    assert (code(result), message(result)) == ("not_found", "Unknown tool: get_ordr1")
    assert result.failure is not None
    hint = result.failure.hint or ""
    assert "get_order1" in hint
    assert hint.count("get_order") <= 3


def deep() -> int:
    return deep() + 1


def exits() -> NoReturn:
    sys.exit("bye")


def interrupts() -> NoReturn:
    raise KeyboardInterrupt


def stops() -> NoReturn:
    raise StopIteration


def cancels() -> NoReturn:
    raise asyncio.CancelledError


def closes() -> NoReturn:
    raise GeneratorExit


RAISERS: list[Callable[[], object]] = [exits, interrupts, deep, stops, cancels, closes]


async def ends_internally(session: Session, name: str) -> None:
    result = await asyncio.wait_for(session.call(name), 60)
    assert code(result) == "internal"
    assert (await log(session))[-1].kind == "done"
    assert "bye" not in result.text


@requirement("contract.failure.3")
@pytest.mark.parametrize("raiser", RAISERS)
async def test_nothing_that_a_body_raises_escapes(open_crib: OpenCrib, raiser: Callable[[], object]) -> None:
    @tool(read_only=True)
    async def soon() -> object:
        """Raise at once."""
        return raiser()

    @tool(read_only=True)
    async def later() -> object:
        """Raise after a pause."""
        await asyncio.sleep(0)
        return raiser()

    @tool(read_only=True)
    def thread() -> object:
        """Raise in a thread."""
        return raiser()

    @tool(read_only=True)
    async def stream() -> Any:
        """Raise in a stream."""
        yield 1
        raiser()

    @tool(read_only=True)
    def thread_stream() -> Any:
        """Raise in a stream in a thread."""
        yield 1
        raiser()

    @tool(read_only=True)
    def step(ctx: Context) -> object:
        """Raise in a step."""
        return ctx.step("one", raiser)

    crib = await open_crib(soon, later, thread, stream, thread_stream, step)
    session = await crib.open(owner="ada")
    for name in ("soon", "later", "thread", "stream", "thread_stream", "step"):
        await ends_internally(session, name)


@requirement("contract.failure.3")
@pytest.mark.parametrize("raiser", RAISERS)
async def test_nothing_that_a_check_or_a_type_raises_escapes(open_crib: OpenCrib, raiser: Callable[[], object]) -> None:
    ran = []

    @tool(validate=lambda ctx: raiser())
    async def check() -> None:
        """Check."""
        ran.append(1)

    async def slow_check() -> None:
        await asyncio.sleep(0)
        raiser()

    @tool(validate=slow_check)
    async def check_slowly() -> None:
        """Check."""
        ran.append(1)

    @tool
    async def typed(n: Annotated[int, AfterValidator(lambda n: raiser())] = 1) -> None:
        """Take a type that checks itself."""
        ran.append(n)

    crib = await open_crib(check, check_slowly, typed)
    session = await crib.open(owner="ada")
    await ends_internally(session, "check")
    await ends_internally(session, "check_slowly")
    assert code(await session.call("typed", {"n": 5})) == "internal"
    assert ran == []


@requirement("contract.failure.3")
@pytest.mark.parametrize("raiser", RAISERS)
async def test_nothing_that_a_value_raises_when_it_is_looked_at_escapes(
    open_crib: OpenCrib, raiser: Callable[[], object]
) -> None:
    class Odd(Result):
        @property  # type: ignore[misc]
        def data(self) -> Any:
            return raiser()

    def values() -> Iterator[object]:
        yield 1
        raiser()

    @tool(read_only=True)
    async def odd() -> Result:
        """Give an odd result."""
        return Odd()

    @tool(read_only=True)
    async def iterator() -> Any:
        """Give an iterator."""
        return {"all": values()}

    crib = await open_crib(odd, iterator)
    session = await crib.open(owner="ada")
    await ends_internally(session, "odd")
    if raiser is not stops:
        await ends_internally(session, "iterator")


@requirement("contract.failure.3")
async def test_output_that_is_no_json_ends_the_call(open_crib: OpenCrib) -> None:
    circle: list[Any] = []
    circle.append(circle)
    outputs: dict[str, Any] = {
        "object": object(),
        "circle": circle,
        "surrogate": "\ud800",
        "content": Result(content=[block("json", value=circle)]),
        "metadata": Result(1, metadata={"x": object()}),
        "change": Result(1, changes=[Change("set", "k", circle)]),
        "changes": Result(1, changes=["set"]),  # type: ignore[list-item]
    }

    @tool(read_only=True)
    async def give(what: str) -> Any:
        """Give."""
        return outputs[what]

    crib = await open_crib(give)
    session = await crib.open(owner="ada")
    for what in outputs:
        assert code(await session.call("give", {"what": what})) == "internal", what
    assert len(await log(session, "done")) == len(outputs)


@requirement("contract.failure.3")
@pytest.mark.parametrize("raiser", RAISERS)
async def test_a_reconcile_that_raises_leaves_the_call_unknown(
    open_crib: OpenCrib, raiser: Callable[[], object]
) -> None:
    ran = []

    @tool(effect="once", reconcile=lambda ctx, n: raiser())
    async def pay(n: int) -> None:
        """Pay."""
        ran.append(n)

    session = await left_running(open_crib, pay, {"n": 1})
    (entry,) = await session.completed()
    assert entry.result is not None
    assert (entry.status, code(entry.result), ran) == ("unknown", "unknown", [])


async def left_running(open_crib: OpenCrib, tool: Tool, args: dict[str, Any]) -> Session:
    """A session in which a process died while it ran a call."""
    crib = await open_crib(tool)
    await crib.open("s", owner="ada")
    by = {"kind": "user", "name": ""}
    accepted = {"tool": tool.id, "label": "", "args": args, "by": by, "digest": "", "effect": tool.does}
    started = {"attempt": 1, "args": args, "digest": "", "timeout_s": 60}
    row = Row("c-dead", "s", tool.id, tool.does, "running", 1, "w-dead", 1.0)
    events: list[Draft] = [
        (1.0, "c-dead", "accepted", Stored(encode(accepted))),
        (1.0, "c-dead", "started", Stored(encode(started))),
    ]
    assert await crib.store.commit(Write("s", events, row)) is None
    crib = await open_crib(tool)
    return await crib.open("s", owner="ada")


# Secrets

SECRET = "p@ss\n\"word'"
Password = Annotated[str, Field(json_schema_extra={"x-toolcrib-kind": "secret"}, min_length=4)]


@dataclass
class Account:
    user: str
    password: Password


def gives_away(text: str, secret: str = SECRET) -> bool:
    """Whether a secret is found in a text, plain or escaped."""
    forms = (secret, secret.replace("\n", "\\n"), repr(secret)[1:-1], secret.replace("\n", "\\n").replace('"', '\\"'))
    return any(form in text for form in forms) or any(form.replace("\\", "\\\\") in text for form in forms[1:])


@tool(effect="idempotent")
async def leak(ctx: Context, password: Password, n: int = 0) -> Result:
    """Tell the password in every way."""
    ctx.progress(f"using {password}")
    ctx.output(f"text {password[:3]}")
    ctx.output({"value": [password, {password: 1}]})
    ctx.output(f"{password[3:]} text")
    ctx.activity("login", {"with": password})
    assert await ctx.step("one", lambda: {"got": password}) == {"got": password}
    if n == 1:
        raise RuntimeError(f"bad {password}")
    if n == 2:
        raise ToolFailure("failed", f"bad {password}", hint=f"not {password}", metadata={"pw": password})
    if n == 3:
        return Result(failure=Failure("failed", f"bad {password}"))
    content = [block("text", text=f"got {password}")]
    changes = [Change("set", "last", password)]
    return Result({"echo": password}, content=content, changes=changes, metadata={"m": password})


@requirement("contract.failure.4")
@pytest.mark.parametrize("n", [0, 1, 2, 3])
async def test_a_secret_argument_is_masked_wherever_a_tool_tells_it(
    open_crib: OpenCrib, trace: Callable[[], str], n: int
) -> None:
    crib = await open_crib(leak)
    session = await crib.open(owner="ada")
    result = await session.call("leak", {"password": SECRET, "n": n}, label=f"log in with {SECRET}")
    assert not gives_away(result.text)
    assert not gives_away(repr([result.data, result.content, result.metadata, dict(session.state.snapshot())]))
    assert not gives_away(await whole(session))
    assert not gives_away(trace())
    assert "•••" in result.text or n == 1
    assert [event.fields["args"]["password"] for event in await log(session) if "args" in event.fields] == [
        "•••",
        "•••",
    ]


@requirement("contract.failure.4")
async def test_a_secret_is_masked_also_where_it_is_told_in_pieces(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def spell(ctx: Context, password: Password) -> None:
        """Spell it."""
        for letter in f"<{password}> {password[:3]}":
            ctx.output(letter)
            ctx.output({"next": 1})

    crib = await open_crib(spell)
    session = await crib.open(owner="ada")
    await session.call("spell", {"password": "hunter2"})
    text = "".join(event.fields.get("delta", "") for event in await log(session, "output"))
    assert text == "<•••> hun"


@tool(effect="idempotent", output_bytes=200)
async def much(password: Password, way: str) -> Any:
    """Tell the password so often that it has to be kept beside the log."""
    told = [{"echo": password}] * 50
    return told if way == "data" else Result(1, content=[block("text", text=f"got {password} {told}")])


@requirement("contract.failure.4")
@pytest.mark.parametrize("way", ["data", "content"])
async def test_a_secret_is_masked_in_output_that_is_spilled(open_crib: OpenCrib, way: str) -> None:
    crib = await open_crib(much)
    session = await crib.open(owner="ada")
    result = await session.call("much", {"password": SECRET, "way": way})
    assert not gives_away(repr([result.data, result.metadata]))
    kept = await session.output(result.data["spilled"]["output"], limit=100_000)
    assert len(kept.encode()) == result.data["spilled"]["bytes"]
    assert "•••" in kept
    assert not gives_away(kept)
    assert not gives_away(await whole(session))


@requirement("contract.failure.4")
async def test_a_secret_is_masked_in_a_spilled_answer_of_a_client(open_crib: OpenCrib) -> None:
    crib = await open_crib()
    session = await crib.open(owner="ada")
    schema = {"type": "object", "properties": {"pin": {"type": "string", "x-toolcrib-kind": "secret"}}}
    limits = {"output_bytes": 200}
    await session.offer([{"name": "sign", "description": "Sign.", "input_schema": schema, "limits": limits}])
    call = await session.submit("client.sign", {"pin": SECRET})
    (question,) = await session.questions()
    given = await session.answer(question.id, "accept", [SECRET] * 50, key="k", reason=f"with {SECRET}")
    result = await session.result(call.id)
    again = await session.answer(question.id, "accept", [SECRET] * 50, key="k", reason=f"with {SECRET}")
    assert (again.key, again.at) == (given.key, given.at)
    kept = await session.output(result.data["spilled"]["output"], limit=100_000)
    assert "•••" in kept
    assert not gives_away(kept)
    assert not gives_away(await whole(session))


@requirement("contract.failure.4")
async def test_a_generator_does_not_give_a_secret_away(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    def count(password: Password) -> Iterator[Any]:
        """Count."""
        yield {"using": password}
        yield password

    crib = await open_crib(count)
    session = await crib.open(owner="ada")
    assert (await session.call("count", {"password": "hunter2"})).data == "•••"
    assert "hunter2" not in await whole(session)


@requirement("contract.failure.4")
async def test_arguments_that_do_not_fit_do_not_give_a_secret_away(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def login(
        account: Account, pin: Annotated[int, Field(json_schema_extra={"x-toolcrib-kind": "secret"})]
    ) -> None:
        """Log in."""

    long = "correct horse battery staple " * 4
    crib = await open_crib(login)
    session = await crib.open(owner="ada")
    for args in (
        {"account": {"user": 5, "password": "hunter2"}, "pin": 98765},
        {"account": {"user": "ada", "password": ["hunter2"]}, "pin": "x98765"},
        {"account": {"user": "ada", "password": [long]}, "pin": {"a": 98765}},
        {"account": '{"user": 5, "password": "hunter2"}', "pin": 98765},
        '{"account": {"password": "hunter2"',
    ):
        result = await session.call("login", args)
        assert code(result) == "invalid_arguments"
        assert not any(part in result.text for part in ("hunter2", "98765", "horse"))
    assert await unsaid(session, "hunter2", "98765", "horse")


@requirement("contract.failure.4")
async def test_a_denied_call_does_not_give_a_secret_away(open_crib: OpenCrib) -> None:
    @tool(namespace="closed")
    async def login(password: Password) -> None:
        """Log in."""

    crib = await open_crib(login)
    session = await crib.open(owner="ada")
    assert code(await session.call("closed.login", {"password": "hunter2"})) == "denied"
    assert "hunter2" not in await whole(session)


@requirement("contract.failure.4")
async def test_nested_typed_and_numeric_secrets_reach_the_body_and_nobody_else(
    open_crib: OpenCrib, trace: Callable[[], str]
) -> None:
    class Card(BaseModel):
        number: SecretStr
        cvc: int = Field(json_schema_extra={"x-toolcrib-kind": "secret"})

    got: list[Any] = []

    @tool(read_only=True)
    async def pay(cards: list[Card], account: Account) -> dict[str, Any]:
        """Pay."""
        got.extend([cards[0].number.get_secret_value(), cards[0].cvc, account.password])
        return {"cvc": cards[0].cvc, "text": f"{cards[0].cvc} {account.password}"}

    crib = await open_crib(pay)
    session = await crib.open(owner="ada")
    args = {"cards": [{"number": "4111-1111", "cvc": 98765}], "account": {"user": "ada", "password": "hunter2"}}
    result = await session.call("pay", args)
    assert got == ["4111-1111", 98765, "hunter2"]
    assert result.data == {"cvc": "•••", "text": "••• •••"}
    masked = {"cards": [{"number": "•••", "cvc": "•••"}], "account": {"user": "ada", "password": "•••"}}
    assert (await only(session, "accepted"))["args"] == masked
    assert await unsaid(session, "4111", "98765", "hunter2")
    assert not any(part in trace() for part in ("4111", "98765", "hunter2"))


@tool(requires_confirmation=True, validate=lambda password: None)
async def login(ctx: Context, password: Password, host: str = "a") -> str:
    """Log in, and ask."""
    answer = await ctx.ask(f"Use {password}?", data={"with": password})
    return f"{len(password)} {host} {answer.value}"


@requirement("contract.failure.4")
async def test_a_secret_survives_waiting_and_a_restart_without_being_shown(open_crib: OpenCrib) -> None:
    crib = await open_crib(login)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "login", {"password": "hunter2"})
    assert question.arguments == {"password": "•••", "host": "a"}
    crib = await open_crib(login)
    session = await crib.open("s", owner="ada")
    await session.answer(question.id, "accept")
    second = await next_question(session, question)
    assert (second.prompt, second.data) == ("Use •••?", {"with": "•••"})
    crib = await open_crib(login)
    session = await crib.open("s", owner="ada")
    await session.answer(second.id, "accept", "yes")
    assert (await session.result(question.call)).data == "7 a yes"
    assert "hunter2" not in await whole(session)


@requirement("contract.failure.4")
async def test_an_approver_edits_beside_a_secret_or_the_secret_itself(open_crib: OpenCrib) -> None:
    crib = await open_crib(login)
    session = await crib.open("s", owner="ada")
    for password, length in (("•••", 7), ("correct horse", 13)):
        question = await parked(session, "login", {"password": "hunter2"})
        edited = {**question.arguments, "host": "b", "password": password}
        await session.answer(question.id, "accept", arguments=edited, key="k")
        second = await next_question(session, question)
        crib = await open_crib(login)
        session = await crib.open("s", owner="ada")
        again = await session.answer(question.id, "accept", arguments=edited, key="k")
        assert again.arguments == {"password": "•••", "host": "b"}
        await session.answer(second.id, "accept", "ok")
        assert (await session.result(question.call)).data == f"{length} b ok"
    assert await unsaid(session, "hunter2", "horse")


@requirement("contract.failure.4")
async def test_a_step_that_tells_a_secret_gives_it_back_after_a_restart(open_crib: OpenCrib) -> None:
    ran = []

    @tool(effect="once")
    async def derive(ctx: Context, password: Password) -> int:
        """Derive."""

        def key() -> str:
            ran.append(1)
            return f"key:{password}"

        got = await ctx.step("key", key)
        await ctx.ask("Go on?")
        return len(got)

    crib = await open_crib(derive)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "derive", {"password": "hunter2"})
    crib = await open_crib(derive)
    session = await crib.open("s", owner="ada")
    await session.answer(question.id, "accept")
    assert (await session.result(question.call)).data == len("key:hunter2")
    assert ran == [1]
    assert "hunter2" not in await whole(session)
    kept = (await only(session, "step"))["kept"]
    assert (await refusal(session.output(kept))).code == "not_found"
    assert await kinds(session) == ["accepted", "started", "step", "waiting", "answered", "done"]

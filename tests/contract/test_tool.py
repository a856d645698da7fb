"""contract.tool: what a tool is, what its model is shown, and that its limits hold."""

import asyncio
import dataclasses
import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, log, message, only, parked, whole
from tests.requirements import requirement
from toolcrib import Annotations, BadTool, Change, Context, Crib, CribLimits, Limits, Result, Tool, block, tool
from toolcrib._call import answers
from toolcrib._call.request import OPTIONS
from toolcrib.keywords import AnswerKeywords, CallKeywords, ToolKeywords
from toolcrib.sources import functions
from toolcrib.store.codec import digest as digest_of_call
from toolcrib.testing import FakeClock


async def nothing(ctx: Any, values: Any) -> None:
    """A body."""


def made(**fields: Any) -> Tool:
    said: dict[str, Any] = {"name": "pay", "description": "Pay.", "run": nothing}
    return Tool(**said | fields)


@requirement("contract.tool.1")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "-dash"),
        ("name", "a b"),
        ("name", "x" * 129),
        ("name", 5),
        ("namespace", "with.dot"),
        ("namespace", "x" * 33),
        ("description", "  \n"),
        ("description", None),
        ("input_schema", {"type": "array"}),
        ("input_schema", {"type": "object", "properties": {"a": {"type": "nonsense"}}}),
        ("input_schema", "no schema"),
        ("output_schema", {"type": 7}),
        ("output_schema", "no schema"),
        ("effect", "twice"),
        ("wake", "never"),
    ],
)
def test_a_bad_field_is_an_error_that_names_tool_field_and_source(field: str, value: object) -> None:
    with pytest.raises(BadTool) as bad:
        made(**{"source": "shop.yaml", field: value})
    assert (bad.value.field, bad.value.source) == (field, "shop.yaml")
    assert bad.value.tool == (value if field == "name" else "pay")
    assert all(part in str(bad.value) for part in (field, "shop.yaml"))


@requirement("contract.tool.1")
def test_an_unknown_field_is_an_error_that_names_the_nearest_known_one() -> None:
    with pytest.raises(BadTool, match=r"Tool 'pay' \(from shop\.py\): descripton: .*'description'"):
        Tool(name="pay", descripton="Pay.", source="shop.py")  # type: ignore[call-arg]
    with pytest.raises(BadTool, match=r"refund.*colour"):

        @tool(colour="red")  # type: ignore[call-overload, untyped-decorator]
        async def refund() -> None:
            """Refund."""


@requirement("contract.tool.1")
def test_a_tool_without_a_name_is_an_error() -> None:
    with pytest.raises(BadTool, match="name: is required"):
        Tool(description="Pay.")  # type: ignore[call-arg]


@requirement("contract.tool.1")
def test_a_tool_is_frozen_and_the_schema_it_was_made_of_may_change_without_it() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    pay = made(input_schema=schema)
    with pytest.raises(FrozenInstanceError):
        pay.name = "steal"  # type: ignore[misc]
    schema["properties"]["b"] = {"type": "string"}
    assert list(pay.input_schema["properties"]) == ["a"]


@requirement("contract.tool.1")
def test_names_up_to_their_limits_are_taken_and_the_id_splits_at_the_first_dot() -> None:
    longest = made(name="A" + "b" * 127, namespace="n" * 32)
    assert longest.id == f"{'n' * 32}.A{'b' * 127}"
    assert made(name="v1.2-x_y", namespace="  Shop ").id == "shop.v1.2-x_y"
    assert made().namespace == "default"
    assert made().input_schema == {"type": "object", "properties": {}}


@requirement("contract.tool.2")
@pytest.mark.parametrize(
    ("annotations", "effect", "does"),
    [
        (None, None, "once"),
        (Annotations(), None, "once"),
        (Annotations(destructive=True), None, "once"),
        (Annotations(idempotent=True), None, "idempotent"),
        (Annotations(read_only=True), None, "read"),
        (Annotations(read_only=True, idempotent=True), None, "read"),
        (Annotations(read_only=True), "once", "once"),
        (None, "read", "read"),
    ],
)
def test_the_effect_follows_the_annotations_unless_it_is_said(
    annotations: Annotations | None, effect: str | None, does: str
) -> None:
    assert made(annotations=annotations, effect=effect).does == does


@requirement("contract.tool.2")
def test_read_only_and_destructive_is_an_error_at_home_and_destructive_from_afar() -> None:
    both = Annotations(read_only=True, destructive=True)
    with pytest.raises(BadTool, match="annotations"):
        made(annotations=both)
    remote = made(annotations=both, trusted=False, source="far")
    assert remote.does == "once"
    assert remote.annotations == Annotations(destructive=True)
    assert len(remote.warnings) == 1
    assert remote.id in remote.warnings[0]


@requirement("contract.tool.1")
@pytest.mark.parametrize(
    ("properties", "required", "primary"),
    [
        ({"n": {"type": "integer"}, "path": {"type": "string"}, "z": {"type": "string"}}, ["z", "path"], "path"),
        ({"only": {"type": "integer"}}, [], "only"),
        ({"a": {"type": "string"}, "b": {"type": "string"}}, [], None),
        ({}, [], None),
    ],
)
def test_the_primary_argument_is_the_first_required_text_else_the_only_one(
    properties: dict[str, Any], required: list[str], primary: str | None
) -> None:
    schema = {"type": "object", "properties": properties, "required": required}
    assert made(input_schema=schema).primary == primary


def named(name: str, namespace: str = "default", *, trusted: bool = True) -> Tool:
    return made(name=name, namespace=namespace, trusted=trusted, source=namespace)


@requirement("contract.tool.3")
async def test_a_model_is_shown_bare_names_where_they_are_unique_and_local(open_crib: OpenCrib) -> None:
    tools = [named("get", "a"), named("get", "b"), named("put", "a"), named("put", "far", trusted=False)]
    crib = await open_crib(*tools)
    session = await crib.open(owner="ada", namespaces=["a", "b", "far"])
    assert {name: tool.id for name, tool in session.model_tools().items()} == {
        "a__get": "a.get",
        "b__get": "b.get",
        "put": "a.put",
        "far__put": "far.put",
    }


@requirement("contract.tool.3")
async def test_a_name_that_does_not_fit_ends_in_a_digest_of_the_id(open_crib: OpenCrib) -> None:
    long = named("x" * 65)
    just_fits, dotted = named("y" * 64), named("read.file")
    crib = await open_crib(long, just_fits, dotted)
    session = await crib.open(owner="ada")
    digest = {tool.id: hashlib.sha256(tool.id.encode()).hexdigest()[:8] for tool in (long, dotted)}
    assert set(session.model_tools()) == {
        f"{'x' * 55}_{digest[long.id]}",
        "y" * 64,
        f"read_file_{digest[dotted.id]}",
    }
    assert all(len(name) <= 64 for name in session.model_tools())


@requirement("contract.tool.3")
async def test_two_tools_whose_names_would_collide_are_both_shown(open_crib: OpenCrib) -> None:
    crib = await open_crib(named("far__get"), named("get", "far", trusted=False))
    session = await crib.open(owner="ada", namespaces=["default", "far"])
    shown = session.model_tools()
    assert sorted(tool.id for tool in shown.values()) == ["default.far__get", "far.get"]
    assert {name: session.tool(name) for name in shown} == shown


@requirement("contract.tool.3")
@pytest.mark.parametrize("first", ["a", "ab"])
async def test_a_tool_keeps_its_name_after_a_restart_whatever_came_or_went(tmp_path: Path, first: str) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    tools = {name: named("get", name) for name in "abc"}
    async with Crib([tools[name] for name in first], store=store) as crib:
        session = await crib.open("s", owner="ada", namespaces=["*"])
        shown = {tool.id: name for name, tool in session.model_tools().items()}
    for names in ("ab", "a", "abc"):
        async with Crib([tools[name] for name in names], store=store) as crib:
            session = await crib.open("s", owner="ada")
            now = {tool.id: name for name, tool in session.model_tools().items()}
            assert now["a.get"] == shown["a.get"] == ("get" if first == "a" else "a__get")
            assert (await session.call(now["a.get"])).ok
            shown |= now


@requirement("contract.tool.3")
async def test_a_name_never_changes_its_meaning_while_the_session_lives(open_crib: OpenCrib) -> None:
    crib = await open_crib(named("get", "a"), named("put", "b"))
    session = await crib.open(owner="ada", namespaces=["a", "b"])
    assert session.model_tools()["get"].id == "a.get"
    crib.add(named("get", "b"))
    shown = session.model_tools()
    assert shown["get"].id == "a.get"
    assert shown["b__get"].id == "b.get"
    crib.remove("a.get")
    assert "get" not in session.model_tools()
    assert code(await session.call("get")) == "not_found"
    assert (await session.call("b__get")).ok


@requirement("contract.tool.4")
def test_the_fingerprint_is_the_digest_of_the_canonical_definition() -> None:
    schema = {"type": "object", "properties": {"ö": {"type": "string"}, "a": {"type": "number", "minimum": 1.5}}}
    pay = made(
        namespace="shop",
        input_schema=schema,
        output_schema={"type": "object"},
        annotations=Annotations(destructive=True),
        capabilities=("net:egress:{a}",),
    )
    said = {
        "id": "shop.pay",
        "description": "Pay.",
        "input_schema": schema,
        "output_schema": {"type": "object"},
        "annotations": {
            "read_only": False,
            "destructive": True,
            "idempotent": False,
            "open_world": False,
            "requires_confirmation": False,
        },
        "capabilities": ["net:egress:{a}"],
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert pay.fingerprint == hashlib.sha256(text.encode()).hexdigest()


@requirement("contract.tool.4")
async def test_another_definition_gives_the_same_call_another_digest(open_crib: OpenCrib) -> None:
    digests = []
    for description in ("Pay.", "Pay!"):
        crib = await open_crib(made(description=description))
        session = await crib.open("s", owner="ada")
        await session.submit("pay")
        digests.append(
            [event.fields["digest"] for event in await log(session) if event.kind in ("accepted", "started")]
        )
    assert digests[0][0] == digests[0][1]
    assert made().fingerprint != made(description="Pay!").fingerprint
    assert len(set(digests[1])) == 2


@requirement("contract.tool.4")
async def test_the_digest_of_a_call_that_only_reads_is_that_of_what_ran(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def look(n: int) -> int:
        """Look."""
        return n

    crib = await open_crib(look)
    session = await crib.open("s", owner="ada")
    assert (await session.call("look", {"n": 1})).data == 1
    accepted, started, _ = [event for event in await log(session) if event.call is not None]
    wanted = digest_of_call("s", accepted.call or "", look.fingerprint, b'{"n":1}')
    assert accepted.fields["digest"] == started.fields["digest"] == wanted


@requirement("contract.tool.5")
async def test_a_call_that_runs_too_long_ends_with_a_timeout(open_crib: OpenCrib, clock: FakeClock) -> None:
    ended = asyncio.Event()

    @tool(read_only=True, timeout=20)
    async def sleep() -> None:
        """Sleep."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    crib = await open_crib(sleep)
    session = await crib.open(owner="ada")
    call = await session.submit("sleep")
    assert (await only(session, "started"))["timeout_s"] == 20
    await clock.advance(19.9)
    assert not ended.is_set()
    await clock.advance(0.2)
    result = await session.result(call.id)
    assert (code(result), message(result), ended.is_set()) == ("timeout", "Timed out after 20 s", True)


@requirement("contract.tool.5")
async def test_output_that_breaks_its_schema_is_not_passed_on(open_crib: OpenCrib, trace: Callable[[], str]) -> None:
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "integer"}}}}

    @tool(read_only=True, output_schema=schema)
    async def count(piece: Any) -> Any:
        """Count."""
        return piece

    crib = await open_crib(count)
    session = await crib.open(owner="ada")
    assert (await session.call("count", {"piece": {"items": [1]}})).data == {"items": [1]}
    result = await session.call("count", {"piece": {"items": [1, "rejected"]}})
    assert code(result) == "internal"
    said = "The tool ran, but its output does not match its schema: items[1]: "
    assert message(result).startswith(said)
    assert len(message(result)) > len(said)
    assert result.data is None
    assert "data" not in (await log(session, "done"))[-1].fields
    assert "rejected" in trace()


@requirement("contract.tool.5")
async def test_output_over_its_limit_is_spilled_whole_and_can_be_read_back(open_crib: OpenCrib) -> None:
    @tool(read_only=True, output_bytes=100)
    async def much(blocks: bool) -> Any:
        """Give much."""
        text = "ä" * 200
        return block("text", text=text) if blocks else text

    crib = await open_crib(much)
    session = await crib.open(owner="ada", namespaces=["default", "builtin"])
    for blocks in (False, True):
        result = await session.call("much", {"blocks": blocks})
        spilled = result.data["spilled"]
        text = await session.output(spilled["output"], limit=10_000)
        assert len(text.encode()) == spilled["bytes"] > 400
        assert "ä" * 200 in text
        assert not result.content
        assert result.metadata["spilled"]["output"] == spilled["output"]


@requirement("contract.tool.5")
async def test_a_spilled_output_keeps_its_state_changes(open_crib: OpenCrib) -> None:
    @tool(output_bytes=10)
    async def much() -> Result:
        """Give much and remember it."""
        return Result("x" * 100, changes=[Change("set", "seen", True)])

    crib = await open_crib(much)
    session = await crib.open(owner="ada")
    assert "spilled" in (await session.call("much")).data
    assert dict(session.state.snapshot()) == {"seen": True}


@requirement("contract.tool.5")
async def test_what_cannot_even_be_spilled_is_too_large(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def much() -> str:
        """Give much."""
        return "x" * 2000

    crib = await open_crib(much, limits=CribLimits(largest_output=1000, output_bytes=100, arguments_bytes=50))
    session = await crib.open(owner="ada")
    result = await session.call("much")
    assert (code(result), result.failure and result.failure.retryable) == ("too_large", True)
    result = await session.call("much", {"x": "y" * 50})
    assert code(result) == "too_large"
    assert "y" * 50 not in await whole(session)


@tool(namespace="shop", destructive=True, timeout=50)
async def send(ctx: Context, to: str, text: str, copies: int = 1) -> dict[str, Any]:
    """Send a letter."""
    return {"to": to, "text": text, "copies": copies, "tool": ctx.tool}


@requirement("contract.tool.6")
async def test_a_wrapper_renames_re_describes_and_tightens(open_crib: OpenCrib) -> None:
    mail = send.but(name="mail", description="Mail a friend.", limits=Limits(timeout_s=5), metadata={"team": "a"})
    assert mail.id == "shop.mail"
    assert mail.fingerprint != send.fingerprint
    assert mail.metadata == {"team": "a", "original": "shop.send"}
    assert (mail.does, mail.annotations, mail.primary) == (send.does, send.annotations, "to")
    assert (mail.limits.timeout_s, send.limits.timeout_s) == (5, 50)
    crib = await open_crib(send, mail)
    session = await crib.open(owner="ada", namespaces=["shop"])
    question = await parked(session, "mail", {"to": "bob", "text": "hi"})
    await session.answer(question.id, "accept")
    assert (await session.result(question.call)).data["tool"] == "shop.mail"


@requirement("contract.tool.6")
async def test_a_fixed_argument_is_hidden_from_the_model_and_filled_in(open_crib: OpenCrib) -> None:
    bob = send.but(name="to_bob", fixed={"to": "bob"}, annotations=Annotations(), effect="once")
    assert list(bob.input_schema["properties"]) == ["text", "copies"]
    assert bob.input_schema["required"] == ["text"]
    assert bob.primary == "text"
    assert send.but(name="x", fixed={"copies": 2}).primary == "to"
    crib = await open_crib(bob)
    session = await crib.open(owner="ada", namespaces=["shop"])
    assert (await session.call("to_bob", {"text": "hi"})).data == {
        "to": "bob",
        "text": "hi",
        "copies": 1,
        "tool": "shop.to_bob",
    }
    assert (await only(session, "started"))["args"]["to"] == "bob"
    assert code(await session.call("to_bob", {"text": "hi", "to": "eve"})) == "invalid_arguments"
    assert code(await session.call("to_bob", {})) == "invalid_arguments"


@requirement("contract.tool.6")
def test_other_fixed_values_make_another_fingerprint() -> None:
    wrappers = [send.but(name="to", fixed={"to": who}) for who in ("bob", "eve", "bob")]
    assert wrappers[0].fingerprint == wrappers[2].fingerprint != wrappers[1].fingerprint


@requirement("contract.tool.6")
async def test_policy_and_approver_see_the_fixed_arguments_and_the_approver_may_send_them_back(
    open_crib: OpenCrib,
) -> None:
    bob = send.but(name="to_bob", fixed={"to": "bob"})
    crib = await open_crib(bob)
    session = await crib.open(owner="ada", namespaces=["shop"])
    question = await parked(session, "to_bob", {"text": "hi"})
    assert question.arguments == {"to": "bob", "text": "hi", "copies": 1}
    await session.answer(question.id, "accept", arguments={**question.arguments, "copies": 2})
    result = await session.result(question.call)
    assert (result.data["copies"], result.metadata["edited"]) == (2, {"copies": 2})


Token = Annotated[str, Field(json_schema_extra={"x-toolcrib-kind": "secret"})]


@requirement("contract.tool.6")
async def test_a_fixed_secret_stays_secret(open_crib: OpenCrib) -> None:
    @tool(read_only=True)
    async def fetch(url: str, token: Token) -> str:
        """Fetch."""
        return f"{url} with {token}"

    crib = await open_crib(fetch.but(name="mine", fixed={"token": "s3cr3t"}))
    session = await crib.open(owner="ada")
    assert (await session.call("mine", {"url": "u"})).data == "u with •••"
    assert "s3cr3t" not in await whole(session)
    assert (await only(session, "accepted"))["args"] == {"url": "u", "token": "•••"}


@requirement("contract.tool.6")
def test_a_wrapper_that_does_not_hold_is_an_error() -> None:
    with pytest.raises(BadTool, match=r"fixed\.colour"):
        send.but(fixed={"colour": "red"})
    with pytest.raises(BadTool, match="description"):
        send.but(description=" ")
    with pytest.raises(BadTool, match="input_schema"):
        send.but(input_schema={"type": "object"})
    with pytest.raises(BadTool, match="unknown field"):
        send.but(colour="red")


@requirement("contract.tool.6")
async def test_a_wrapper_of_a_wrapper_keeps_what_was_fixed_before(open_crib: OpenCrib) -> None:
    both = send.but(name="to_bob", fixed={"to": "bob"}).but(name="hi_bob", fixed={"text": "hi"}, annotations=None)
    crib = await open_crib(both)
    session = await crib.open(owner="ada", namespaces=["shop"])
    result = await session.call("hi_bob")
    assert (result.data["to"], result.data["text"]) == ("bob", "hi")
    assert both.metadata["original"] == "shop.to_bob"


@requirement("contract.tool.7")
async def test_a_decorated_function_can_be_called_as_a_function() -> None:
    @tool(read_only=True)
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    @tool
    async def double(n: int) -> int:
        """Double."""
        return 2 * n

    assert (add(2), add(2, 3), add(a=2, b=5)) == (3, 5, 7)
    assert await double(4) == 8
    assert add.but(name="three", fixed={"a": 3})(b=4) == 7
    with pytest.raises(TypeError, match=r"pay is no function: call it by `await session\.call"):
        made()()


@requirement("contract.tool.7")
def test_a_type_checker_knows_every_keyword() -> None:
    shorts = {*functions._SHORT}
    fields = {one.name for one in dataclasses.fields(Tool) if one.init}
    assert shorts <= ToolKeywords.__annotations__.keys()
    assert ToolKeywords.__annotations__.keys() <= shorts | fields
    assert CallKeywords.__annotations__.keys() == set(OPTIONS)
    said = inspect.signature(answers.answer).parameters
    assert AnswerKeywords.__annotations__.keys() == said.keys() - {"session", "question", "action", "value"}


@requirement("contract.tool.7")
async def test_a_crib_and_a_session_say_what_they_are(tmp_path: Path) -> None:
    @tool(namespace="shop")
    def pay() -> None:
        """Pay."""

    async with Crib([pay], store=f"sqlite:///{tmp_path}/log.db") as crib:
        session = await crib.open("s", owner="ada", namespaces=["shop"])
        assert repr(session) == "<Session 's' of 'ada', namespaces shop, 0 calls in flight>"
        assert repr(crib).endswith("over SqliteStore, 1 sessions, 0 calls in flight>")
        await session.close()
        assert repr(session).endswith("closed>")

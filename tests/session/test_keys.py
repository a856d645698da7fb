"""Private keys and seed phrases among arguments, whatever a tool says of them: they run, and the log masks them."""

import json
import logging
from typing import Any

import pytest

from tests.agent.place import calls, text, world
from tests.requirements import requirement
from tests.session.place import Place, follow, log
from toolcrib import Context, Crib, Session, Tool, ToolFailure, tool
from toolcrib.agent import Agent
from toolcrib.schema.redaction import MASK, parted, suspect

KEY = "0x" + "4c0883a69102937d6231471b5dbb6204" * 2
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"


def signing(got: list[Any]) -> Tool:
    @tool
    async def sign(ctx: Context, private_key: str, note: str = "") -> dict[str, str]:
        """Sign."""
        got.append(private_key)
        ctx.output(f"with {private_key[2:]}")
        return {"note": note, "with": private_key}

    return sign


def open_tool(got: list[Any], **more: Any) -> Tool:
    async def run(ctx: Any, values: Any) -> str:
        got.append(values)
        return "ok"

    made: Tool = Tool(name="any", description="Take anything.", input_schema={"type": "object"}, run=run, **more)
    return made


async def told(session: Session) -> str:
    return str(await log(session))


@requirement("chain.safe.1")
async def test_a_private_key_reaches_the_tool_and_nobody_else(place: Place) -> None:
    got: list[Any] = []
    async with place.crib(signing(got)) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("sign", {"private_key": KEY, "note": "hi"}, label=f"sign with {KEY}")
        events = await follow(session, call.id)
        twin = await session.submit("sign", {"private_key": KEY[:-1] + "0", "note": "hi"})
        shown = await told(session)
    assert got == [KEY, KEY[:-1] + "0"]
    assert KEY[2:] not in shown
    assert events[0].fields["args"] == events[1].fields["args"] == {"private_key": MASK, "note": "hi"}
    assert events[0].fields["secret"] is True
    assert events[-1].fields["data"] == {"note": "hi", "with": MASK}
    assert call.digest != twin.digest  # what is bound is the real one


@requirement("chain.safe.1")
@pytest.mark.parametrize(
    "args",
    [
        {"key": KEY[2:]},
        {"secretKey": KEY.upper().replace("0X", "0x")},
        {"account": {"PRIVATE_KEY": KEY}},
        {"keys": [KEY]},
        {"signer": {"key": {"hex": KEY}}},
        {"mnemonic": WORDS},
        {"seed_phrase": WORDS},
    ],
)
async def test_a_key_is_known_by_its_name_and_its_looks(place: Place, args: dict[str, Any]) -> None:
    got: list[Any] = []
    async with place.crib(open_tool(got)) as crib:
        session = await crib.open("s", owner="ada")
        assert (await session.call("any", args)).ok
        shown = (await told(session)).lower()
    assert got == [args]
    assert KEY[2:] not in shown
    assert WORDS not in shown


@requirement("chain.safe.1")
@pytest.mark.parametrize(
    "args",
    [
        {"tx_hash": KEY, "public_key": KEY, "storage_keys": [KEY]},
        {"key": "sessions/2026-11-15/a-name-that-is-long-enough-to-be-looked-at.json"},
        {"keys": {"data": KEY + "00"}, "note": "seed " * 20},
        {"prompt": WORDS},
    ],
)
async def test_what_is_no_key_stays_readable(place: Place, args: dict[str, Any]) -> None:
    async with place.crib(open_tool([])) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("any", args)
        accepted, *_ = await follow(session, call.id)
    assert accepted.fields["args"] == args
    assert "secret" not in accepted.fields


@requirement("chain.safe.1")
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("nobody", {"private_key": KEY}),
        ("sign", {"private_key": KEY, "note": 7, "more": KEY}),
        ("count", {"private_key": KEY}),
        ("count", {"n": 1, "secret": KEY}),
        ("refuse", {"key": KEY}),
    ],
)
async def test_a_call_that_never_runs_does_not_give_a_key_away(
    place: Place, name: str, args: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def count(n: int) -> int:
        """Count."""
        return n

    def no(ctx: Any, values: Any) -> None:
        raise ToolFailure("failed", f"not with {values['key']}")

    refuse = open_tool([]).but(name="refuse", validate=no)
    with caplog.at_level(logging.DEBUG):
        async with place.crib(signing([]), count, refuse) as crib:
            session = await crib.open("s", owner="ada")
            result = await session.call(name, args)
            shown = await told(session)
    assert not result.ok
    assert KEY[2:20] not in shown + str(result) + caplog.text


@requirement("chain.safe.1")
async def test_a_question_masks_a_key_and_the_answer_may_edit_beside_it(place: Place) -> None:
    got: list[Any] = []
    policy = {"rules": [{"ask": "sign"}]}
    async with place.crib(signing(got), policy=policy) as crib:
        session = await crib.open("s", owner="ada")
        await session.submit("sign", {"private_key": KEY})
    async with place.crib(signing(got), policy=policy) as crib:  # as after a restart
        session = await crib.open("s", owner="ada")
        (asked,) = await session.questions()
        assert asked.arguments == {"private_key": MASK, "note": ""}
        await session.answer(asked.id, "accept", arguments={"private_key": MASK, "note": "fine"})
        result = await session.result(asked.call)
        shown = await told(session)
    assert got == [KEY]
    assert result.data == {"note": "fine", "with": MASK}
    assert KEY[2:] not in shown


@requirement("chain.safe.1")
async def test_a_key_that_an_approver_puts_in_is_masked_too(place: Place) -> None:
    got: list[Any] = []
    async with place.crib(signing(got), policy={"rules": [{"ask": "sign"}]}) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("sign", {"private_key": "that of ada"})
        (asked,) = await session.questions()
        await session.answer(asked.id, "accept", arguments={"private_key": KEY})
        assert (await session.result(call.id)).ok
        shown = await told(session)
    assert got == [KEY]
    assert KEY[2:] not in shown


@requirement("chain.safe.1")
@pytest.mark.parametrize("broken", [False, True])
async def test_a_key_that_a_model_gives_is_not_in_the_log(place: Place, broken: bool) -> None:
    got: list[Any] = []
    made: dict[str, Any] = {"calls": [{"tool": "sign", "args_text": json.dumps({"private_key": KEY}) + "}" * broken}]}
    script = {"main": [made, calls(("nobody", {"secret": KEY})), text("ok")]}
    async with world(place, [Agent(name="main", topics=False)], script, signing(got)) as here:
        assert (await here.send("go")).answer == "ok"
        shown = await told(here.session)
    assert got == ([] if broken else [KEY])
    assert KEY[2:] not in shown


async def test_a_fixed_key_stays_hidden(place: Place) -> None:
    got: list[Any] = []
    fixed = signing(got).but(name="mine", fixed={"private_key": KEY})
    async with place.crib(fixed) as crib:
        session = await crib.open("s", owner="ada")
        assert (await session.call("mine", {"note": "hi"})).ok
        assert KEY[2:] not in await told(session)
    assert got == [KEY]


def test_tools_that_cannot_hold_a_key_are_not_looked_at() -> None:
    @tool
    async def add(a: int, b: int, names: list[str] | None = None, sizes: dict[str, int] | None = None) -> int:
        """Add."""
        return a + b

    assert not add.keyed
    assert signing([]).keyed
    assert open_tool([]).keyed
    assert not suspect(b'{"a": 1, "b": 2}')
    assert parted(None, {"key": [KEY], "n": 1}) == ({"key": [MASK], "n": 1}, [KEY, KEY[2:]])


async def test_the_crib_of_a_page_shows_no_key() -> None:
    async with Crib([signing([])]) as crib:
        session = await crib.open("s", owner="ada")
        await session.call("sign", {"private_key": KEY})
        (entry,) = await session.completed()
    assert KEY[2:] not in str(entry)

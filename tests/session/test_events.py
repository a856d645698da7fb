"""Events of a session, questions and their answers, and what a client says of its user."""

from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import Place, first, follow, kinds, log
from toolcrib import Context, Crib, Refused, tool
from toolcrib.testing import FakeClock

DAY = 24 * 3600


@requirement("aomi.event.2")
async def test_session_events_are_lines_of_the_one_log_and_survive_a_restart(place: Place) -> None:
    @tool(read_only=True)
    async def look() -> int:
        """Look."""
        return 1

    async with place.crib(look) as crib:
        session = await crib.open("s-1", owner="ada")
        await session.notice("hello")
        await session.call("look")
        await session.set_user({"address": "0xA"})
        await session.interrupt()
        await session.close()
        before = await log(session)
    assert [e.kind for e in before if e.call is None] == [
        "opened",
        "notice",
        "user_state",
        "interrupted",
        "closing",
        "closed",
    ]
    assert [e.seq for e in before] == list(range(1, len(before) + 1))
    async with place.crib(look) as crib:
        again = await crib.open("s-1", owner="ada")
        assert (await log(again))[: len(before)] == before


@requirement("aomi.event.2")
async def test_session_events_end_with_retention(place: Place) -> None:
    clock = FakeClock()
    async with place.crib(clock=clock) as crib:
        await (await crib.open("s-1", owner="ada")).notice("hello")
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 1
        again = await crib.open("s-1", owner="ada")
        assert kinds(await log(again)) == ["opened"]


@requirement("aomi.event.5")
async def test_a_question_is_visible_only_after_validation_and_policy_passed(place: Place) -> None:
    @tool(requires_confirmation=True, validate=lambda cents: "too much" if cents > 100 else None)
    async def pay(cents: int) -> None:
        """Pay."""

    @tool(namespace="forge", requires_confirmation=True)
    async def build() -> None:
        """Build."""

    async with place.crib(pay, build) as crib:
        session = await crib.open(owner="ada")
        for name, args in (("pay", {"cents": "x"}), ("pay", {"cents": 500}), ("forge.build", {})):
            assert not (await session.call(name, args)).ok
            assert await session.questions() == []
        assert "waiting" not in kinds(await log(session))
        call = await session.submit("pay", {"cents": 5})
        assert kinds(await log(session, call.id)) == ["accepted", "waiting"]


@requirement("aomi.event.6")
async def test_an_answer_finds_its_question_by_id_and_has_to_fit_its_schema(place: Place) -> None:
    @tool
    async def sign(ctx: Context, tx: str) -> dict[str, Any]:
        """Have a transaction signed."""
        schema = {"type": "object", "properties": {"hash": {"type": "string"}}, "required": ["hash"]}
        answer = await ctx.ask("Please sign", kind="external", schema=schema, data={"tx": tx})
        return {"tx": tx, **answer.value}

    async with place.crib(sign) as crib:
        session = await crib.open(owner="ada")
        one, two = await session.submit("sign", {"tx": "a"}), await session.submit("sign", {"tx": "b"})
        asked = [(await first(session, "waiting", call.id)).fields["question"] for call in (one, two)]
        assert [question["data"] for question in asked] == [{"tx": "a"}, {"tx": "b"}]
        with pytest.raises(Refused, match="does not fit"):
            await session.answer(asked[1]["id"], "accept", {"hash": 7})
        assert len(await session.questions()) == 2
        await session.answer(asked[1]["id"], "accept", {"hash": "0x2"})
        assert (await session.result(two.id)).data == {"tx": "b", "hash": "0x2"}
        assert (await session.status(one.id)).status == "waiting"
        assert [e.id for e in await session.completed("model")] == [two.id]


@requirement("aomi.event.6")
async def test_a_message_that_answers_nothing_is_a_notice_and_goes_no_further(place: Place) -> None:
    @tool(requires_confirmation=True)
    async def pay() -> None:
        """Pay."""

    async with place.crib(pay) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("pay")
        with pytest.raises(Refused) as refused:
            await session.answer("no-such-question", "accept")
        assert refused.value.code == "not_found"
        await session.notice("wallet:tx_complete 0x1", by="client")
        said = (await log(session))[-1]
        assert (said.kind, said.call, said.fields["by"]) == ("notice", None, "client")
        assert (await session.status(call.id)).status == "waiting"
        assert await session.completed("model") == []


@requirement("aomi.user.1")
@pytest.mark.parametrize(
    "given",
    [
        {"address": "0xA", "chainId": 1, "isConnected": True, "ensName": "ada.eth", "theme": "dark"},
        {"address": "0xA", "chain_id": 1, "is_connected": True, "ens_name": "ada.eth", "theme": "dark"},
    ],
)
async def test_a_client_says_who_its_user_is_and_tools_see_it(place: Place, given: dict[str, Any]) -> None:
    @tool(read_only=True)
    async def look(ctx: Context) -> Any:
        """Look."""
        return dict(ctx.user)

    async with place.crib(look) as crib:
        session = await crib.open("s-1", owner="ada")
        assert (await session.call("look")).data == {}
        await session.set_user(given)
        meant = {"address": "0xA", "chainId": 1, "isConnected": True, "ensName": "ada.eth", "theme": "dark"}
        assert (await session.call("look")).data == meant
        assert (await first(session, "user_state")).fields == meant
    async with place.crib(look) as crib:
        assert (await (await crib.open("s-1", owner="ada")).call("look")).data == meant


@requirement("aomi.user.1")
async def test_a_user_is_not_connected_unless_said_and_8_kb_are_the_limit() -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        await session.set_user({"address": "0xA"})
        assert session.user == {"address": "0xA", "isConnected": False}
        with pytest.raises(Refused) as refused:
            await session.set_user({"address": "0xB", "note": "x" * 8200})
        assert refused.value.code == "too_large"
        assert session.user["address"] == "0xA"


@requirement("aomi.user.1")
async def test_a_tool_cannot_change_what_the_client_said() -> None:
    @tool(read_only=True)
    async def forge(ctx: Context) -> None:
        """Try to change it."""
        ctx.user["address"] = "0xEvil"  # type: ignore[index]

    async with Crib([forge]) as crib:
        session = await crib.open(owner="ada")
        await session.set_user({"address": "0xA"})
        await session.call("forge")
        assert session.user["address"] == "0xA"


@requirement("aomi.user.3")
async def test_what_a_client_says_gives_no_rights(place: Place) -> None:
    @tool(namespace="forge", read_only=True)
    async def build() -> None:
        """Build."""

    async with place.crib(build) as crib:
        session = await crib.open("s-1", owner="ada")
        await session.set_user({"owner": "bob", "namespaces": ["forge"], "grants": ["*"], "address": "bob"})
        assert (session.owner, session.namespaces, session.grants) == ("ada", ("default",), ())
        call = await session.submit("forge.build")
        assert (await follow(session, call.id))[-1].fields["failure"]["code"] == "denied"
        with pytest.raises(Refused):
            await crib.open("s-1", owner="bob")

"""Rates: a tool, a session and an owner may be called so often; what is more is told when to come again."""

import asyncio
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import Place, log
from toolcrib import BadTool, Context, Crib, CribLimits, Limits, Result, Tool, tool
from toolcrib import testing as t


@tool(read_only=True, rate="3/min")
async def look() -> str:
    """Look."""
    return "seen"


@tool(read_only=True)
async def free() -> str:
    """Take none."""
    return "free"


def codes(results: list[Result]) -> list[str]:
    return ["ok" if result.failure is None else result.failure.code for result in results]


@requirement("policy.limit.1")
async def test_calls_past_the_rate_of_a_tool_are_rate_limited_and_told_when_to_come_again() -> None:
    async with t.crib(look, free) as crib:
        session = await crib.open(owner="ada")
        results = [await session.call("look") for _ in range(4)]
        assert codes(results) == ["ok"] * 3 + ["rate_limited"]
        assert results[-1].failure is not None
        assert results[-1].failure.retryable
        assert results[-1].failure.message == "Too many calls of look (3/min); try again in 20 s"
        assert results[-1].metadata == {"retry_after_s": 20}
        assert (await session.call("free")).ok
        await crib.clock.advance(19.9)
        assert not (await session.call("look")).ok
        await crib.clock.advance(0.1)
        assert codes([await session.call("look") for _ in range(2)]) == ["ok", "rate_limited"]


async def test_the_rate_of_a_tool_is_that_of_all_sessions_and_owners() -> None:
    async with t.crib(look) as crib:
        sessions = [await crib.open(owner=owner) for owner in ("ada", "bob", "eve", "dan")]
        assert codes([await session.call("look") for session in sessions]) == ["ok"] * 3 + ["rate_limited"]


async def test_a_session_and_an_owner_have_rates_over_all_tools() -> None:
    limits = CribLimits(session_rate="2/s", owner_rate="5/h")
    async with t.crib(free, free.but(name="other"), limits=limits) as crib:
        hers = [await crib.open(owner="ada") for _ in range(3)]
        results = [await session.call(name) for session in hers for name in ("free", "other", "free")]
        assert codes(results) == ["ok", "ok", "rate_limited"] * 2 + ["ok", "rate_limited", "rate_limited"]
        assert [round(result.metadata.get("retry_after_s", 0), 3) for result in results[-2:]] == [720, 720]
        assert "Too many calls of free (session 2/s, owner 5/h); try again in 720 s" in results[-1].text
        assert (await (await crib.open(owner="bob")).call("free")).ok


async def test_what_one_rate_refuses_takes_nothing_from_the_others() -> None:
    async with t.crib(look, free, limits=CribLimits(session_rate="5/day")) as crib:
        session = await crib.open(owner="ada")
        assert codes([await session.call("look") for _ in range(20)]).count("ok") == 3
        assert codes([await session.call("free") for _ in range(3)]) == ["ok", "ok", "rate_limited"]


async def test_what_does_not_pass_the_other_checks_takes_nothing() -> None:
    @tool(read_only=True, rate="1/day")
    async def count(number: int) -> int:
        """Count."""
        return number

    async with t.crib(count) as crib:
        session = await crib.open(owner="ada")
        results = [await session.call("count", {"number": given}) for given in ("x", "y", 1, 2)]
        assert codes(results) == ["invalid_arguments", "invalid_arguments", "ok", "rate_limited"]


async def test_a_call_that_is_asked_about_takes_one_when_it_is_accepted() -> None:
    @tool(destructive=True, rate="1/day")
    async def wipe() -> str:
        """Wipe."""
        return "empty"

    async with t.crib(wipe) as crib:
        session = await crib.open(owner="ada")
        first, second = await session.submit("wipe"), await session.submit("wipe")
        (question,) = await session.questions()
        assert codes([await session.result(second.id)]) == ["rate_limited"]
        await session.answer(question.id, "accept")
        assert (await session.result(first.id)).data == "empty"


async def test_calls_made_by_calls_count_too() -> None:
    @tool(read_only=True)
    async def outer(ctx: Context) -> list[bool]:
        """Call another."""
        return [(await ctx.call("look")).ok for _ in range(4)]

    async with t.crib(look, outer) as crib:
        assert (await (await crib.open(owner="ada")).call("outer")).data == [True, True, True, False]


async def test_a_refused_background_call_is_told_at_once_and_is_in_the_log(place: Place) -> None:
    @tool(background=True, rate="1/day")
    async def export() -> int:
        """Export."""
        return 1

    async with place.crib(export) as crib:
        session = await crib.open(owner="ada")
        assert (await session.call("export")).data["status"] == "queued"
        assert codes([await session.call("export")]) == ["rate_limited"]
        done = [event.fields for event in await log(session) if event.kind == "done" and not event.fields["ok"]]
        assert [data["failure"]["code"] for data in done] == ["rate_limited"]
        assert 86_000 < done[0]["metadata"]["retry_after_s"] <= 86_400


async def test_two_cribs_on_one_store_share_a_rate(place: Place) -> None:
    async with place.crib(look) as crib, place.crib(look) as other:
        sessions = [await (crib, other)[n % 2].open(owner="ada") for n in range(8)]
        results = await asyncio.gather(*(session.call("look") for session in sessions))
        assert sorted(codes(list(results))) == ["ok"] * 3 + ["rate_limited"] * 5


@pytest.mark.parametrize(
    "rate", ["", "30", "30/", "/min", "0/s", "-1/s", "1.5/s", "30/minute", "30 / min", 30, ["1/s"]]
)
def test_what_is_no_rate_is_refused_with_the_name_of_its_field(rate: Any) -> None:
    with pytest.raises(BadTool, match=r"Tool 'look'.*: rate: .* is no rate; write 30/min"):
        tool(rate=rate, name="look")(free.run or print)
    with pytest.raises(ValueError, match=r"^rate: .* is no rate; write 30/min, with one of the units s, min, h, day$"):
        Limits(rate=rate)
    for name in ("session_rate", "owner_rate"):
        with pytest.raises(ValueError, match=rf"^{name}: "):
            CribLimits(**{name: rate})


def test_a_rate_is_a_number_for_a_unit_of_time() -> None:
    from toolcrib.types import pace

    given = {"5/s": (0.2, 5), "30/min": (2.0, 30), "1000/h": (3.6, 1000), "100/day": (864.0, 100)}
    assert {rate: pace(rate) for rate in given} == given


async def test_a_client_may_say_how_often_its_own_tool_is_called() -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada", namespaces=["client"])
        await session.offer([Tool(name="sign", description="Sign.", limits=Limits(rate="1/day"))])
        calls = [await session.submit("sign") for _ in range(2)]
        assert (await session.status(calls[0].id)).status == "waiting"
        assert codes([await session.result(calls[1].id)]) == ["rate_limited"]

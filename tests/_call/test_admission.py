"""One admission for every way in: a new, resumed or edited call, `session.why` and `testing.run` say the same."""

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, Field

from toolcrib import Context, Crib, CribLimits, Refused, ToolFailure, testing, tool
from toolcrib.policy import Policy, UnfitArgument, Verdict
from toolcrib.tool import Tool


def counted(seen: list[str]) -> Any:
    def look(item: str) -> str:
        seen.append(item)
        return item

    return Annotated[str, AfterValidator(look)]


async def test_a_resumed_call_parses_its_arguments_once() -> None:
    seen: list[str] = []
    item_type = counted(seen)

    @tool(effect="once", requires_confirmation=True)
    async def order(item: item_type) -> str:  # type: ignore[valid-type]
        """Order something."""
        return str(item)

    async with testing.crib(order) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("order", {"item": "tea"})
        (question,) = await session.questions()
        seen.clear()
        await session.answer(question.id, "accept")
        assert (await asyncio.wait_for(session.result(call.id), 60)).data == "tea"
        assert seen == ["tea"]


async def test_an_edited_call_is_parsed_and_checked_by_its_tool_once() -> None:
    seen: list[str] = []
    checked: list[str] = []
    item_type = counted(seen)

    def check(item: str) -> None:
        checked.append(item)

    @tool(effect="once", requires_confirmation=True, validate=check)
    async def order(item: item_type) -> str:  # type: ignore[valid-type]
        """Order something."""
        return str(item)

    async with testing.crib(order) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("order", {"item": "tea"})
        (question,) = await session.questions()
        seen.clear()
        checked.clear()
        await session.answer(question.id, "accept", arguments={"item": "coffee"})
        assert (await asyncio.wait_for(session.result(call.id), 60)).data == "coffee"
        assert seen == ["coffee"]
        assert checked == ["coffee"]


async def test_a_call_is_charged_when_it_is_accepted_and_not_again_when_it_goes_on() -> None:
    @tool(effect="once", requires_confirmation=True, rate="1/h")
    async def order(item: str) -> str:
        """Order something."""
        return item

    async with testing.crib(order) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("order", {"item": "tea"})
        (question,) = await session.questions()
        await session.answer(question.id, "accept", arguments={"item": "coffee"})
        assert (await asyncio.wait_for(session.result(call.id), 60)).ok
        second = await session.call("order", {"item": "tea"})
        assert second.failure is not None
        assert second.failure.code == "rate_limited"


class Strict(Policy):
    """A policy that cannot judge some arguments, and breaks over others."""

    def decide(self, session: Any, tool: Tool, arguments: Any) -> Verdict:
        item = arguments()["item"]
        if item == "odd":
            raise UnfitArgument("item is odd")
        if item == "broken":
            raise RuntimeError("no idea")
        return Verdict("allow", "rule")


@tool(read_only=True)
async def look_up(item: str) -> str:
    """Look something up."""
    if item == "missing":
        raise ToolFailure("failed", "it is not there")
    return item


async def test_why_refuses_arguments_that_the_policy_cannot_judge_as_a_call_would() -> None:
    async with testing.crib(look_up, policy=Strict()) as crib:
        session = await crib.open("s", owner="ada")
        result = await session.call("look_up", {"item": "odd"})
        with pytest.raises(Refused, match="item is odd") as refused:
            session.why("look_up", {"item": "odd"})
        assert result.failure is not None
        assert refused.value.code == result.failure.code == "invalid_arguments"


async def test_why_denies_what_a_policy_that_breaks_would_deny() -> None:
    async with testing.crib(look_up, policy=Strict()) as crib:
        session = await crib.open("s", owner="ada")
        result = await session.call("look_up", {"item": "broken"})
        assert result.failure is not None
        assert session.why("look_up", {"item": "broken"}).verdict.message == result.failure.message


async def test_why_tells_of_the_breaker_that_would_end_a_call() -> None:
    async with testing.crib(look_up) as crib:
        session = await crib.open("s", owner="ada")
        result = await session.call("look_up", {"item": "missing"})
        while result.failure is not None and result.failure.code == "failed":
            assert session.why("look_up", {"item": "tea"}).verdict.effect == "allow"
            result = await session.call("look_up", {"item": "missing"})
        assert result.failure is not None
        assert result.failure.code == "unavailable"
        verdict = session.why("look_up", {"item": "missing"}).verdict
        assert (verdict.effect, verdict.by, verdict.message) == ("deny", "limit", result.failure.message)


def shaped() -> Tool:
    """A tool that shapes its arguments before they are checked."""

    @tool(read_only=True)
    async def shout(item: str) -> str:
        """Shout."""
        return item

    def upper(ctx: Any, values: dict[str, Any]) -> dict[str, Any]:
        return {name: str(value).upper() for name, value in values.items()}

    return shout.but(prepare=upper)


def refusing() -> Tool:
    """A tool whose own check fails on purpose."""

    def check(item: str) -> None:
        raise ToolFailure("unavailable", "The shop is closed", retryable=True, metadata={"until": 9})

    @tool(read_only=True, validate=check)
    async def order(item: str) -> str:
        """Order something."""
        return item

    return order


def secret() -> Tool:
    """A tool that tells a secret argument."""

    @tool(read_only=True)
    async def tell(item: Annotated[str, Field(json_schema_extra={"format": "password"})]) -> str:
        """Tell."""
        return f"it is {item}"

    return tell


def oversized() -> Tool:
    """A tool that fails with more in its metadata than JSON can say."""

    @tool(read_only=True)
    async def fail(item: str) -> str:
        """Fail."""
        raise ToolFailure("failed", "no", metadata={"where": {1, 2}.__class__})

    return fail


@pytest.mark.parametrize("make", [shaped, refusing, secret, oversized])
async def test_a_tool_tried_by_itself_gives_the_result_that_a_crib_gives(make: Any) -> None:
    made = make()
    async with testing.crib(made) as crib:
        session = await crib.open("s", owner="ada")
        expected = await session.call(made.id, {"item": "tea"})
    assert await testing.run(made, {"item": "tea"}) == expected


@pytest.mark.parametrize("arguments", ["[1]", "{", '"tea"', "null"])
async def test_what_is_no_object_is_not_shaped_by_its_tool_but_refused(arguments: str) -> None:
    made = list[Any]()

    def shape(ctx: Any, values: dict[str, Any]) -> dict[str, Any]:
        made.append(values)
        return values

    async with testing.crib(shaped().but(prepare=shape)) as crib:
        session = await crib.open("s", owner="ada")
        failure = (await session.call("shout", arguments)).failure
        assert (failure and failure.code, made) == ("invalid_arguments", [])


async def test_arguments_that_their_tool_makes_too_large_are_refused() -> None:
    def grow(ctx: Any, values: dict[str, Any]) -> dict[str, Any]:
        return {"item": values["item"] * 100}

    async with Crib([shaped().but(prepare=grow)], limits=CribLimits(arguments_bytes=500)) as crib:
        session = await crib.open("s", owner="ada")
        assert (await session.call("shout", {"item": "tea"})).data == "tea" * 100
        failure = (await session.call("shout", {"item": "coffee"})).failure
        assert failure is not None
        assert (failure.code, "611 bytes" in failure.message) == ("too_large", True)


@pytest.mark.parametrize("name", ["ask", "step", "call", "wait_cancelled"])
async def test_a_check_can_neither_ask_nor_record_nor_call_nor_wait(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs = list[str]()

    async def check(ctx: Context, item: str) -> None:
        wanted = {"ask": ("Sure?",), "step": ("one", lambda: 1), "call": ("order",), "wait_cancelled": ()}
        await getattr(ctx, name)(*wanted[name])

    @tool(validate=check)
    async def order(item: str) -> str:
        """Order something."""
        runs.append(item)
        return item

    async with testing.crib(order) as crib:
        session = await crib.open("s", owner="ada")
        failure = (await session.call("order", {"item": "tea"})).failure
        assert (failure and failure.code, runs) == ("internal", [])
        assert await session.questions() == []
    assert f"ctx.{name} is not there while arguments are checked" in caplog.text

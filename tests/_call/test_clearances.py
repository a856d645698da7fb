"""What one plain call established holds for the next, until something changes of which it depends."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from toolcrib import Crib, CribLimits, testing, tool
from toolcrib.policy import Policy, Verdict
from toolcrib.session import Session
from toolcrib.tool import Tool


@tool(namespace="shop", read_only=True)
async def look(item: str) -> str:
    """Look something up."""
    return item


@tool(name="look", namespace="shop", read_only=True)
async def look_again(item: str) -> str:
    """Look something up in another way."""
    return item * 2


@tool(namespace="shop", read_only=True)
async def order(count: int) -> int:
    """Order so many."""
    return count


@tool(namespace="shop", rate="2/h", read_only=True)
async def rated(item: str) -> str:
    """Look something up, seldom."""
    return item


async def cleared(crib: Crib, name: str = "shop.look") -> Session:
    """A session in which calls of that name have a clearance."""
    session = await crib.open("s", owner="ada", namespaces=["shop"])
    assert (await session.call(name, {"item": "tea"})).data == "tea"
    assert name in session.clearances
    return session


async def code(session: Session, name: str = "shop.look", args: Any = None) -> str | None:
    result = await session.call(name, {"item": "tea"} if args is None else args)
    return None if result.failure is None else result.failure.code


async def test_calls_that_follow_give_what_the_first_gave() -> None:
    async with testing.crib(look) as crib:
        session = await cleared(crib)
        assert [(await session.call("shop.look", {"item": str(n)})).data for n in range(3)] == ["0", "1", "2"]
        kinds = [event.kind for event in await crib.store.read("s") if event.call is not None]
        assert kinds == ["accepted", "started", "done"] * 4


@pytest.mark.parametrize(
    ("args", "expected"),
    [({"count": "7"}, None), ({"count": "x"}, "invalid_arguments"), (b"null", "invalid_arguments")],
)
async def test_arguments_are_read_as_gently_as_without_one(args: Any, expected: str | None) -> None:
    async with testing.crib(order) as crib:
        session = await crib.open("s", owner="ada", namespaces=["shop"])
        assert await code(session, "shop.order", {"count": 1}) is None
        assert await code(session, "shop.order", args) == expected


async def test_arguments_that_are_too_large_are_refused() -> None:
    async with testing.crib(look, limits=CribLimits(arguments_bytes=100)) as crib:
        assert await code(await cleared(crib), args={"item": "x" * 100}) == "too_large"


async def test_a_type_that_raises_ends_the_call_alone() -> None:
    def checked(item: str) -> str:
        if item == "bad":
            raise SystemExit
        return item

    item_type = Annotated[str, AfterValidator(checked)]

    @tool(namespace="shop", name="look", read_only=True)
    async def typed(item: item_type) -> str:
        """Look something up."""
        return str(item)

    async with testing.crib(typed) as crib:
        session = await cleared(crib)
        assert await code(session, args={"item": "bad"}) == "internal"
        assert await code(session) is None


async def test_a_tool_that_was_removed_or_replaced_is_not_called() -> None:
    async with testing.crib(look) as crib:
        session = await cleared(crib)
        crib.add(look_again, replace=True)
        assert (await session.call("shop.look", {"item": "tea"})).data == "teatea"
        crib.remove("shop.look")
        assert await code(session) == "not_found"


async def test_another_policy_is_asked_again() -> None:
    class No(Policy):
        def decide(self, session: Any, tool: Tool, arguments: Callable[[], Any]) -> Verdict:
            return Verdict("deny", message="no")

    async with testing.crib(look) as crib:
        session = await cleared(crib)
        await crib.take_over(Crib([look], policy=No()))
        assert await code(session) == "denied"


async def test_a_namespace_that_was_taken_away_is_closed() -> None:
    async with testing.crib(look) as crib:
        session = await cleared(crib)
        await session.narrow(namespaces=[])
        assert await code(session) == "denied"


async def test_a_closed_session_takes_no_calls() -> None:
    async with testing.crib(look) as crib:
        session = await cleared(crib)
        await session.close()
        assert await code(session) == "unavailable"


async def test_what_is_asked_of_each_call_leaves_no_clearance() -> None:
    async with testing.crib(rated) as crib:
        session = await crib.open("s", owner="ada", namespaces=["shop"])
        assert [await code(session, "shop.rated") for _ in range(3)] == [None, None, "rate_limited"]
        assert session.clearances == {}


async def test_a_call_with_options_goes_through_all_stages() -> None:
    async with testing.crib(look) as crib:
        session = await cleared(crib)
        keyed = [(await session.call("shop.look", {"item": "tea"}, key="k")).data for _ in range(2)]
        assert keyed == ["tea", "tea"]
        rows = await crib.store.calls("s")
        assert [row.key for row in rows].count("k") == 1

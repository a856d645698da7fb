"""Calls made by calls, where parent and child run on different nodes: as in one process, and nothing waits for ever."""

import asyncio
from typing import Any

import asyncpg
import pytest

from tests.engine.place import SOON_S, Log, cluster, code, family, node, result
from tests.requirements import requirement
from toolcrib import Context, Crib, tool
from toolcrib.types import CribLimits


@pytest.fixture
def urls(postgres_url: str, nats_url: str) -> tuple[str, str]:
    return postgres_url, nats_url


def narrow(log: Log, node: str) -> list[Any]:
    """A tool that calls one with a limit."""

    @tool(namespace="shop", idempotent=True, concurrency=4)
    async def inner(order: str) -> str:
        """Be called."""
        return order

    @tool(namespace="shop", idempotent=True, timeout=60)
    async def outer(ctx: Context, order: str) -> str:
        """Call it."""
        await log.stay()
        found = await ctx.call("shop.inner", {"order": order})
        return str(found.data or found.failure)

    return [inner, outer]


@requirement("engine.5")
async def test_a_child_needs_no_place_beside_that_of_its_parent(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, limits=CribLimits(per_session=2, per_owner=2), kit=narrow) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        calls = [await session.submit("shop.outer", {"order": order}) for order in "AB"]
        await log.until_running(2)  # both places are taken
        log.go.set()
        assert [(await result(session, call.id)).data for call in calls] == ["A", "B"]


@requirement("engine.5")
async def test_a_parent_whose_child_nobody_runs_ends_when_its_time_is_up(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, kit=family, slots=1) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.outer", {"child": "inner"}, timeout_s=0.3)
        assert code(await result(session, call.id)) == "timeout"
        rows = await api.store.calls("s")
        assert [(row.tool, row.state) for row in rows] == [("shop.outer", "done"), ("shop.inner", "done")]
        assert log.ran == [("w1", "outer inner")]


@requirement("engine.2")
async def test_the_timeout_that_a_caller_gives_holds_where_the_call_runs(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, kit=family) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        async with asyncio.timeout(SOON_S):
            outcome = await session.call("shop.keep", {"order": "A"}, timeout_s=0.3)
        assert code(outcome) == "timeout"


def mutual(log: Log, node: str) -> list[Any]:
    """Two serial tools that call each other, so many times."""

    async def other(ctx: Context, name: str, times: int) -> str:
        log.note(node, str(times))
        if times == 0:
            return "bottom"
        found = await ctx.call(f"shop.{name}", {"times": times - 1})
        return str(found.data or found.failure)

    @tool(namespace="shop", idempotent=True, serial=True)
    async def ping(ctx: Context, times: int) -> str:
        """Call the other."""
        return await other(ctx, "pong", times)

    @tool(namespace="shop", idempotent=True, serial=True)
    async def pong(ctx: Context, times: int) -> str:
        """Call the other."""
        return await other(ctx, "ping", times)

    return [ping, pong]


@requirement("engine.2", "contract.ctx.6")
async def test_a_call_made_on_another_node_by_its_own_kind_does_not_wait_for_it(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, kit=mutual, slots=1) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.ping", {"times": 2})
        await log.until_ran(("w1", "2"))
        async with node(urls, log, "w2", kit=mutual, slots=1):
            assert (await result(session, call.id)).data == "bottom"
        assert log.ran == [("w1", "2"), ("w2", "1"), ("w2", "0")]


@requirement("engine.2", "contract.ctx.6")
async def test_calls_nest_no_deeper_over_nodes_than_in_one_process(urls: tuple[str, str]) -> None:
    limits, alone, log = CribLimits(depth=3), Log(), Log()
    async with Crib(mutual(alone, "w1"), limits=limits) as crib:
        session = await crib.open("s", owner="ada", namespaces=["shop"])
        refused = await session.call("shop.ping", {"times": 9})
    async with cluster(urls, log, kit=mutual, limits=limits, slots=1) as (api, _):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.ping", {"times": 9})
        await log.until_ran(("w1", "9"))
        async with node(urls, log, "w2", kit=mutual, limits=limits, slots=1):
            assert (await result(session, call.id)).data == refused.data
        assert [order for _, order in log.ran] == [order for _, order in alone.ran] == ["9", "8", "7", "6"]


async def change(url: str, statement: str, *values: object) -> None:
    """Makes the index say what it would after a crash."""
    connection = await asyncpg.connect(url)
    await connection.execute(statement, *values)
    await connection.close()


@requirement("engine.1")
async def test_a_queued_child_of_a_call_that_has_ended_is_not_begun(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, ()) as (api,):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        parent = await session.submit("shop.pay", {"order": "A"})
        child = await session.submit("shop.pay", {"order": "B"})
        await change(urls[0], "UPDATE calls SET parent = $1 WHERE id = $2", parent.id, child.id)
        assert await session.cancel(parent.id)
        async with node(urls, log, "w1"):
            assert code(await result(session, child.id)) == "cancelled"
        assert log.ran == []


def fewer(log: Log, node: str) -> list[Any]:
    """The tool of the parent, without that of its child."""
    return [one for one in family(log, node) if one.name == "keep"]


@requirement("engine.1")
async def test_the_queued_children_of_a_call_that_nobody_knows_the_end_of_end_with_it(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, (), kit=family) as (api,):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        parent = await session.submit("shop.keep", {"order": "A"})
        child = await session.submit("shop.outer", {"child": "inner"})
        await change(urls[0], "UPDATE calls SET parent = $1 WHERE id = $2", parent.id, child.id)
        died = "UPDATE calls SET state = 'running', attempt = 1, worker = 'dead', queued_at = NULL WHERE id = $1"
        await change(urls[0], died, parent.id)
        async with node(urls, log, "w1", kit=fewer):
            assert code(await result(session, parent.id)) == "unknown"
            assert code(await result(session, child.id)) == "cancelled"
        assert log.ran == []


@requirement("aomi.stop.1", "engine.2")
@pytest.mark.parametrize("place", ["api", "of the parent", "of the child"])
async def test_interrupt_leaves_the_child_of_a_background_call_alone_at_every_node(
    urls: tuple[str, str], place: str
) -> None:
    log = Log()
    async with cluster(urls, log, kit=family, slots=1) as (api, parent):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.outer", {"child": "inner"}, background=True)
        await log.until_ran(("w1", "outer inner"))
        async with node(urls, log, "w2", kit=family, slots=1) as other:
            await log.until_ran(("w2", "inner"))
            crib = {"api": api, "of the parent": parent, "of the child": other}[place]
            await (await crib.open("s", owner="ada")).interrupt()
            log.release()
            assert (await result(session, call.id)).data == "inner on w2 and leaf on w1 of w1"

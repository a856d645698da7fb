"""Nodes of one cluster in one process: each has its own store, connection and name, as on machines of their own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any
from weakref import WeakSet

from tests.engine.report import report
from toolcrib import Context, Crib, Session, tool
from toolcrib.engine.nats import Nats
from toolcrib.events import Event
from toolcrib.types import CribLimits, Result

SOON_S = 60.0
"""What happens at once, however busy the machine is; shorter than whatever mends by itself after a while."""

_nodes: WeakSet[Crib] = WeakSet()


@asynccontextmanager
async def soon() -> AsyncIterator[None]:
    """Bounds a wait for what happens at once; where it does not, the failure tells what all nodes stand at."""
    try:
        async with asyncio.timeout(SOON_S):
            yield
    except TimeoutError as error:
        raise AssertionError(f"not within {SOON_S:g} s:\n{await report(_nodes)}") from error


class Log:
    """What bodies really did, and where."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []
        self.running = 0
        self.most = 0
        self.go = asyncio.Event()
        self._gates: dict[str, asyncio.Event] = {}
        self._moved = asyncio.Event()

    def note(self, node: str, order: str) -> None:
        """A body was here."""
        self.ran.append((node, order))
        self._moved.set()

    async def stay(self) -> None:
        """A body runs until it is told to go on."""
        with self.counted():
            await self.go.wait()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts a body as running for as long as it does."""
        self.running += 1
        self.most = max(self.most, self.running)
        self._moved.set()
        try:
            yield
        finally:
            self.running -= 1
            self._moved.set()

    def gate(self, order: str) -> asyncio.Event:
        """What the body of that order waits for."""
        gate = self._gates.setdefault(order, asyncio.Event())
        if self.go.is_set():
            gate.set()
        return gate

    def release(self) -> None:
        """Nobody waits any more."""
        self.go.set()
        for gate in self._gates.values():
            gate.set()

    async def until_ran(self, *wanted: tuple[str, str]) -> None:
        """Waits until these bodies were begun, each where it says; what happens at once is enough."""
        async with soon():
            while not set(wanted) <= set(self.ran):
                self._moved.clear()
                await self._moved.wait()

    async def until_running(self, number: int) -> None:
        """Waits until so many bodies run."""
        async with soon():
            while self.running != number:
                self._moved.clear()
                await self._moved.wait()


def tools(log: Log, node: str) -> list[Any]:
    """The tools of a node; what they do is written down with its name."""

    @tool(namespace="shop")
    async def pay(order: str) -> str:
        """Pay an order."""
        log.note(node, order)
        return f"paid {order} on {node}"

    @tool(namespace="shop", read_only=True)
    async def look(order: str) -> str:
        """Look at an order."""
        log.note(node, order)
        return f"{order} seen on {node}"

    @tool(namespace="shop", idempotent=True, timeout=60)
    async def hold(order: str) -> str:
        """Run until told to go on."""
        log.note(node, order)
        await log.stay()
        return order

    @tool(namespace="shop", idempotent=True, concurrency=2)
    async def narrow(order: str) -> str:
        """No more than two at once anywhere."""
        await log.stay()
        return order

    @tool(namespace="shop")
    async def ask(ctx: Context, order: str) -> str:
        """Ask before doing."""
        answer = await ctx.ask("Really?", key="really")
        log.note(node, order)
        return f"{answer.value} on {node}"

    @tool(namespace="shop", read_only=True)
    async def count(ctx: Context, upto: int) -> int:
        """Put out some numbers."""
        for number in range(upto):
            ctx.output({"number": number})
            await asyncio.sleep(0)
        return upto

    return [pay, look, hold, narrow, ask, count]


def family(log: Log, node: str) -> list[Any]:
    """Tools that call others. A serial one goes by the engine, so that it may run on another node than its parent."""

    @tool(namespace="shop", timeout=60)
    async def keep(order: str) -> str:
        """Run until its gate is open."""
        log.note(node, order)
        await log.gate(order).wait()
        return f"{order} on {node}"

    @tool(namespace="shop", idempotent=True, timeout=60)
    async def outer(ctx: Context, child: str) -> str:
        """Call another tool, and then one that runs beside it."""
        log.note(node, f"outer {child}")
        first = await ctx.call(f"shop.{child}", {"order": child})
        then = await ctx.call("shop.leaf", {})
        return f"{first.data or first.failure} and {then.data or then.failure} of {node}"

    @tool(namespace="shop", idempotent=True, serial=True, timeout=60)
    async def inner(ctx: Context, order: str) -> str:
        """Tell something, and end, each when its gate is open."""
        log.note(node, order)
        await log.gate(f"{order} tells").wait()
        ctx.output({"told": order})
        await log.gate(order).wait()
        return f"{order} on {node}"

    @tool(namespace="shop", idempotent=True)
    async def asking(ctx: Context, order: str) -> str:
        """Ask a person."""
        log.note(node, order)
        await log.gate(order).wait()
        return str((await ctx.ask("Really?", key="really", expires_s=3600)).value)

    @tool(namespace="shop", read_only=True)
    async def leaf(ctx: Context) -> str:
        """Be called."""
        return f"leaf on {node}"

    return [keep, outer, inner, asking, leaf]


def node(
    urls: tuple[str, str],
    log: Log,
    name: str,
    *,
    kit: Callable[[Log, str], list[Any]] = tools,
    limits: CribLimits | None = None,
    lease: float = 2 * SOON_S,
    **more: Any,
) -> Crib:
    """A node of that name, not started yet; the one called `api` runs nothing."""
    store = f"{urls[0]}{'&' if '?' in urls[0] else '?'}lease={lease}"
    engine = Nats(urls[1], **{"work": name != "api", "label": name, "lease": lease, **more})
    crib = Crib(kit(log, name), store=store, engine=engine, limits=limits)
    _nodes.add(crib)
    return crib


@asynccontextmanager
async def cluster(
    urls: tuple[str, str], log: Log, workers: Iterable[str] = ("w1",), *, limits: CribLimits | None = None, **more: Any
) -> AsyncIterator[list[Crib]]:
    """An API node that runs nothing, and workers; all started. The API node is the first of the list."""
    async with AsyncExitStack() as stack:
        names = ("api", *workers)
        nodes = [await stack.enter_async_context(node(urls, log, name, limits=limits, **more)) for name in names]
        try:
            yield nodes
        finally:
            log.release()


def nats_of(crib: Crib) -> Nats:
    """The engine of a node."""
    assert isinstance(crib.pipeline.engine, Nats)
    return crib.pipeline.engine


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Waits for what nobody tells."""
    async with soon():
        while not await true():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


async def question(session: Session, call: str | None = None) -> str:
    """The id of what is asked first in a session, or by a call, when it is."""
    async with soon():
        async for event in session.events(call=call):
            if event.kind == "waiting":
                return str(event.fields["question"]["id"])
    raise AssertionError("it ended without a question")


async def result(session: Session, call: str) -> Result:
    """How a call ends, within what happens at once."""
    async with soon():
        return await session.result(call)


def code(outcome: Result) -> str | None:
    """Why it failed, if it did."""
    return None if outcome.failure is None else outcome.failure.code


async def events(session: Any, call: str) -> list[Event]:
    """All events of a call, to its end."""
    async with soon():
        return [event async for event in session.events(call=call)]

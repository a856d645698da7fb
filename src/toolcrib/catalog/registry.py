"""What the sources of a crib gave, as its catalog has it: with what the operator declares, and with what changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

from toolcrib.catalog import Catalog
from toolcrib.catalog.fingerprints import Fingerprints, Version
from toolcrib.errors import BadTool, Refused
from toolcrib.schema import nearest
from toolcrib.sources import OK, Fixed, Health, Source, declarations
from toolcrib.store import Store
from toolcrib.tool import Tool

SETTLE_S = 2.0
LATE_S = 10.0
OWN_S = 10.0
HEAD_START_S = 0.1
BETWEEN_STARTS_S = 0.01
"""Sources that nobody waits for start after a moment and one by one: many of them keep no server from answering."""

log = logging.getLogger("toolcrib")


class Arrangement(NamedTuple):
    """What administrators changed about the sources of a crib: those that they added, and names of disabled ones."""

    added: Sequence[Source] = ()
    disabled: frozenset[str] = frozenset()


class SourceRegistry:
    """The sources of a crib. `pins` keeps what tools of strangers looked like, where the policy wants to know."""

    def __init__(
        self, catalog: Catalog, sources: Iterable[Source], declare: Mapping[str, Any], pins: Fingerprints | None
    ) -> None:
        declarations.check(declare)
        self._catalog = catalog
        self.sources = self.configured = list(sources)
        self._arrangement = Arrangement()
        self._arrange: Callable[[], Awaitable[Arrangement]] | None = None
        self.changing = asyncio.Lock()
        self._retired: WeakSet[Source] = WeakSet()
        self._leaving: dict[Source, asyncio.Future[None] | None] = {}
        self._declared = dict(declare)
        self._pins = pins
        self._aside: Callable[[Coroutine[Any, Any, None]], object] | None = None
        self._offered: dict[int, list[Tool]] = {}
        self._shown: dict[int, list[Tool]] = {}
        self._telling: dict[Tool, Source] = {}
        self._late: dict[asyncio.Future[None], Source] = {}
        self._settles_at = 0.0
        self._hurry = asyncio.Event()  # somebody waits for a source
        self._tells: asyncio.TimerHandle | None = None
        for source in self.sources:
            if isinstance(source, Fixed):
                self._register(source, source.tools)

    async def start(
        self, aside: Callable[[Coroutine[Any, Any, None]], object], patience: float = 10.0, *, at_once: bool = False
    ) -> None:
        """Starts all sources; what comes of them later is done `aside`.

        One that takes longer than `patience` keeps nobody waiting: its tools are there when it is ready. With `at_once`
        nobody waits at all for those that are `background`. A source that is `required` is waited for.
        """
        began = asyncio.get_running_loop().time()
        if self._arrange is not None:
            self._arrangement = await self._arrange()
            self._leave_out(self._in_use(self.configured, self._arrangement))
        self._aside = aside
        if self._pins is not None:
            await self._pins.start(self._look_again)
            self._look_again()
        new = [source for source in self.sources if id(source) not in self._offered]
        behind = [source for source in new if at_once and source.background and not source.required]
        beginning = {asyncio.ensure_future(self._begin(source)): source for source in new if source not in behind} | {
            asyncio.ensure_future(self._begin(source, HEAD_START_S + number * BETWEEN_STARTS_S)): source
            for number, source in enumerate(behind)
        }
        required = {task for task, source in beginning.items() if source.required}
        try:
            waited = [task for task, source in beginning.items() if not (at_once and source.background)]
            if waited:
                await asyncio.wait(waited, timeout=patience)
            if at_once:
                await asyncio.sleep(0)  # what may be opened before its tools are there is declared by then
            if required:
                await asyncio.wait(required)
        except BaseException:
            for task in beginning:
                task.cancel()
            raise
        late = {task: source for task, source in beginning.items() if not task.done()}
        self._await_later(late, began)
        self._report({task: source for task, source in beginning.items() if task not in late})

    def _report(self, begun: Mapping[asyncio.Task[None], Source]) -> None:
        """Raises what kept a configured source from starting; one that was added keeps no crib from starting."""
        for task, source in begun.items():
            if source not in self._arrangement.added:
                task.result()
            elif (error := task.exception()) is not None:
                log.warning("%s could not be started: %s", source.name, error)

    def arrange_by(self, arrange: Callable[[], Awaitable[Arrangement]]) -> None:
        """Ask at each start what administrators changed, before any source is started."""
        self._arrange = arrange

    def _in_use(self, configured: Iterable[Source], arrangement: Arrangement) -> list[Source]:
        """Return the sources that are started: what is built in, the configured ones and those that were added."""
        builtin, *others = configured
        return [
            builtin,
            *(source for source in (*others, *arrangement.added) if source.name not in arrangement.disabled),
        ]

    def _leave_out(self, sources: list[Source]) -> None:
        """Begin with these sources; tools of others are not shown."""
        for source in self.sources:
            if source not in sources:
                self._catalog.exchange(self._shown.pop(id(source), ()), ())
                self._offered.pop(id(source), None)
        for source in sources:
            if isinstance(source, Fixed) and id(source) not in self._offered:
                self._register(source, source.tools)
        self.sources = sources

    def _await_later(self, late: Mapping[asyncio.Task[None], Source], began: float) -> None:
        loop = asyncio.get_running_loop()
        self._settles_at = loop.time() + LATE_S
        for task, source in late.items():
            self._late[task] = source
            task.add_done_callback(self._came)
        if late:
            self._tells = loop.call_at(began + LATE_S, self._tell_late)

    def _tell_late(self) -> None:
        for source in self._late.values():
            log.warning("%s has not answered within %g s: its tools are there when it has", source.name, LATE_S)

    def _came(self, task: asyncio.Future[None]) -> None:
        source = self._late.pop(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.warning("%s could not be started: %s", source.name, error)
        else:
            log.info("%s is ready", source.name)

    @property
    def pending(self) -> bool:
        """True if there are sources whose tools are not known yet."""
        return bool(self._late)

    async def prepare(self, owner: str, seconds: float = OWN_S) -> None:
        """Gives sources a moment to list what an owner alone is shown, where that is not known yet."""
        await self._wait([task for source in self.sources if (task := source.prepare(owner)) is not None], seconds)

    async def settle(self, tool: str | None = None, owner: str | None = None) -> None:
        """Gives sources that are still starting a moment, soon after the start: whoever lists tools just then finds
        those that are quick, and a call of a `tool` whose source is about to be there finds it. Sources whose tools
        were listed long ago list them again beside that. What an `owner` alone is shown is waited for too.
        """
        for source in self.sources:
            source.freshen()
        if self._late:
            mine = [] if tool is None else self._late_with(tool)
            left = self._settles_at - asyncio.get_running_loop().time()
            await self._wait(mine or self._late, left if mine else min(left, SETTLE_S))
        if owner is not None:
            await self.prepare(owner)

    async def arrive(self, tool: str, seconds: float) -> None:
        """Waits for the source whose tool that may be, where that is still starting; for all where none says so."""
        self._hurry.set()
        mine = self._late_with(tool)
        if mine or "." not in tool:
            await self._wait(mine or self._late, seconds)

    def _late_with(self, tool: str) -> list[asyncio.Future[None]]:
        return [task for task, source in self._late.items() if tool.startswith(_beginnings(source))]

    async def _wait(self, tasks: Iterable[asyncio.Future[None]], seconds: float) -> None:
        tasks = list(tasks)
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    async def _begin(self, source: Source, after_s: float = 0.0) -> None:
        """Starts one; what it will have some day may be opened from now on."""
        self._catalog.declare(source.namespaces)
        if after_s:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), after_s)
        tools = await source.start(lambda tools: self._register(source, tools))
        self._catalog.declare(source.namespaces)  # of some it is known only now
        self._register(source, tools)

    async def stop(self) -> None:
        """Has all sources let go of what they hold; a crib that is started again starts them again."""
        late = dict(self._late)
        if self._tells is not None:
            self._tells.cancel()
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
            await asyncio.gather(*(source.stop() for source in late.values()), return_exceptions=True)
        for source in self.sources:
            if isinstance(source, Fixed) or self._offered.pop(id(source), None) is not None:
                await source.stop()
        await asyncio.gather(*map(self.stop_source, list(self._leaving)), return_exceptions=True)
        if self._pins is not None:
            await self._pins.stop()

    async def exchange(
        self, sources: Sequence[Source], declare: Mapping[str, Any], patience: float = 10.0
    ) -> list[tuple[Source, list[Tool]]]:
        """Goes on with other configured sources and declarations; return the sources that are left over, with their
        tools.

        Sources that it has already stay as they are. Others are started first, so that no tool is away meanwhile; one
        that cannot be started is logged, and has no tools. One that takes longer than `patience` has its tools when it
        is ready. The caller stops what is left over.

        Raises:
            Refused: `conflict`, two tools have one id; nothing was changed.
        """
        async with self.changing:
            gone = await self._switch(self._in_use(sources, self._arrangement), declare, patience)
            self.configured = list(sources)
            return gone

    async def arrange(self, arrangement: Arrangement, patience: float = 10.0) -> list[tuple[Source, list[Tool]]]:
        """Goes on with other sources that administrators added or disabled, in the same way.

        Raises:
            Refused: `conflict`, two tools have one id; nothing was changed.
        """
        async with self.changing:
            gone = await self._switch(self._in_use(self.configured, arrangement), self._declared, patience)
            self._arrangement = arrangement
            return gone

    async def _switch(
        self, sources: list[Source], declare: Mapping[str, Any], patience: float
    ) -> list[tuple[Source, list[Tool]]]:
        known = {id(source) for source in self.sources}
        new = [source for source in sources if id(source) not in known]
        self._retired -= set(new)
        for source in new:
            self._leaving.pop(source, None)
        offered = {id(source): source.tools for source in new if isinstance(source, Fixed)}
        beginning = [source for source in new if not isinstance(source, Fixed)]
        tasks = {asyncio.ensure_future(self._try_to_begin(source)): source for source in beginning}
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=patience)
        except BaseException:  # whoever wanted it is stopped: what has begun is stopped with all others
            for task in tasks:
                task.cancel()
            self._retire(beginning)
            raise
        offered |= {id(source): task.result() for task, source in tasks.items() if task.done()}
        kept = {id(source) for source in sources} & known
        offered |= {key: self._offered[key] for key in kept & self._offered.keys()}
        same = self._declared == dict(declare)
        before, shown = self._shown, {key: self._shown[key] for key in kept & self._shown.keys() if same}
        declared, self._declared = self._declared, dict(declare)
        try:
            shown |= {key: list(self._as_shown(tools)) for key, tools in offered.items() if key not in shown}
            self._catalog.exchange(_joined(before), _joined(shown))
        except (Refused, BadTool):
            self._declared = declared
            self._retire(beginning)
            await asyncio.gather(*map(self.stop_source, beginning), return_exceptions=True)
            raise
        gone = [(source, before.get(id(source), [])) for source in self.sources if id(source) not in kept]
        self._retire(source for source, _ in gone)
        self.sources, self._offered, self._shown = list(sources), offered, shown
        telling = [source for source in self.sources if not isinstance(source, Fixed)]
        self._telling = {tool: source for source in telling for tool in shown.get(id(source), ())}
        late = {task: source for task, source in tasks.items() if not task.done()}
        self._await_later({asyncio.ensure_future(self._finish(task, one)): one for task, one in late.items()}, patience)
        return gone

    async def stop_source(self, source: Source) -> None:
        """Stop a source that is not in use any more; whoever else stops it waits for the same end."""
        stopping = self._leaving.get(source)
        if stopping is None:
            stopping = self._leaving[source] = asyncio.ensure_future(source.stop())
        try:
            await asyncio.shield(stopping)
        finally:
            if stopping.done():
                self._leaving.pop(source, None)

    def _retire(self, sources: Iterable[Source]) -> None:
        """Takes no more tools of sources that are not in use any more, also where they are still starting."""
        gone = set(sources)
        self._retired |= gone
        self._leaving |= {source: None for source in gone if source not in self._leaving}
        for task, source in list(self._late.items()):
            if source in gone:
                task.cancel()

    async def _finish(self, starting: asyncio.Task[list[Tool]], source: Source) -> None:
        try:
            self._register(source, await starting)
        finally:
            starting.cancel()

    async def _try_to_begin(self, source: Source) -> list[Tool]:
        """Return the tools of a source that is new; none where it cannot be started, which is logged."""
        self._catalog.declare(source.namespaces)
        try:
            return list(await source.start(lambda tools: self._register(source, tools)))
        except Exception as error:  # noqa: BLE001 - whatever one source does, the others are there
            log.warning("%s could not be started: %s", source.name, str(error) or type(error).__name__)
            await asyncio.gather(source.stop(), return_exceptions=True)
            return []

    async def pin_with(self, pins: Fingerprints) -> None:
        """Keeps from now on what tools of strangers look like."""
        self._pins = pins
        if self._aside is not None:
            await pins.start(self._look_again)

    def _as_shown(self, tools: Iterable[Tool]) -> Iterable[Tool]:
        """Return tools as the catalog has them: marked where they changed, with what is declared of them."""
        shown = list(tools)
        if self._pins is not None and self._aside is not None:  # before the start nobody knows what was accepted
            shown = self._pins.marked(shown, self._aside)
        return self._declare(shown) if self._declared else shown

    def tools_of(self, source: Source) -> Sequence[Tool]:
        """The tools of a source as the catalog has them."""
        return self._shown.get(id(source), ())

    @property
    def declared(self) -> Mapping[str, Any]:
        """What the operator says of tools, by id or glob."""
        return self._declared

    def keep_in(self, store: Store) -> None:
        """Names another store for what it keeps, before the start."""
        if self._pins is not None:
            self._pins.store = lambda: store

    @property
    def pinned(self) -> bool:
        """True if it knows of tools of strangers what they looked like."""
        return self._pins is not None

    async def versions(self, tool: Tool) -> list[tuple[Version, dict[str, bytes | None]]]:
        """How a tool of a stranger looked each time that it was seen anew or accepted, with its parts as JSON."""
        pins = self._pins
        if pins is None:
            return []
        texts: dict[str, bytes | None] = {}
        versions = await pins.versions(tool.id, tool.owners)
        for digest in {digest for version in versions for digest in version.parts.values()}:
            texts[digest] = await pins.text(digest)
        return [(one, {name: texts[digest] for name, digest in one.parts.items()}) for one in versions]

    def health(self, tool: Tool) -> Health:
        """How a tool is, by the word of its source."""
        source = self._telling.get(tool)
        return OK if source is None else source.health_of(tool)

    @property
    def telling(self) -> Iterable[Tool]:
        """The tools of sources that know how their tools are; all others are well."""
        return self._telling

    def unwell(self) -> list[tuple[Source, Health]]:
        """The sources that are not well; of such a one there may be no tools at all."""
        reports = [(source, source.health_of(None)) for source in self.sources]
        return [(source, health) for source, health in reports if health.status != "ok"]

    def unused(self) -> list[str]:
        """The patterns of what is declared that fit no tool."""
        return declarations.unused((tool for tools in self._offered.values() for tool in tools), self._declared)

    def idle(self) -> list[tuple[str, str, str]]:
        """The arguments that are declared and that none of the tools has: the pattern, the key and the argument."""
        return list(declarations.idle((tool for tools in self._offered.values() for tool in tools), self._declared))

    def _register(self, source: Source, tools: Iterable[Tool]) -> None:
        """All tools of a source as of now: what is gone goes, what it had is replaced, what is new is added."""
        if source in self._retired:
            return
        offered = list(tools)
        shown = list(self._as_shown(offered))
        before = self._shown.get(id(source), ())
        self._catalog.exchange(before, shown)
        if not isinstance(source, Fixed):  # whose tools are always well
            for tool in before:
                self._telling.pop(tool, None)
            self._telling |= dict.fromkeys(shown, source)
        self._offered[id(source)], self._shown[id(source)] = offered, shown

    def _declare(self, tools: Iterable[Tool]) -> Iterator[Tool]:
        """The tools with what is declared of them; a stranger that it does not fit is not let in."""
        for tool in tools:
            try:
                yield declarations.declare(tool, self._declared)
            except BadTool as error:
                if tool.trusted:
                    raise
                log.warning("it is left out, since what is declared of it does not hold: %s", error)

    def _look_again(self) -> None:
        """Holds what sources gave against what was accepted."""
        for source in self.sources:
            if any(not tool.trusted for tool in self._offered.get(id(source), ())):
                self._register(source, self._offered[id(source)])

    def _acceptable(self) -> dict[str, Tool]:
        """The tools of strangers as they were offered; where owners have different ones, that of nobody's view."""
        shown = self._catalog.view(("*",)).names
        offered = [tool for tools in self._offered.values() for tool in tools if not tool.trusted]
        return {tool.id: tool for tool in offered if tool.owners is None or _shares(tool, shown.get(tool.id))}

    async def accept(self, ids: Iterable[str], actor: str) -> list[Tool]:
        """From now on these tools of strangers are expected to look as they do; without ids all that changed.

        Raises:
            Refused: `not_found`, there is no such tool; `invalid_arguments`, nothing is pinned.
        """
        if self._pins is None:
            raise Refused(
                "invalid_arguments",
                "Nothing is pinned",
                "only tools of MCP servers are, unless the policy says `pin: ask`",
            )
        known = self._acceptable()
        wanted = list(ids) or [tool.id for tools in self._shown.values() for tool in tools if tool.changed]
        for id in wanted:
            if id not in known:
                close = nearest(id, [*known], 1)
                advice = f"did you mean '{close[0]}'?" if close else None
                raise Refused("not_found", f"No such tool of an untrusted source: {id}", advice)
        for id in wanted:
            await self._pins.accept(known[id], actor)
        self._look_again()
        return [known[id] for id in wanted]


def _shares(one: Tool, other: Tool | None) -> bool:
    """Whether a tool is that of some of the owners that another has."""
    return other is not None and bool((one.owners or {""}) & (other.owners or {""}))


def _beginnings(source: Source) -> tuple[str, ...]:
    """What the names of its tools begin with, as they are called by clients and programs."""
    prefix = () if source.prefix is None else (source.prefix,)
    return (*(f"{name}{mark}" for name in source.namespaces for mark in "._"), *prefix)


def _joined(tools: Mapping[int, list[Tool]]) -> list[Tool]:
    return [tool for some in tools.values() for tool in some]

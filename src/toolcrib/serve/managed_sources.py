"""Sources that administrators add, disable and remove while a crib runs.

What they did is a log in the store, so that it holds after a restart and for every process over that store. Each
process follows the log and arranges its own sources by it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import NamedTuple

import msgspec

from toolcrib.catalog.registry import Arrangement
from toolcrib.crib import Crib
from toolcrib.errors import Refused, StoreError, ToolcribError, ToolFailure
from toolcrib.events import Event, EventData, SourceAdded, SourceRemoved, SourceSwitched
from toolcrib.schema import nearest
from toolcrib.serve.source_entry import SourceEntry, SourceRules, source_of
from toolcrib.sources import Source
from toolcrib.store import OWNER, Write, draft
from toolcrib.tool import Tool

LOG = "toolcrib.sources"
"""The session whose log holds them. It belongs to the crib, and no sweep takes it away."""

AGAIN_S = 1.0
TEST_S = 60.0
"""How long a source may take to answer when it is tested."""

log = logging.getLogger("toolcrib.serve")


class AddedSource(NamedTuple):
    """A source that was added: its settings, when and by whom."""

    id: str
    entry: SourceEntry | None
    at: float
    by: str


class SourceTest(NamedTuple):
    """What came of a test: whether the source answered, what is wrong where it did not, and its tools."""

    ok: bool
    problem: str
    tools: list[str]


class ManagedSources:
    """The sources of a crib as its administrators arrange them, within the rules of the server."""

    def __init__(self, crib: Crib, rules: SourceRules | None = None) -> None:
        self._crib = crib
        self.rules = rules or SourceRules()
        self.added: dict[str, AddedSource] = {}
        self.disabled: set[str] = set()
        self.problems: dict[str, str] = {}
        self._made: dict[str, Source] = {}
        self._left_out: dict[str, str] = {}
        self._applying = asyncio.Lock()
        self._seq = 0
        self._loaded = False
        self._following: asyncio.Task[None] | None = None
        crib.registry.arrange_by(self._load)

    # Following the log

    async def start(self) -> None:
        """Arranges the sources of a crib that runs by what the log says, and goes on with what it will say."""
        if not self._loaded:
            await self._read()
            await self._apply()
            self._loaded = True
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Follows the log no more; the sources belong to the crib, which stops them."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])

    async def _load(self) -> Arrangement:
        """What a crib that starts begins with."""
        await self._read()
        self._loaded = True
        arrangement = self._arrangement()
        await self._crib._prepare(arrangement.added)
        return arrangement

    async def _follow(self) -> None:
        store = self._crib.store
        while True:
            try:
                if await store.session(LOG) is None:
                    await store.open(LOG, OWNER, self._now())
                await store.wait(LOG, self._seq)
                if await self._read():
                    await self._apply()
            except (StoreError, Refused) as error:
                log.info("sources are arranged again soon: %s", error)
                await asyncio.sleep(AGAIN_S)

    async def _read(self) -> bool:
        """Takes in what is new in the log; whether there was anything."""
        store = self._crib.store
        row = await store.session(LOG)
        if row is None:
            return False
        if row.owner != OWNER:
            raise StoreError(f"The session '{LOG}' belongs to '{row.owner}', so it can hold no sources: delete it")
        before = self._seq
        while page := await store.read(LOG, self._seq):
            for event in page:
                if event.seq > self._seq:
                    self._seq = event.seq
                    self._take(event)
        return self._seq > before

    def _take(self, event: Event) -> None:
        match event.data:
            case SourceAdded(id=id, name=name, entry=entry, by=by) if name not in self.added:
                self.added[name] = AddedSource(id, _entry(entry), event.at, by)
                self.disabled.discard(name)
            case SourceSwitched(name=name, enabled=True):
                self.disabled.discard(name)
            case SourceSwitched(name=name):
                self.disabled.add(name)
            case SourceRemoved(name=name):
                self.added.pop(name, None)
                self.disabled.discard(name)

    def _arrangement(self) -> Arrangement:
        """The sources that were added and are enabled; one that cannot be made here is told, and has no tools."""
        known, self.problems = self.problems, {}
        made: dict[str, Source] = {}
        configured = {source.name for source in self._crib.registry.configured}
        for name, added in self.added.items():
            try:
                if name in configured:
                    raise Refused("conflict", "There is a configured source of this name, which is used instead")
                if added.entry is None:
                    raise Refused("invalid_arguments", "Another version of the server added it, and this one is older")
                if added.id in self._left_out:
                    raise Refused("conflict", self._left_out[added.id])
                if name not in self.disabled:
                    made[added.id] = self._made.get(added.id) or source_of(added.entry, self.rules)
            except Refused as refused:
                self.problems[name] = refused.message
                if known.get(name) != refused.message:
                    log.warning("the source %s was added and cannot be used here: %s", name, refused)
        self._made = made
        return Arrangement(list(made.values()), frozenset(self.disabled))

    async def _apply(self) -> None:
        """Arranges the sources of the crib; an added one whose tools have ids of others is left out and told."""
        async with self._applying:
            self._left_out.clear()
            running = set(self._made)
            while True:
                arrangement = self._arrangement()
                try:
                    await self._crib._arrange(arrangement)
                    return
                except Refused as refused:
                    new = [id for id in self._made if id not in running]
                    if not new:
                        raise
                    self._left_out[new[-1]] = refused.message

    # What administrators do

    async def add(self, entry: SourceEntry, *, by: str, check: bool = True) -> SourceTest | None:
        """Adds a source; with `check` it is tested first, and nothing is left behind where that fails.

        Raises:
            Refused: `invalid_arguments` or `denied`, it cannot be added; `conflict`, its name or the id of a tool is
                taken; `failed`, it did not pass its test.
        """
        await self._read()
        if entry.name in self.added or entry.name in self._taken_names():
            raise Refused("conflict", f"There is a source '{entry.name}' already", "choose another name, or remove it")
        test = await self._checked(entry) if check else None
        if test is None:
            source_of(entry, self.rules)
        added = SourceAdded(secrets.token_hex(8), entry.name, msgspec.to_builtins(entry), by)
        await self._write(added)
        mine = self.added.get(entry.name)
        if mine is None or mine.id != added.id:
            raise Refused("conflict", f"Somebody else added a source '{entry.name}' just now", "choose another name")
        log.info("%s added the source %s", by, entry.name)
        return test

    async def _checked(self, entry: SourceEntry) -> SourceTest:
        """The test of a source that is to be added.

        Raises:
            Refused: `failed`, it did not answer; `conflict`, an id of its tools is taken.
        """
        test = await self.test(entry)
        if not test.ok:
            hint = "mend its address, command or secrets; nothing was added"
            raise Refused("failed", f"{entry.name} did not pass its test: {test.problem}", hint)
        if taken := [id for id in test.tools if self._crib.catalog.get(id) is not None]:
            raise Refused("conflict", f"There is a tool '{taken[0]}' already", "add the source under another name")
        return test

    async def test(self, entry: SourceEntry) -> SourceTest:
        """Starts a source apart from the crib, and stops it again.

        Raises:
            Refused: `invalid_arguments` or `denied`, there can be no such source.
        """
        source_of(entry, self.rules)
        source = source_of(msgspec.structs.replace(entry, account=False), self.rules)
        try:
            async with asyncio.timeout(TEST_S):
                tools: list[Tool] = list(await source.start(lambda tools: None))
            health = source.health_of(None)
            closed = bool(entry.account) and "HTTP 401" in health.reason  # it waits for who connects an account
            ok = health.status != "unavailable" or closed
            return SourceTest(ok, "" if ok else health.reason, [tool.id for tool in tools])
        except TimeoutError:
            return SourceTest(ok=False, problem=f"it did not answer within {TEST_S:g} s", tools=[])
        except (ToolcribError, ToolFailure) as error:
            return SourceTest(ok=False, problem=str(error), tools=[])
        finally:
            await asyncio.gather(source.stop(), return_exceptions=True)

    async def switch(self, name: str, *, enabled: bool, by: str) -> None:
        """Disables or enables a source, an added or a configured one.

        Raises:
            Refused: `not_found`, there is none; `denied`, it is built in.
        """
        await self._read()
        self.check_name(name)
        if name == self._crib.registry.configured[0].name:
            raise Refused(
                "denied", f"The source '{name}' is built in", "rules of the policy say who may call its tools"
            )
        if (name not in self.disabled) != enabled:
            await self._write(SourceSwitched(name, enabled, by))
            log.info("%s %s the source %s", by, "enabled" if enabled else "disabled", name)

    async def remove(self, name: str, *, by: str) -> None:
        """Removes a source that was added; calls that it works on go on to their end.

        Raises:
            Refused: `not_found`, there is none; `conflict`, it was not added but configured.
        """
        await self._read()
        self.check_name(name)
        if name not in self.added:
            hint = "take it out of crib.yaml or the program, or disable it"
            raise Refused("conflict", f"The source '{name}' is configured and was not added", hint)
        await self._write(SourceRemoved(name, by))
        log.info("%s removed the source %s", by, name)

    def check_name(self, name: str) -> None:
        """Make sure that there is a source of that name.

        Raises:
            Refused: `not_found`.
        """
        known = {*self.added, *(source.name for source in self._crib.registry.configured)}
        if name not in known:
            close = nearest(name, sorted(known), 1)
            hint = f"did you mean '{close[0]}'?" if close else "`toolcrib sources list` shows what there is"
            raise Refused("not_found", f"There is no source '{name}'", hint)

    def _taken_names(self) -> set[str]:
        configured = self._crib.registry.configured
        return {name for source in configured for name in (source.name, *source.namespaces)}

    async def _write(self, data: EventData) -> None:
        store = self._crib.store
        await store.open(LOG, OWNER, self._now())
        await store.commit(Write(LOG, [draft(self._now(), None, data)]))
        await self._read()
        await self._apply()

    def _now(self) -> float:
        return self._crib.pipeline.clock.now()


def _entry(data: object) -> SourceEntry | None:
    """The settings of a source; None where a later version wrote them."""
    try:
        return msgspec.convert(data, SourceEntry)
    except msgspec.ValidationError:
        return None

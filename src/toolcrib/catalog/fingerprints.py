"""What tools of strangers looked like when they were first seen, or accepted since: a log of its own in the store."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from toolcrib.errors import StoreError
from toolcrib.events import ToolPinned
from toolcrib.store import OWNER, Store, Write, draft
from toolcrib.tool import Tool, canonical

LOG = "toolcrib.pins"
"""The session whose log holds them. It belongs to the crib, and no sweep takes it away."""

AGAIN_S = 1.0

MOST_VERSIONS = 50
"""How many versions of a tool are kept; a server that changes a tool each time that it is asked fills no store."""

log = logging.getLogger("toolcrib")

Key = tuple[str, str | None]
"""A tool, and to whom its server listed it where each owner has a list of their own."""


class Fingerprints:
    """The parts of each tool as accepted. A tool that differs is marked with what `changed`, until it is accepted.

    A tool of owners is held against what each of them was shown first. How it looks may be accepted for all.
    """

    def __init__(self, store: Callable[[], Store], now: Callable[[], float]) -> None:
        self.store = store
        self._now = now
        self._accepted: dict[Key, dict[str, str]] = {}
        self._sighted: dict[Key, dict[str, str]] = {}
        self._written: dict[Key, set[str]] = {}
        self._agreed: set[tuple[str, str]] = set()
        self._seq = 0
        self._following: asyncio.Task[None] | None = None

    async def start(self, changed: Callable[[], None]) -> None:
        """Reads what was accepted; `changed` is called whenever somebody, here or elsewhere, accepts more."""
        await self._open()
        await self._read()
        self._following = asyncio.get_running_loop().create_task(self._follow(changed))

    async def stop(self) -> None:
        """Stops listening."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])

    async def _open(self) -> None:
        row, _ = await self.store().open(LOG, OWNER, self._now())
        if row.owner != OWNER:
            raise StoreError(f"The session '{LOG}' belongs to '{row.owner}', so nothing can be pinned: delete it")

    async def _follow(self, changed: Callable[[], None]) -> None:
        while True:
            try:
                await self.store().wait(LOG, self._seq)
                if await self._read():
                    changed()
            except StoreError as error:
                log.info("pins are read again soon: %s", error)
                await asyncio.sleep(AGAIN_S)

    async def _read(self) -> bool:
        """Takes in what is new; whether something else is expected of a tool than before."""
        others = False
        while page := await self.store().read(LOG, self._seq):
            for event in page:
                self._seq = event.seq
                pinned = event.data
                if isinstance(pinned, ToolPinned):
                    others = self._take(pinned) or others
        return others

    def _take(self, pinned: ToolPinned) -> bool:
        key, mark = (pinned.tool, pinned.owner), _mark(pinned.parts)
        self._written.setdefault(key, set()).add(mark)
        if not pinned.by and key in self._accepted:
            return False
        other = pinned.parts != self._expected(key)
        self._accepted[key] = pinned.parts
        if pinned.by:
            self._agreed.add((pinned.tool, mark))
        return other

    def _expected(self, key: Key) -> dict[str, str] | None:
        return self._accepted.get(key) or self._sighted.get(key)

    def marked(self, tools: Iterable[Tool], aside: Callable[[Coroutine[Any, Any, None]], object]) -> list[Tool]:
        """The same tools, those of strangers with what changed; who comes for the first time is taken as it is."""
        compared = []
        for tool in tools:
            if tool.trusted:
                compared.append(tool)
                continue
            looks = parts(tool)
            if tool.owners is None:
                compared.append(_as_changed(tool, self._changed(tool, looks, None, aside)))
                continue
            alike: dict[tuple[str, ...], set[str]] = {}
            for owner in sorted(tool.owners):
                alike.setdefault(self._changed(tool, looks, owner or None, aside), set()).add(owner)
            for changed, owners in alike.items():
                of_them = tool if owners == tool.owners else replace(tool, owners=frozenset(owners))
                compared.append(_as_changed(of_them, changed))
        return compared

    def _changed(
        self,
        tool: Tool,
        looks: dict[str, str],
        owner: str | None,
        aside: Callable[[Coroutine[Any, Any, None]], object],
    ) -> tuple[str, ...]:
        """The parts of a tool that are others than those which are expected of it."""
        key, mark = (tool.id, owner), _mark(looks)
        expected = self._expected(key)
        if expected is None:
            self._sighted[key] = expected = looks
        written = self._written.setdefault(key, set())
        if mark not in written and len(written) < MOST_VERSIONS:
            written.add(mark)
            aside(self._sight(tool, owner))
        if owner is not None and (tool.id, mark) in self._agreed:
            return ()
        changed = tuple(name for name in looks if looks[name] != expected.get(name))
        if changed and not tool.changed:
            log.warning("%s changed its %s since it was accepted", tool.id, " and its ".join(changed))
        return changed

    async def _sight(self, tool: Tool, owner: str | None = None) -> None:
        try:
            await self._write(tool, None, owner)
        except StoreError as error:
            log.warning("%s is not pinned beyond this process: %s", tool.id, error)

    async def versions(self, tool: str, owners: Iterable[str] | None = None) -> list[Version]:
        """How a tool, or that of some owners, looked each time that it was seen anew or accepted, the first first."""
        listed_for = {None, *(owners or ())}
        versions, seq = list[Version](), 0
        while page := await self.store().read(LOG, seq):
            for event in page:
                seq, pinned = event.seq, event.data
                if isinstance(pinned, ToolPinned) and pinned.tool == tool and pinned.owner in listed_for:
                    again = bool(versions) and versions[-1].parts == pinned.parts and not pinned.by
                    if not again:  # another process saw it too
                        versions.append(Version(event.at, pinned.by, pinned.parts))
        return versions

    async def text(self, digest: str) -> bytes | None:
        """A part as it was, as JSON; None where nobody kept it."""
        return await self.store().kept(LOG, _kept(digest))

    async def accept(self, tool: Tool, by: str) -> None:
        """From now on the tool is expected to look as it does."""
        await self._write(tool, by)
        await self._read()

    async def _write(self, tool: Tool, by: str | None, owner: str | None = None) -> None:
        texts = _texts(tool)
        pinned = ToolPinned(tool.id, {name: _digest(text) for name, text in texts.items()}, by or None, owner)
        keeps = tuple((_kept(_digest(text)), text) for text in texts.values())
        await self.store().commit(Write(LOG, [draft(self._now(), None, pinned)], keeps=keeps))


class Version(NamedTuple):
    """How a tool looked since some time: a digest of each part, and who accepted it, if anybody did."""

    at: float
    by: str | None
    parts: Mapping[str, str]


def _as_changed(tool: Tool, changed: tuple[str, ...]) -> Tool:
    return replace(tool, changed=changed) if changed != tool.changed else tool


def parts(tool: Tool) -> dict[str, str]:
    """A digest of each part that a stranger may change under a name that was accepted."""
    return {name: _digest(text) for name, text in _texts(tool).items()}


def _texts(tool: Tool) -> dict[str, bytes]:
    looks = {
        "description": [tool.title, tool.description],
        "schema": [tool.input_schema, tool.output_schema],
        "annotations": None if tool.annotations is None else asdict(tool.annotations),
    }
    return {name: canonical(part) for name, part in looks.items()}


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _mark(parts: Mapping[str, str]) -> str:
    return " ".join(parts[name] for name in sorted(parts))


def _kept(digest: str) -> str:
    return f"part:{digest}"

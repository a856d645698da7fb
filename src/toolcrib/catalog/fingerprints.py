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


class Fingerprints:
    """The parts of each tool as accepted. A tool that differs is marked with what `changed`, until it is accepted."""

    def __init__(self, store: Callable[[], Store], now: Callable[[], float]) -> None:
        self.store = store
        self._now = now
        self._accepted: dict[str, dict[str, str]] = {}
        self._sighted: dict[str, dict[str, str]] = {}
        self._written: dict[str, set[str]] = {}
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
                    self._written.setdefault(pinned.tool, set()).add(_mark(pinned.parts))
                if isinstance(pinned, ToolPinned) and (pinned.by or pinned.tool not in self._accepted):
                    others = others or pinned.parts != self._expected(pinned.tool)
                    self._accepted[pinned.tool] = pinned.parts
        return others

    def _expected(self, tool: str) -> dict[str, str] | None:
        return self._accepted.get(tool) or self._sighted.get(tool)

    def marked(self, tools: Iterable[Tool], aside: Callable[[Coroutine[Any, Any, None]], object]) -> list[Tool]:
        """The same tools, those of strangers with what changed; who comes for the first time is taken as it is."""
        compared = []
        for tool in tools:
            if tool.trusted:
                compared.append(tool)
                continue
            looks = parts(tool)
            pinned = self._expected(tool.id)
            if pinned is None:
                self._sighted[tool.id] = pinned = looks
            written = self._written.setdefault(tool.id, set())
            if _mark(looks) not in written and len(written) < MOST_VERSIONS:
                written.add(_mark(looks))
                aside(self._sight(tool))
            changed = tuple(name for name in looks if looks[name] != pinned.get(name))
            if changed and not tool.changed:
                log.warning("%s changed its %s since it was accepted", tool.id, " and its ".join(changed))
            compared.append(replace(tool, changed=changed) if changed != tool.changed else tool)
        return compared

    async def _sight(self, tool: Tool) -> None:
        try:
            await self._write(tool, None)
        except StoreError as error:
            log.warning("%s is not pinned beyond this process: %s", tool.id, error)

    async def versions(self, tool: str) -> list[Version]:
        """How a tool looked each time that it was seen anew or accepted, the first first."""
        versions, seq = list[Version](), 0
        while page := await self.store().read(LOG, seq):
            for event in page:
                seq, pinned = event.seq, event.data
                if isinstance(pinned, ToolPinned) and pinned.tool == tool:
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

    async def _write(self, tool: Tool, by: str | None) -> None:
        texts = _texts(tool)
        pinned = ToolPinned(tool.id, {name: _digest(text) for name, text in texts.items()}, by or None)
        keeps = tuple((_kept(_digest(text)), text) for text in texts.values())
        await self.store().commit(Write(LOG, [draft(self._now(), None, pinned)], keeps=keeps))


class Version(NamedTuple):
    """How a tool looked since some time: a digest of each part, and who accepted it, if anybody did."""

    at: float
    by: str | None
    parts: Mapping[str, str]


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

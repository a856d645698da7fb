"""How tools of definition files are used, from the logs of a crib; names and numbers alone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from toolcrib.cli.definitions.selection import DefinitionSelection, crib_of
from toolcrib.cli.terminal import Terminal

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.definitions.definition import ToolDefinition
    from toolcrib.definitions.registry import Registry
    from toolcrib.definitions.source import FileSource
    from toolcrib.definitions.usage import ToolUsage

PAGE = 500


async def usage(wanted: DefinitionSelection) -> ToolUsage:
    """Return the usage of the last month from the logs; empty where there is no store yet."""
    from toolcrib.cli.store_choice import missing, opened
    from toolcrib.definitions.usage import KEPT_S, ToolUsage

    collected = ToolUsage(time.time() - KEPT_S)
    crib = crib_of(wanted)
    if missing(crib.store) is not None:
        return collected
    async with opened(crib.store):
        async for session in _sessions(crib, collected.since):
            after = 0
            while events := await crib.store.read(session, after, limit=PAGE):
                for event in events:
                    collected.take(session, event)
                after = events[-1].seq
    return collected


async def _sessions(crib: Crib, since: float) -> AsyncIterator[str]:
    """Those that were used since."""
    last = None
    while page := await crib.sessions(limit=PAGE, before=last):
        for row in page:
            if row.updated_at >= since:
                yield row.id
        last = page[-1]
        if last.updated_at < since:
            return


def stats(source: FileSource, definition: ToolDefinition, numbers: dict[str, Any]) -> dict[str, Any]:
    """The numbers of one file: those of each command that was called, and how often the file was read."""
    space = f"{definition.id.lower()}."
    uses = None if definition.path is None else source.library.uses().get(definition.path)
    return {
        "commands": {tool.removeprefix(space): counts for tool, counts in numbers.items() if tool.startswith(space)},
        "loads": 0 if uses is None else uses.loads,
        "cache_hits": 0 if uses is None else uses.hits,
    }


def advised(usage: ToolUsage, registry: Registry | None) -> list[dict[str, str]]:
    """Return changes to the registry that a person may want."""
    from toolcrib.definitions.usage import advice

    return [] if registry is None else [one._asdict() for one in advice(usage, registry)]


def show(terminal: Terminal, tools: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """The numbers of tools for people."""
    rows = [(tool, *_cells(counts)) for tool, counts in tools]
    terminal.text("")
    if rows:
        terminal.table(("Used", "Calls", "Failures", "Rejected by", "Median", "p95", "Tokens", "Sessions"), rows)
    else:
        terminal.say("No tool was called in the last 30 days.")


def _cells(data: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(data["calls"]),
        _counted(data["failures"]),
        _counted(data["rejections"]),
        _ms(data["median_ms"]),
        _ms(data["p95_ms"]),
        f"{data['tokens_in']} in, {data['tokens_out']} out",
        str(data["sessions"]),
    )


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} ms"

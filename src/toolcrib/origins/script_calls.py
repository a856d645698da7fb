"""The calls of a script: what their results went into, by the text of the script."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from toolcrib.origins.index import OriginIndex, Sighting
from toolcrib.origins.script_flow import ANY, UNKNOWN, CallFlow, flows


class EndedCall(NamedTuple):
    """A call of the script that ended, and whether no stranger writes into its result."""

    id: str
    tool: str
    trusted: bool


@dataclass(slots=True)
class ScriptCalls:
    """A script that runs: its text, None where nobody kept it, and its calls that ended."""

    code: str | None
    calls: list[EndedCall] = field(default_factory=list)

    def index_for(self, index: OriginIndex, tool: str) -> OriginIndex:
        """Return an index as it is for a call of a tool that the script makes."""
        known = None if self.code is None else flows(self.code)
        names = () if known is None else tuple(known)
        into = [UNKNOWN] if known is None else [flow for name, flow in known.items() if _means(name, tool)]
        reached: list[CallFlow] = into or [UNKNOWN]
        decided = self._seen(frozenset().union(*(flow.decided_by for flow in reached)), names)
        return index.in_script(
            lambda argument: self._seen(frozenset().union(*(flow.into(argument) for flow in reached)), names),
            tuple(one for one in decided if not one.trusted),
        )

    def _seen(self, sources: Collection[str], names: Collection[str]) -> list[Sighting]:
        """Return the results that some names stand for, those of strangers first; a tool without a name is in all."""
        ended = [
            call
            for call in self.calls
            if ANY in sources
            or any(_means(name, call.tool) for name in sources)
            or (sources and not any(_means(name, call.tool) for name in names))
        ]
        return [
            Sighting("field" if call.trusted else "prose", call.id, call.tool, trusted=call.trusted, made=True)
            for call in sorted(ended, key=lambda one: one.trusted)
        ]


def _means(name: str, tool: str) -> bool:
    """Return True if a function of the script may be the one of a tool."""
    return name.rstrip("_").endswith(re.sub(r"\W", "_", tool.rpartition(".")[2]).rstrip("_"))

"""Findings of a server: those of its crib, and the keys and settings that open namespaces which no tool has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from toolcrib.findings import Finding, in_order
from toolcrib.policy import globs
from toolcrib.review import review
from toolcrib.schema import nearest

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.serve.api.app import Api


async def review_server(api: Api) -> list[Finding]:
    """Return all findings of a server: errors first, then by file and line."""
    findings = [*await review(api.crib), *_keys(api), *served(api.crib, api.sessions.namespaces or ())]
    return in_order(findings)


def _keys(api: Api) -> Iterator[Finding]:
    now = api.crib.pipeline.clock.now()
    for key in () if api.keys is None else api.keys.keys:
        if key.holds(now):
            for name, close in unknown_namespaces(api.crib, key.namespaces or ()):
                message = f"key {key.id} of {key.owner} opens '{name}', a namespace that no tool has"
                yield Finding("NO_NAMESPACE", "warning", message, "keys", nearest=close)


def served(crib: Crib, namespaces: Iterable[str]) -> Iterator[Finding]:
    """Yield each of the served namespaces that no tool has."""
    for name, close in unknown_namespaces(crib, namespaces):
        origin = crib.origin
        message = f"serve.namespaces: no tool has the namespace '{name}'"
        line = origin.line_at(("serve", "namespaces"))
        yield Finding("NO_NAMESPACE", "warning", message, "config", origin.file, line, close)


def unknown_namespaces(crib: Crib, names: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each name or glob that fits no namespace, with the nearest that there is."""
    known = crib.catalog.namespaces()
    for name in names:
        wanted = name.strip().lower()
        if not any(map(globs.text(crib.catalog.aliases.get(wanted, wanted)), known)):
            close = nearest(wanted, [*known, *crib.catalog.aliases], 1)
            yield name, close[0] if close else None

"""What `argument from origin` and `when: {session: ...}` say of a call, by the index of its session's origins.

A person who calls a tool gives every value themselves. For an agent whose origins nobody has worked out, every value
counts as untrusted and the session as one that has read everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.origins.index import OriginIndex, Sighting

ORIGINS = ("user", "instructions", "trusted", "field", "record", "prose", "agent", "nowhere", "untrusted")
EXPOSURES = ("private", "untrusted", "exposed")

_OF_PEOPLE = frozenset({"user", "trusted"})
_UNKNOWN = frozenset({"prose", "nowhere", "untrusted"})


def came_from(origin: str, values: Iterable[Any], index: OriginIndex | None, by_agent: bool, every: bool) -> bool:
    """Return True if a value comes from an origin, or where it is to hold for `every` value, if all do."""
    found = [origin in _origins(value, index, by_agent, every) for value in values]
    return bool(found) and (all(found) if every else any(found))


def exposures(index: OriginIndex | None, by_agent: bool) -> tuple[str, ...]:
    """Return what a session has read: private data, the words of strangers, or both."""
    if index is None:
        return EXPOSURES if by_agent else ()
    read = (index.read_private, index.read_untrusted)
    return tuple(name for name, holds in zip(EXPOSURES, (*read, all(read)), strict=True) if holds)


def _origins(value: Any, index: OriginIndex | None, by_agent: bool, narrowly: bool) -> Iterable[str]:
    if index is None:
        return _OF_PEOPLE if not by_agent else () if narrowly else _UNKNOWN
    seen = index.sightings(value)
    found: set[str] = {one.kind for one in seen if one.kind in ("user", "instructions", "field")} | {seen[0].kind}
    found |= {"record"} if any(one.kind == "field" and one.named for one in seen) else set()
    return found | {"trusted" if any(map(_trusted, seen)) else "untrusted"}


def _trusted(seen: Sighting) -> bool:
    if seen.kind == "field":
        return seen.led and (seen.named or seen.trusted)
    return seen.kind in ("user", "instructions")

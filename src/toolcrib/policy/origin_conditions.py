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
_DECIDED = frozenset({"prose", "untrusted"})


def came_from(
    origin: str, argument: str | None, values: Iterable[Any], index: OriginIndex | None, by_agent: bool, every: bool
) -> bool:
    """Return True if a value of an argument comes from an origin, or where it is to hold for `every` one, if all do."""
    matches = [
        origin in (_of_caller(by_agent, every) if index is None else _origins(value, argument, index, every))
        for value in values
    ]
    return bool(matches) and (all(matches) if every else any(matches))


def exposures(index: OriginIndex | None, by_agent: bool) -> tuple[str, ...]:
    """Return what a session has read: private data, the words of strangers, or both."""
    if index is None:
        return EXPOSURES if by_agent else ()
    read = (index.read_private, index.read_untrusted)
    return tuple(name for name, holds in zip(EXPOSURES, (*read, all(read)), strict=True) if holds)


def _of_caller(by_agent: bool, narrowly: bool) -> Iterable[str]:
    return _OF_PEOPLE if not by_agent else () if narrowly else _UNKNOWN


def _origins(value: Any, argument: str | None, index: OriginIndex, narrowly: bool) -> Iterable[str]:
    """Return all origins of a value; where strangers decided about the call, nothing of it is trusted."""
    if index.branches and narrowly:
        return _DECIDED
    seen = index.sightings(value, argument)
    origins: set[str] = {one.kind for one in seen if one.kind in ("user", "instructions", "field")} | {seen[0].kind}
    origins |= {"record"} if any(one.kind == "field" and one.named for one in seen) else set()
    if seen[0].made:
        origins |= {"nowhere", *(one.kind for one in seen)}
    origins |= {"trusted" if any(map(_trusted, seen)) else "untrusted"}
    return origins | _DECIDED if index.branches else origins


def _trusted(seen: Sighting) -> bool:
    if seen.kind == "field":
        return seen.led and (seen.named or seen.trusted)
    return seen.kind in ("user", "instructions")

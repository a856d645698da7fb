"""Which tools an agent sees at once, and which it has to search for: an optional file beside the tools.

It is an aid and no more: without it, or with one that cannot be read, everything works, and one warning says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from toolcrib.definitions.definition import NOTHING
from toolcrib.definitions.filters import tokens
from toolcrib.types import Example
from toolcrib.yaml import FILES, decoded, parse, thaw

MOST_EXAMPLES = 3
MOST_EXAMPLE_TOKENS = 200
OVERRIDES = "tool-overrides.yaml"


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """The entry of a tool in a registry; `fields` holds every key as written."""

    name: str
    tier: float | None = None
    defer: bool = False
    essential: bool = False
    token_cost: float | None = None
    category: str = ""
    keywords: tuple[str, ...] = ()
    filter: Mapping[str, Any] | None = None
    examples: tuple[Example, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class Profile:
    """The tools that an agent needs, by how soon it needs them."""

    always_loaded: tuple[str, ...] = ()
    frequently_used: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a tool is used often or seldom enough to say so."""

    promote_uses: float = 10
    promote_sessions: float = 5
    demote_uses: float = 1
    demote_sessions: float = 5


@dataclass(frozen=True, slots=True)
class Registry:
    """All entries by name, also of tools that nobody knows. `warning` says what could not be read."""

    tools: Mapping[str, RegistryEntry] = field(default_factory=lambda: NOTHING)
    profiles: Mapping[str, Profile] = field(default_factory=lambda: NOTHING)
    task_bindings: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    thresholds: Thresholds = Thresholds()
    warning: str | None = None

    def entry(self, tool: str) -> RegistryEntry | None:
        """What it says of a tool: by the id of a command, of its file, or by the name alone."""
        namespace, _, name = tool.rpartition(".")
        key = next((known for known in (tool, namespace, name) if known in self.tools), None)
        if key is None:  # the namespace of a file is its id in lower case
            key = next((known for known in self.tools if known.lower() == (namespace or tool).lower()), None)
        return None if key is None else self.tools[key]

    def always(self, agent: str | None = None) -> frozenset[str]:
        """The names of the tools that need no search: for everybody, and for that agent."""
        profile = self.profiles.get(agent or "", Profile())
        named = {*profile.always_loaded, *profile.frequently_used}
        some = (entry for entry in self.tools.values() if entry.name in named or entry.tier == 1 or entry.essential)
        joined = {entry.name for entry in some if entry.tier in (1, 2) or entry.essential}
        return frozenset(joined.union(profile.always_loaded))


def load(path: Path | None, overrides: Path | None = None, examples: Path | None = None) -> Registry:
    """The registry of a file, with a pack's overrides and a file of examples where there are some."""
    troubles: list[str] = []
    return _read([_document(file, troubles) for file in (path, overrides, examples)], troubles)


def read(document: Any, overrides: Any = None, examples: Any = None) -> Registry:
    """The registry that a document holds. What a pack says of a name replaces what the document says of it."""
    return _read([document, overrides, examples], [])


def input_examples(value: Any) -> tuple[Example, ...]:
    """At most three inputs of `{description, input}` entries, none of them long; the others are left out."""
    listed = value if isinstance(value, list | tuple) else ()
    entries = (one for one in listed if isinstance(one, Mapping) and isinstance(one.get("input"), Mapping))
    made = (Example(thaw(one["input"]), _text(one.get("description"))) for one in entries)
    short = (one for one in made if tokens([one.title, one.arguments]) <= MOST_EXAMPLE_TOKENS)
    return tuple(islice(short, MOST_EXAMPLES))


# How it is read


def _read(documents: Sequence[Any], troubles: list[str]) -> Registry:
    document, overrides, examples = documents
    over = _mapping(_mapping(overrides, "the overrides", troubles).get("overrides"), "overrides", troubles)
    base = _mapping(document, "the registry", troubles)
    shown = _mapping(_mapping(examples, "the examples", troubles).get("tools"), "tools of the examples", troubles)

    def merged(block: str) -> dict[str, Any]:
        return {**_mapping(base.get(block), block, troubles), **_mapping(over.get(block), block, troubles)}

    tools = {
        name: _entry(name, entry, shown.get(name)) for name, entry in _mappings(merged("tools"), "tools", troubles)
    }
    profiles = {name: _profile(profile) for name, profile in _mappings(merged("profiles"), "profiles", troubles)}
    limits = _thresholds(merged("analytics").get("thresholds"))
    return Registry(tools, profiles, merged("task_bindings"), limits, _warning(troubles))


def _document(path: Path | None, troubles: list[str]) -> Any:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            parsed = parse(decoded(file.read(FILES.bytes + 1))[0])
    except OSError as error:
        troubles.append(f"{path} cannot be read: {error.strerror}")
        return None
    except UnicodeDecodeError:
        troubles.append(f"{path} is no text")
        return None
    if parsed.problems:
        troubles.append(f"{path}:{parsed.problems[0].line}: {parsed.problems[0].message}")
        return None
    return parsed.value


def _warning(troubles: list[str]) -> str | None:
    if not troubles:
        return None
    more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
    return f"{troubles[0]}{more}; tools work without it"


def _mapping(value: Any, what: str, troubles: list[str]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if value is not None:
        troubles.append(f"{what} is no mapping")
    return NOTHING


def _mappings(block: Mapping[str, Any], what: str, troubles: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of a block; a name without a value is an empty entry."""
    for name, entry in block.items():
        if entry is None or isinstance(entry, Mapping):
            yield name, entry or NOTHING
        else:
            troubles.append(f"{what}.{name} is no mapping")


def _entry(name: str, data: Mapping[str, Any], shown: Any) -> RegistryEntry:
    filter = data.get("filter")
    examples = input_examples(data.get("input_examples"))
    return RegistryEntry(
        name=name,
        tier=_tier(data.get("tier")),
        defer=data.get("defer") is True,
        essential=data.get("essential") is True,
        token_cost=_number(data.get("tokenCost")),
        category=_text(data.get("category")),
        keywords=_names(data.get("keywords")),
        filter=filter if isinstance(filter, Mapping) else None,
        examples=examples or input_examples(shown.get("examples") if isinstance(shown, Mapping) else None),
        fields=data,
    )


def _profile(data: Mapping[str, Any]) -> Profile:
    return Profile(*(_names(data.get(key)) for key in ("always_loaded", "frequently_used", "deferred")))


def _thresholds(value: Any) -> Thresholds:
    """Read the thresholds for advice; an invalid number counts as missing."""
    usual = Thresholds()
    settings = value if isinstance(value, Mapping) else NOTHING
    promote, demote = (
        block if isinstance(block := settings.get(name), Mapping) else NOTHING for name in ("promote", "demote")
    )
    return Thresholds(
        _number(promote.get("minUsesPerSession")) or usual.promote_uses,
        _number(promote.get("minSessions")) or usual.promote_sessions,
        _number(demote.get("maxUsesPerNSessions")) or usual.demote_uses,
        _number(demote.get("sessionWindow")) or usual.demote_sessions,
    )


def _tier(value: Any) -> float | None:
    return int(value) if isinstance(value, str) and value in ("1", "2", "3") else _number(value)


def _number(value: Any) -> float | None:
    """A number above zero."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _names(value: Any) -> tuple[str, ...]:
    listed: Iterable[Any] = value if isinstance(value, list | tuple) else ()
    return tuple(one for one in listed if isinstance(one, str))

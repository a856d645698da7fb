"""Finding a tool by what one wants to do: words are compared by their stems, and rare ones count more."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.registry import RegistryEntry
from toolcrib.schema.names import WORD_BORDER

LIMIT = 5

_ID, _NAME, _COMMANDS, _KEYWORDS, _CATEGORY, _DESCRIPTION = 6.0, 5.0, 4.0, 4.0, 3.0, 2.0
_BEGINNING = 0.25  # what a word counts that another only begins with, as `doc` and `document`
_SHORTEST = 3
_QUERY_WORDS = 50
_COMMON = (
    "a an and any are as at be by can do does for from get has have how i in into is it its me my of on or our so "
    "that the their them then there this to up us use using want we what when where which with you your"
)
_STOP = frozenset(_COMMON.split())
_ENDINGS = re.compile(r"(?<=\w{3})(?:ings?|ed|e?s|e|ly)$")


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """A searchable tool, as a file, a registry or a catalog describes it."""

    id: str
    name: str = ""
    commands: tuple[str, ...] = ()
    description: str = ""
    keywords: tuple[str, ...] = ()
    category: str = ""


def subject(definition: ToolDefinition, entry: RegistryEntry | None = None) -> SearchEntry:
    """The tool of a file, with what a registry adds."""
    return SearchEntry(
        id=definition.id,
        name=definition.name,
        commands=tuple(command.name for command in definition.commands),
        description=" ".join((definition.description, *(command.description for command in definition.commands))),
        keywords=() if entry is None else entry.keywords,
        category="" if entry is None else entry.category,
    )


def listed(entry: RegistryEntry) -> SearchEntry:
    """A tool that only a registry tells of."""
    return SearchEntry(id=entry.name, keywords=entry.keywords, category=entry.category)


def rank(query: str, subjects: Iterable[SearchEntry], limit: int = LIMIT) -> list[SearchEntry]:
    """Return the subjects that match the query, the best first; equal ones in the order of their ids."""
    entries = sorted(subjects, key=lambda one: one.id)
    known = Counter(word for one in entries for word in _weights(one))
    wanted = [_fitting(word, known, len(entries)) for word in _words(query)[:_QUERY_WORDS]]
    scored = [(_score(one, wanted) + _named(one, query), one) for one in entries]
    matches = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])  # keeps the order of ids
    return [one for _, one in matches[: max(limit, 0)]]


def _fitting(word: str, known: Counter[str], total: int) -> dict[str, float]:
    """The known words that fit a word of the query, each with what it counts: more where few subjects have it."""
    alike = ((other, _likeness(word, other)) for other in known)
    return {other: likeness * math.log(1 + total / known[other]) for other, likeness in alike if likeness}


def _score(subject: SearchEntry, wanted: Sequence[dict[str, float]]) -> float:
    weights = _weights(subject)
    return sum(
        max((weights[word] * counts for word, counts in fitting.items() if word in weights), default=0.0)
        for fitting in wanted
    )


def _named(subject: SearchEntry, query: str) -> float:
    """More than any words can bring, for a query that is the id of the subject or of one of its commands."""
    ids = (subject.id, *(f"{subject.id}.{command}" for command in subject.commands))
    return 1000.0 if query.strip().lower() in (id.lower() for id in ids) else 0.0


def _likeness(word: str, other: str) -> float:
    if word == other:
        return 1.0
    short, long = (word, other) if len(word) < len(other) else (other, word)
    return _BEGINNING if len(short) >= _SHORTEST and long.startswith(short) else 0.0


@lru_cache(4096)
def _weights(subject: SearchEntry) -> dict[str, float]:
    """Each word of a subject with the weight of the best place that it stands in."""
    places = (
        (_DESCRIPTION, subject.description),
        (_CATEGORY, subject.category),
        (_KEYWORDS, " ".join(subject.keywords)),
        (_COMMANDS, " ".join(subject.commands)),
        (_NAME, subject.name),
        (_ID, subject.id),
    )
    return {word: weight for weight, text in places for word in _words(text)}


def _words(text: str) -> list[str]:
    """The stems of the words of a text, each once; hyphens and capital letters part words."""
    words = (word.lower() for word in WORD_BORDER.split(text) if word)
    return list(dict.fromkeys(_stem(word) for word in words if word not in _STOP))


@lru_cache(16384)
def _stem(word: str) -> str:
    return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    """That of English; without it only the commonest endings go."""
    try:
        import snowballstemmer  # type: ignore[import-untyped]
    except ImportError:
        return lambda word: _ENDINGS.sub("", word)
    stem: Callable[[str], str] = snowballstemmer.stemmer("english").stemWord
    return stem

"""What a server offers beside tools: prompts, resources and templates, in its own words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

FEATURES = ("prompts", "resources", "completions")
SKILLS = "io.modelcontextprotocol/skills"
_VARIABLE = re.compile(r"\{[^{}]*\}")
LONGEST_URI = 8192

Described = Mapping[str, Any]


class Offers(NamedTuple):
    """The lists of a server, each entry as it came; `until` is when they should be asked for again."""

    prompts: tuple[Described, ...] = ()
    resources: tuple[Described, ...] = ()
    templates: tuple[Described, ...] = ()
    skills: tuple[Described, ...] = ()
    until: float = 0.0

    def lists(self, uri: str) -> bool:
        """True if a resource of that address is listed."""
        return any(one["uri"] == uri for one in (*self.resources, *self.skill_files()))

    def skill_files(self) -> Iterator[Described]:
        """The files of its skills."""
        lists = (one.get("resources") for one in self.skills)
        files = (file for listed in lists if isinstance(listed, list) for file in listed)
        return (file for file in files if isinstance(file, Mapping) and isinstance(file.get("uri"), str))

    def describes(self, uri: str) -> bool:
        """True if an address is one of a template."""
        return any(_fits(one["uriTemplate"], uri) for one in self.templates)

    def speaks(self, scheme: str) -> bool:
        """True if there is a resource or template whose address has that scheme."""
        listed = [one["uri"] for one in (*self.resources, *self.skills)]
        listed += [one["uriTemplate"] for one in self.templates]
        return any(uri.partition(":")[0] == scheme for uri in listed)


def valid(entries: Iterable[Any], key: str) -> tuple[Described, ...]:
    """The entries of a list that have what they are known by, each once."""
    offers: dict[str, Described] = {}
    for one in entries:
        if isinstance(one, Mapping) and isinstance(name := one.get(key), str) and 0 < len(name) <= LONGEST_URI:
            offers.setdefault(name, one)
    return tuple(offers.values())


def _fits(template: str, uri: str) -> bool:
    """Whether an address looks like one of a template: enough to tell whose it is, the server reads it itself.

    Whatever stands between the fixed parts is taken, by a search that a stranger's template cannot make slow.
    """
    first, *others = _VARIABLE.split(template)
    if not others:
        return template == uri
    if not uri.startswith(first):
        return False
    at, last = len(first), others.pop()
    for part in others:
        at = uri.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(uri) - len(last) >= at and uri.endswith(last)

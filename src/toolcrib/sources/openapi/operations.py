"""The operations of a document: what each is called here, which are wanted, and what they do to the world."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from toolcrib.schema import nearest
from toolcrib.sources.openapi.document import DocumentNode, OpenApiDocument
from toolcrib.types import Annotations, Effect

METHODS: Mapping[str, Effect] = {
    "get": "read",
    "head": "read",
    "options": "read",
    "query": "read",
    "put": "idempotent",
    "delete": "idempotent",
    "post": "once",
    "patch": "once",
}
LONGEST_NAME = 64
LONGEST_TEXT = 2000
GRAVITY: Sequence[Effect] = ("read", "idempotent", "once")
EXTENSION = "x-toolcrib"
_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "title": str,
    "description": str,
    "effect": str,
    "hide": bool,
    "timeout": (int, float),
    "tags": list,
    "confirm": bool,
    "destructive": bool,
    "concurrency": int,
    "rate": str,
}

log = logging.getLogger("toolcrib.openapi")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `shared` is what stands beside it at its path, `extra` what `x-toolcrib` says."""

    method: str
    path: str
    node: DocumentNode
    shared: DocumentNode
    extra: Mapping[str, Any]
    name: str = ""

    @property
    def id(self) -> str:
        """What the document calls it."""
        return self.node.text("operationId")

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags; one that should no longer be used has the tag `deprecated`."""
        names = self.extra.get("tags") or self.node.value.get("tags")
        tags = [one for one in names if isinstance(one, str)] if isinstance(names, list) else []
        return tuple(dict.fromkeys([*tags, *(["deprecated"] if self.deprecated else [])]))

    @property
    def deprecated(self) -> bool:
        """True if it should no longer be used."""
        return self.node.value.get("deprecated") is True

    @property
    def description(self) -> str:
        """What it does, in at most 2,000 characters."""
        parts = [self.node.text("summary").strip(), self.node.text("description").strip()]
        if not any(parts):
            parts = [self.shared.text("summary").strip(), self.shared.text("description").strip()]
        text = self.extra.get("description") or "\n\n".join(dict.fromkeys(part for part in parts if part))
        text = text or f"{self.method.upper()} {self.path}"
        text = f"Deprecated. {text}" if self.deprecated else text
        return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1].rstrip() + "…"

    def effect(self, trusted: bool) -> Effect:
        """What its method means; a document that nobody trusts may say that it is graver, and never that it is less."""
        usual = METHODS[self.method]
        effect: Effect = self.extra.get("effect", usual)
        return effect if trusted else max(usual, effect, key=GRAVITY.index)

    def annotations(self, effect: Effect) -> Annotations:
        """What it says of itself."""
        return Annotations(
            read_only=effect == "read" and self.extra.get("destructive") is not True,
            destructive=bool(self.extra.get("destructive", self.method == "delete")),
            idempotent=effect == "idempotent",
            requires_confirmation=self.extra.get("confirm") is True,
        )


def operations(document: OpenApiDocument) -> list[Operation]:
    """All operations that are not hidden, each with its name.

    Raises:
        BadDocument: a path is none.
    """
    shown = [one for one in _all(document) if one.extra.get("hide") is not True]
    # Names do not depend on what is wanted, so that they stay when more is.
    names = [_named(one) for one in shown]
    often = Counter(names)
    for name in (name for name, times in often.items() if times > 1):
        log.warning("%s: %d operations are called %s; each gets a digest", document.name, often[name], name)
    return [
        Operation(
            one.method, one.path, one.node, one.shared, one.extra, _digested(one, name) if often[name] > 1 else name
        )
        for one, name in zip(shown, names, strict=True)
    ]


def _all(document: OpenApiDocument) -> Iterator[Operation]:
    paths = document.root.get("paths")
    for path in () if paths is None else paths.keys():
        if path.startswith("x-"):
            continue
        if not path.startswith("/"):
            raise document.bad(document.root["paths"], f"the path {path!r} does not begin with a slash")
        shared = document.follow(document.root["paths"][path])
        for method in METHODS:
            node = shared.get(method)
            if node is None:
                continue
            if not isinstance(node.value, Mapping):
                raise document.bad(node, "an operation is an object")
            yield Operation(method, path, node, shared, _extra(document, node, shared))


def _extra(document: OpenApiDocument, node: DocumentNode, shared: DocumentNode) -> dict[str, Any]:
    """What the document says for us alone; what nobody understands is told and left out."""
    made: dict[str, Any] = {}
    for holder in (shared, node):
        extension = holder.value.get(EXTENSION)
        for key, value in extension.items() if isinstance(extension, Mapping) else ():
            kind = _KEYS.get(key)
            if kind is None:
                close = nearest(str(key), _KEYS, 1)
                guess = f", did you mean '{close[0]}'?" if close else ""
                log.warning("%s", document.bad(holder, f"{EXTENSION}: unknown key '{key}'{guess}"))
            elif not _usable(key, value, kind):
                log.warning("%s", document.bad(holder, f"{EXTENSION}.{key}: {value!r} cannot be used"))
            else:
                made[key] = value
    return made


def _usable(key: str, value: Any, kind: type | tuple[type, ...]) -> bool:
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return fits and (key != "effect" or value in GRAVITY)


def _named(operation: Operation) -> str:
    name = operation.extra.get("name") or operation.id or f"{operation.method}_{operation.path.strip('/') or 'root'}"
    fit = re.sub(r"[^A-Za-z0-9_.-]+", "_", name.replace("{", "").replace("}", "")).strip("_.-")
    if not fit or len(fit) > LONGEST_NAME:
        return _digested(operation, fit)
    return fit


def _digested(operation: Operation, name: str) -> str:
    mark = hashlib.sha256(f"{operation.method} {operation.path}".encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}_{mark}" if name else f"{operation.method}_{mark}"


def selection(include: Iterable[str], exclude: Iterable[str]) -> Callable[[Operation], bool]:
    """Which operations are wanted: all that a pattern includes, unless one excludes it.

    A pattern is a glob of an operation's id or name, `tag:<glob>`, a method (`GET`), a path (`/pets/*`, where `**`
    goes over slashes), or a method and a path.
    """
    wanted, unwanted = [_matcher(one) for one in include], [_matcher(one) for one in exclude]

    def chosen(operation: Operation) -> bool:
        included = not wanted or any(fits(operation) for fits in wanted)
        return included and not any(fits(operation) for fits in unwanted)

    return chosen


def _matcher(pattern: str) -> Callable[[Operation], bool]:
    pattern = pattern.strip()
    if pattern.startswith("tag:"):
        tag = pattern.removeprefix("tag:").strip()
        return lambda one: any(fnmatchcase(each, tag) for each in one.tags)
    method, _, path = pattern.partition(" ")
    if method.lower() not in METHODS or not (path or method.isupper()):
        method, path = "", pattern
    if path and not path.strip().startswith("/"):
        return lambda one: fnmatchcase(one.id, pattern) or fnmatchcase(one.name, pattern)
    fits = _path(path.strip()) if path else None
    return lambda one: method.lower() in ("", one.method) and (fits is None or fits.fullmatch(one.path) is not None)


def _path(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*)", glob)
    return re.compile("".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts))

"""Secret arguments: where a schema marks them or they look like private keys; texts and data without their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from toolcrib.schema.positions import resolve, subschemas
from toolcrib.schema.problems import MOST, ArgumentProblem, show, spell

MASK = "•••"
_SAME = ("allOf", "anyOf", "oneOf")
_ALSO = ("if", "then", "else")


class SecretFields:
    """The secret places of one schema."""

    __slots__ = ("_root",)

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root

    def part(self, data: Any, problems: Iterable[ArgumentProblem] = ()) -> tuple[Any, list[Any]]:
        """Data with a mask at every secret place, and the values that stood there.

        A secret may stand under a name that was misspelt. So what has a name that its object does not declare beside
        secrets is masked too, and so is each argument that has one of the problems.
        """
        values: list[Any] = []
        shown = self._walk([self._root], data, values)
        unfit = _unfit(data, list(problems))
        if unfit and isinstance(shown, dict):
            shown = {name: MASK if name in unfit else value for name, value in shown.items()}
            values += [value for name in unfit for value in _telling(data[name])]
        return shown, values

    def _walk(self, nodes: list[Any], data: Any, values: list[Any]) -> Any:
        nodes = list(self._applying(nodes))
        if any(_is_secret(node) for node in nodes):
            if data is None:
                return None
            values.append(data)
            return MASK
        if isinstance(data, dict):
            return {name: self._member(nodes, name, inner, values) for name, inner in data.items()}
        if isinstance(data, list):
            return [self._walk(_of_item(nodes, index), inner, values) for index, inner in enumerate(data)]
        if isinstance(data, str) and any(holds_secrets(node, self._root) for node in nodes):
            values.append(data)  # a text where parts are expected: whatever it says, it may say a secret
            return MASK
        return data

    def _member(self, nodes: list[dict[str, Any]], name: str, value: Any, values: list[Any]) -> Any:
        """What stands under a name of an object."""
        declared = any(name in node.get("properties", ()) or node.get("patternProperties") for node in nodes)
        if declared or not any(node.get("properties") and holds_secrets(node, self._root) for node in nodes):
            return self._walk(_of_property(nodes, name), value, values)
        values += _telling(value)
        return None if value is None else MASK

    def _applying(self, nodes: list[Any]) -> Iterator[dict[str, Any]]:
        """All schemas that speak about the same place: what is referred to, and every branch."""
        waiting, seen = list(nodes), set[int]()
        while waiting:
            node = waiting.pop()
            if not isinstance(node, dict) or id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            if isinstance(node.get("$ref"), str):
                waiting.append(resolve(self._root, node["$ref"]))
            for key in _SAME:
                waiting += node.get(key, ())
            waiting += [node[key] for key in _ALSO if key in node]


_TELLING = 4


def _telling(value: Any) -> list[Any]:
    """The texts and numbers of a value that may be secret and are long enough to be looked for in other texts."""
    if isinstance(value, dict):
        return [part for inner in value.values() for part in _telling(inner)]
    if isinstance(value, list):
        return [part for inner in value for part in _telling(inner)]
    return [value] if len(str(value)) >= _TELLING and not isinstance(value, bool | None) else []


def _unfit(data: Any, problems: list[ArgumentProblem]) -> list[str]:
    """The names of the arguments that have one of the problems; all where a problem is that of no single one."""
    if not isinstance(data, dict) or not problems:
        return []
    whole = len(problems) >= MOST or any(not problem.path for problem in problems)
    return [name for name in data if whole or any(_within(problem.path, spell((name,))) for problem in problems)]


def _within(path: str, place: str) -> bool:
    return path.startswith(place) and path[len(place) : len(place) + 1] in ("", ".", "[")


def restored(edited: Any, original: Any) -> Any:
    """Data in which a mask at a secret place means: as it was."""
    if edited == MASK:
        return original
    if isinstance(edited, dict) and isinstance(original, dict):
        return {name: restored(value, original.get(name, value)) for name, value in edited.items()}
    if isinstance(edited, list) and isinstance(original, list):
        kept = [*original, *edited[len(original) :]]
        return [restored(value, old) for value, old in zip(edited, kept, strict=False)]
    return edited


_KEY = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")
_PHRASE = re.compile(r"\s*[a-z]{3,8}(?:\s+[a-z]{3,8}){11,23}\s*")
_NAMES = ("key", "secret", "private", "mnemonic", "seed", "phrase")
_NAME = re.compile(rf"(?!.*(?:public|storage|idempot)).*?(?:{'|'.join(_NAMES)})", re.ASCII | re.IGNORECASE | re.DOTALL)
_NO_TEXT = ("integer", "number", "boolean", "null")


def may_hold_keys(schema: Any, root: dict[str, Any]) -> bool:
    """True if a private key may stand somewhere in what fits a schema: under a name that tells of it, or under any."""
    return any(_open(node) or any(map(_NAME.match, node.get("properties", ()))) for node in _nodes(schema, root))


def _open(node: dict[str, Any]) -> bool:
    """True if it takes texts under names that it does not say."""
    if any(inner is True for inner in subschemas(node)) or "patternProperties" in node:
        return True
    kinds = node.get("type")
    if kinds is None and "properties" not in node:
        return not any(key in node for key in ("$ref", "enum", "const", *_SAME))
    if "array" in _listed(kinds) and not ("items" in node or "prefixItems" in node):
        return True
    if kinds is not None and "object" not in _listed(kinds):
        return False
    more = node.get("additionalProperties", True)
    return more is not False and not (isinstance(more, dict) and more.get("type") in _NO_TEXT)


def _listed(kinds: Any) -> list[Any]:
    return kinds if isinstance(kinds, list) else [kinds]


SHORTEST = 47  # twelve words of three letters; a key has 64 letters or more
_STEP = 4
_RUN = b"w" * (SHORTEST // _STEP)
_IN_RUNS = bytes(
    ord("w") if byte in b"0123456789ABCDEF\\ \t\n\r" or chr(byte).islower() or byte > 127 else 0 for byte in range(256)
)
_IN_NAMES = tuple(name.encode() for name in _NAMES)


def suspect(json: bytes) -> bool:
    """True if a JSON text may hold a private key or a seed phrase: a quick look, since every call is looked at.

    Both are long runs of what hex digits, small letters, spaces and their escapes are written with. Every fourth byte
    of a text tells that it has none, as most have; only where there may be one, the names are looked for.
    """
    if len(json) < SHORTEST or _RUN not in json[::_STEP].translate(_IN_RUNS):
        return False
    if b"\\" in json and b"\\u" in json:  # a name may be written in escapes
        return True
    text = json.lower()
    return any(name in text for name in _IN_NAMES)


def parted(hidden: SecretFields | None, data: Any, problems: Iterable[ArgumentProblem] = ()) -> tuple[Any, list[Any]]:
    """Data with a mask where its schema says so and at all that looks like a private key; what stood there."""
    shown, values = (data, []) if hidden is None else hidden.part(data, problems)
    keys: list[str] = []
    shown = _without_keys(shown, "", keys)
    return without(keys, shown) if keys else shown, [*values, *keys]  # a key may stand in more than one place


def _without_keys(data: Any, name: str, keys: list[str]) -> Any:
    """What stands under a name that tells of a key and looks like one, by itself, in lists or further below."""
    if isinstance(data, dict):
        return {inner: _without_keys(value, f"{name}.{inner}", keys) for inner, value in data.items()}
    if isinstance(data, list):
        return [_without_keys(value, name, keys) for value in data]
    match = (_KEY.fullmatch(data) or _PHRASE.fullmatch(data)) if isinstance(data, str) else None
    if match is None or not _NAME.match(name):
        return data
    keys += [data, *match.groups()]  # whoever repeats a key may leave out its prefix
    return MASK


def _is_secret(node: dict[str, Any]) -> bool:
    return node.get("x-toolcrib-kind") == "secret" or node.get("format") == "password"


def _of_property(nodes: list[dict[str, Any]], name: str) -> list[Any]:
    items: list[Any] = []
    for node in nodes:
        if name in node.get("properties", {}):
            items.append(node["properties"][name])
        else:
            items.append(node.get("additionalProperties"))
        items += node.get("patternProperties", {}).values()
    return items


def _of_item(nodes: list[dict[str, Any]], index: int) -> list[Any]:
    items: list[Any] = []
    for node in nodes:
        first = node.get("prefixItems", ())
        items.append(first[index] if index < len(first) else node.get("items"))
    return items


def holds_secrets(schema: Any, root: dict[str, Any]) -> bool:
    """True if a schema marks a secret at any depth."""
    return any(map(_is_secret, _nodes(schema, root)))


def _nodes(schema: Any, root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema with all that is in it or referred to."""
    waiting, seen = [schema], set[int]()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting += subschemas(node)
        if isinstance(node.get("$ref"), str):
            waiting.append(resolve(root, node["$ref"]))


def texts_of(values: Iterable[Any]) -> tuple[str, ...]:
    """All that a value may look like in a text, the longest first."""
    forms: set[str] = set()
    for value in values:
        json = msgspec.json.encode(value).decode()
        if isinstance(value, str):
            forms |= {value, repr(value)[1:-1], json[1:-1], show(value)[1:-1].rstrip("…")}
        elif isinstance(value, dict | list):
            forms |= {json, show(value).rstrip("…"), *texts_of(value.values() if isinstance(value, dict) else value)}
        elif not isinstance(value, bool | None):
            forms |= {json, str(value)}
    return tuple(sorted((form for form in forms if form.strip()), key=len, reverse=True))


def without(texts: Iterable[str], data: Any) -> Any:
    """Data in which none of the texts is found: not in strings, not in keys, not as a number."""
    if isinstance(data, str):
        for text in texts:
            data = data.replace(text, MASK)
        return data
    if isinstance(data, dict):
        return {without(texts, name): without(texts, inner) for name, inner in data.items()}
    if isinstance(data, list):
        return [without(texts, inner) for inner in data]
    if isinstance(data, int | float) and not isinstance(data, bool) and str(data) in texts:
        return MASK
    return data


def may_be(shown: Any, data: Any) -> bool:
    """True if data may be what is shown with masks: all the rest of it is the same."""
    if isinstance(shown, str) and MASK in shown:
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        return re.fullmatch(".*".join(map(re.escape, shown.split(MASK))), text, re.DOTALL) is not None
    if isinstance(shown, dict) and isinstance(data, dict):
        return len(shown) == len(data) and all(
            may_be(name, other) and may_be(value, data[other])
            for (name, value), other in zip(shown.items(), data, strict=True)
        )
    if isinstance(shown, list) and isinstance(data, list):
        return len(shown) == len(data) and all(map(may_be, shown, data))
    return bool(shown == data)


def safe_length(texts: Iterable[str], text: str) -> int:
    """How much of a text may be shown before the rest is known: a secret may have begun at its end."""
    ends = [
        begun
        for secret in texts
        for begun in range(min(len(secret) - 1, len(text)), 0, -1)
        if text.endswith(secret[:begun])
    ]
    return len(text) - max(ends, default=0)

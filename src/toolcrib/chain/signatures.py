"""Human-readable signatures such as `transfer(address to, uint256)(bool)`, and the types of the ABI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from toolcrib.chain.values import invalid, keccak, shown

LONGEST, DEEPEST = 4000, 16
_IGNORED = frozenset({"memory", "calldata", "storage", "indexed", "payable", "anonymous"})
_LEAF = re.compile(r"(uint|int|bytes)([0-9]{0,4})")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_ARRAY = re.compile(r"\[([0-9]{0,6})\]")


@dataclass(frozen=True, slots=True)
class Type:
    """A type of the ABI: its canonical text, and what it is made of. One that does not hold says its `problem`."""

    text: str
    kind: str
    size: int = 0
    parts: tuple[Type, ...] = ()
    names: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """A function or an error: what it is called, takes and gives."""

    name: str
    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]

    @property
    def text(self) -> str:
        """The canonical text, which is what is hashed."""
        return f"{self.name}({','.join(one.text for one in self.inputs)})"

    @property
    def selector(self) -> bytes:
        """The first four bytes of its calldata."""
        return _selector(self.text)


@lru_cache(1024)
def _selector(text: str) -> bytes:
    return keccak(text.encode())[:4]


@lru_cache(1024)
def parse_signature(text: str) -> Signature:
    """Reads `name(types)`, with names, `function`, `returns` and the words between them where they are.

    Raises:
        ToolFailure: `invalid_arguments`, saying what is missing.
    """
    if len(text) > LONGEST:
        raise invalid(f"Invalid function signature: more than {LONGEST} characters")
    if "(" not in text:
        raise invalid("Invalid function signature: missing '('")
    reader = _SignatureParser(text)
    name = reader.head()
    inputs = reader.list()
    reader.words()
    outputs = reader.list() if reader.peek() == "(" else ((), ())
    reader.words()
    reader.end()
    return Signature(name, inputs[0], outputs[0])


@lru_cache(1024)
def parse_types(text: str) -> tuple[Type, ...]:
    """Reads a list of types, such as `uint256,(address,bytes)[]`.

    Raises:
        ToolFailure: `invalid_arguments`, saying what is wrong.
    """
    if len(text) > LONGEST:
        raise invalid(f"Invalid types: more than {LONGEST} characters")
    reader = _SignatureParser(f"({text})")
    types = reader.list()[0]
    reader.end()
    return types


class _SignatureParser:
    """One walk over a signature."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def peek(self) -> str:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.peek()
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def head(self) -> str:
        words = []
        while (word := self.take(_WORD)) is not None:
            words.append(word[0])
        if words[:1] in (["function"], ["error"]) and len(words) > 1:
            words = words[1:]
        if len(words) != 1 or self.peek() != "(":
            raise invalid(f"Invalid function signature: no name before '(' in '{shown(self.text)}'")
        return words[0]

    def words(self) -> None:
        while self.take(_WORD) is not None:
            pass

    def end(self) -> None:
        if self.peek().strip(";"):
            raise invalid(f"Invalid function signature: unexpected '{self.peek()}' at {self.at}")

    def list(self) -> tuple[tuple[Type, ...], tuple[str, ...]]:
        """Types in parentheses, and their names."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise invalid(f"Invalid function signature: tuples deeper than {DEEPEST}")
        self.at += self.peek() == "("
        types, names = [], []
        while self.peek() != ")":
            kind, name = self.one()
            types.append(kind)
            names.append(name)
            if self.peek() == ",":
                self.at += 1
            elif self.peek() != ")":
                raise invalid("Invalid function signature: missing ')'")
        self.at += 1
        self.depth -= 1
        return tuple(types), tuple(names)

    def one(self) -> tuple[Type, str]:
        if self.peek() == "(":
            made = _tuple(*self.list())
        else:
            word = self.take(_WORD)
            if word is None:
                missing = "missing ')'" if not self.peek() else f"unexpected '{self.peek()}' at {self.at}"
                raise invalid(f"Invalid function signature: {missing}")
            made = _tuple(*self.list()) if word[0] == "tuple" and self.peek() == "(" else leaf(word[0])
        while (array := self.take(_ARRAY)) is not None:
            made = _array(made, array[1])
        name = ""
        while (word := self.take(_WORD)) is not None:
            name = name if word[0] in _IGNORED else word[0]
        return made, name


def leaf(text: str) -> Type:
    """A type that is made of nothing else."""
    if text in ("address", "bool", "string", "function"):
        return Type(text, text)
    match = _LEAF.fullmatch(text)
    if match is None:
        return Type(text, "unknown", problem=f"Unknown type: {shown(text)}")
    kind, digits = match[1], match[2]
    if kind == "bytes":
        if not digits:
            return Type(text, "bytes")
        good = digits[0] != "0" and 1 <= int(digits) <= 32
        return Type(text, "fixed", int(digits), problem=None if good else f"Invalid bytes size: {digits}")
    bits = int(digits or 256)
    good = (digits or "256")[0] != "0" and 8 <= bits <= 256 and bits % 8 == 0
    return Type(f"{kind}{bits}" if good else text, kind, bits, problem=None if good else f"Invalid {kind} size: {bits}")


def _tuple(parts: tuple[Type, ...], names: tuple[str, ...]) -> Type:
    text = f"({','.join(part.text for part in parts)})"
    problem = next((part.problem for part in parts if part.problem), None)
    return Type(text, "tuple", 0, parts, names, problem)


def _array(item: Type, length: str) -> Type:
    problem = item.problem or ("Invalid array length: 0" if length and int(length) == 0 else None)
    return Type(f"{item.text}[{length}]", "array", int(length or 0), (item,), (), problem)


def of_abi(entry: Mapping[str, Any]) -> Signature:
    """An entry of a JSON ABI.

    Raises:
        ToolFailure: `invalid_arguments`, it does not hold.
    """
    inputs, outputs = _of_list(entry.get("inputs")), _of_list(entry.get("outputs"))
    return parse_signature(f"{entry.get('name') or '_'}{inputs}{outputs}")


def _of_list(value: Any) -> str:
    return f"({','.join(map(_of_one, _maps(value)))})"


def _of_one(data: Mapping[str, Any]) -> str:
    kind = str(data.get("type", ""))
    if kind.startswith("tuple"):
        kind = _of_list(data.get("components")) + kind.removeprefix("tuple")
    name = str(data.get("name") or "")
    return f"{kind} {name}" if _WORD.fullmatch(name) else kind


def _maps(value: Any) -> Iterable[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def functions(abi: Any) -> list[str]:
    """The functions of a JSON ABI as signatures a person reads, with what they give."""
    signatures = []
    for entry in _maps(abi):
        if entry.get("type", "function") == "function" and isinstance(entry.get("name"), str):
            gives = _of_list(entry.get("outputs"))
            signatures.append(f"{entry['name']}{_of_list(entry.get('inputs'))}{'' if gives == '()' else gives}")
    return signatures

"""How large a schema may be. A schema is a stranger's text: it is measured before anything is compiled of it.

The compiler holds the interpreter's lock until it is done, so neither a thread nor a timeout could stop it. Its time
follows from the size of a schema and, far more, from its patterns: counted repeats multiply what stands before them,
and a class such as `\\p{L}` has hundreds of states. Both are estimated here, in one pass and without compiling.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from toolcrib.schema.problems import SchemaError, show

MOST_BYTES = 512 * 1024
MOST_NODES = 20_000
MOST_LEVELS = 200
MOST_PATTERNS = 1_000
MOST_SEARCHES = 200_000
"""References by the name of an anchor, times the parts that each is looked for in."""

HEAVIEST_PATTERNS = 300_000
"""States of all patterns of one schema, where a plain character has one: about a tenth of a second to compile."""

LONGEST_MATCH = 60_000_000
"""States times characters that one text may cost: the engine without backtracking takes at most so many steps."""

LIGHT = 600
"""A pattern with fewer states is held against texts of any length."""

_REPEAT = re.compile(r"\{\s*(\d{0,9})\s*(,\s*(\d{0,9})\s*)?\}")
_FLAGS = re.compile(r"\?([a-zA-Z]*)")
_ENDLESS = 10**12
_ANY_CHARACTER, _PROPERTY, _FOLDED = 12, 2_000, 200
_ESCAPES = {"D": 12, "W": 12, "s": 9, "S": 25, "p": _PROPERTY, "P": _PROPERTY}


class SchemaSize(NamedTuple):
    """What a schema costs whoever reads it: bytes of its text, parts, and states of its patterns."""

    bytes: int = 0
    nodes: int = 0
    states: int = 0

    def plus(self, other: SchemaSize) -> SchemaSize:
        """Add another."""
        return SchemaSize(self.bytes + other.bytes, self.nodes + other.nodes, self.states + other.states)


MOST_OF_A_SOURCE = SchemaSize(16 * MOST_BYTES, 10 * MOST_NODES, 10 * HEAVIEST_PATTERNS)
"""What all schemas of one server, document or session may come to together."""


class SchemaBudget:
    """What the schemas of one source may still cost together."""

    def __init__(self, most: SchemaSize = MOST_OF_A_SOURCE) -> None:
        self._most = most
        self._spent = SchemaSize()

    def spend(self, schema: Any) -> None:
        """Take one more schema into account.

        Raises:
            SchemaError: it is too large, or all of them together are.
        """
        spent = self._spent.plus(measure(schema))
        if spent.bytes > self._most.bytes:
            raise SchemaError(f"the schemas of these tools have more than {self._most.bytes // 1024} KB together")
        if spent.nodes > self._most.nodes:
            raise SchemaError(f"the schemas of these tools have more than {self._most.nodes} parts together")
        if spent.states > self._most.states:
            raise SchemaError("the patterns of these tools are too large together; use fewer counted repeats")
        self._spent = spent


def measure(schema: Any) -> SchemaSize:
    """Measure a schema in time that is linear to its text.

    Raises:
        SchemaError: it is too large to be compiled.
    """
    size = _bytes(schema)
    if size > MOST_BYTES:
        raise SchemaError(f"the schema has {size // 1024} KB, and {MOST_BYTES // 1024} KB are the most")
    states, patterns, nodes, anchors = 0, 0, 0, 0
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    while waiting:
        node, level = waiting.pop()
        nodes += 1
        _check_place(nodes, level)
        if isinstance(node, dict):
            anchors += _names_anchor(node.get("$ref"))
            for pattern in _patterns(node):
                patterns += 1
                states += pattern_states(pattern)
                _check_patterns(patterns, states, pattern)
        inner = node.values() if isinstance(node, dict) else node
        waiting += [(one, level + 1) for one in inner if isinstance(one, dict | list)]
    if anchors * nodes > MOST_SEARCHES:
        raise SchemaError("the schema has too many references to anchors; refer to #/$defs/name instead")
    return SchemaSize(size, nodes, states)


def _names_anchor(reference: Any) -> bool:
    return isinstance(reference, str) and reference != "#" and not reference.startswith("#/")


def _bytes(schema: Any) -> int:
    try:
        return len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None


def _check_place(nodes: int, level: int) -> None:
    if nodes > MOST_NODES:
        raise SchemaError(f"the schema has more than {MOST_NODES} parts")
    if level > MOST_LEVELS:
        raise SchemaError(f"the schema is nested more than {MOST_LEVELS} levels deep")


def _check_patterns(patterns: int, states: int, last: str) -> None:
    if patterns > MOST_PATTERNS:
        raise SchemaError(f"the schema has more than {MOST_PATTERNS} patterns")
    if states > HEAVIEST_PATTERNS:
        raise SchemaError(
            f"the patterns of the schema are too large at {show(last)}: use maxLength instead of counted repeats, "
            "and few classes such as \\p{L}"
        )


def all_patterns(schema: Any) -> list[str]:
    """List the patterns of a schema that was measured, each as often as it stands there."""
    patterns, waiting = list[str](), [schema]
    while waiting:
        node = waiting.pop()
        patterns += _patterns(node) if isinstance(node, dict) else []
        waiting += [one for one in (node.values() if isinstance(node, dict) else node) if isinstance(one, dict | list)]
    return patterns


def _patterns(node: dict[str, Any]) -> list[str]:
    names = node.get("patternProperties")
    patterns = [name for name in names if isinstance(name, str)] if isinstance(names, dict) else []
    pattern = node.get("pattern")
    return [*patterns, pattern] if isinstance(pattern, str) else patterns


def longest_text(pattern: str) -> int | None:
    """Give how long a text may be that is held against a pattern; None where it does not matter."""
    states = pattern_states(pattern)
    return None if states <= LIGHT else max(LONGEST_MATCH // states, 1)


def pattern_states(pattern: str) -> int:
    """Estimate how many states a pattern has when it is compiled, rather too many than too few."""
    # Engines differ in whether `[` inside of a class begins another one.
    return max(_StateCounter(pattern, nested).count() for nested in (False, True))


class _StateCounter:
    """Counts the states of one pattern, from left to right."""

    def __init__(self, pattern: str, nested: bool) -> None:
        self._pattern = pattern
        self._nested = nested
        self._at = 0
        self._sum = self._last = 0  # of the group that is open, and of what a repeat would multiply
        self._around: list[int] = []
        self._folds = False
        self._spaced = False

    def count(self) -> int:
        while self._at < len(self._pattern):
            self._step(self._pattern[self._at])
        total = self._sum + sum(self._around)
        return _ENDLESS if self._spaced else min(total, _ENDLESS)

    def _step(self, letter: str) -> None:
        self._at += 1
        if letter == "(":
            self._around.append(self._sum)
            self._sum = self._last = 0
            self._note_flags()
        elif letter == ")":
            self._last = max(self._sum, 1)
            self._sum = self._last + (self._around.pop() if self._around else 0)
        elif letter == "{" and (repeat := _REPEAT.match(self._pattern, self._at - 1)):
            self._at = repeat.end()
            self._repeat(max(int(repeat[1] or 0), int(repeat[3] or 0), 1) + (repeat[2] is not None))
        elif letter == "[":
            self._add(self._class_states())
        elif letter == "\\":
            self._add(self._escape_states())
        elif letter not in "*+?|^$":
            self._add(_ANY_CHARACTER if letter == "." else self._plain_states(letter))

    def _note_flags(self) -> None:
        flags = _FLAGS.match(self._pattern, self._at)
        if flags is not None and not self._pattern.startswith("?P", self._at):
            self._folds = self._folds or "i" in flags[1]
            self._spaced = self._spaced or "x" in flags[1]  # blanks and comments would part a repeat from its atom

    def _repeat(self, times: int) -> None:
        self._sum += self._last * (times - 1)
        self._last *= times

    def _add(self, states: int) -> None:
        self._sum += states
        self._last = states

    def _plain_states(self, letter: str) -> int:
        if letter.isascii():
            return 3 if self._folds else 1
        return _FOLDED if self._folds else 2

    def _escape_states(self) -> int:
        kind = self._pattern[self._at : self._at + 1]
        self._at += 1
        if kind in ("p", "P", "u", "x") and self._pattern.startswith("{", self._at):
            end = self._pattern.find("}", self._at)
            self._at = end + 1 if end >= 0 else len(self._pattern)
        elif kind in ("p", "P"):
            self._at += 1
        plain = _FOLDED if self._folds and kind in ("u", "x") else 2
        return _ESCAPES.get(kind, plain)

    def _class_states(self) -> int:
        """Count a class to its end; a bracket right at the beginning stands for itself."""
        states, depth, begun = 1, 1, self._at
        while self._at < len(self._pattern) and depth:
            letter = self._pattern[self._at]
            self._at += 1
            if letter == "\\":
                states += self._escape_states()
            elif letter == "[" and self._nested:
                depth += 1
            elif letter == "]":
                depth -= 1
            elif letter == "^" and self._at == begun + 1:
                states += _ANY_CHARACTER
            elif not letter.isascii():
                states += _PROPERTY if self._folds else 6
        return states + 2

"""Session state: a fold of the changes that calls committed, with conflicts found instead of overwritten."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from toolcrib.types import Change

Mode = Literal["exclusive", "add", "append", "merge"]
OPS = ("set", "merge", "append", "add", "delete")


class Problem(NamedTuple):
    """Why a batch of changes was refused; nothing of it was applied."""

    problem: Literal["conflict", "op", "type", "revision"]
    key: str
    by: str | None = None

    def message(self) -> str:
        """In words."""
        if self.problem == "conflict":
            return f"State key '{self.key}' was changed by call {self.by}"
        if self.problem == "op":
            return f"State key '{self.key}' does not allow this change"
        if self.problem == "revision":
            return "The changes were made for a state that does not exist yet"
        return f"State key '{self.key}' holds a value of another type"


class Snapshot(Mapping[str, Any]):
    """The state as a tool sees it: frozen at one revision."""

    __slots__ = ("_values", "revision")

    def __init__(self, values: Mapping[str, Any], revision: int) -> None:
        self._values = MappingProxyType(dict(values))
        self.revision = revision

    def __getitem__(self, key: str) -> Any:
        return copy.deepcopy(self._values[key])

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Snapshot({dict(self._values)!r}, revision={self.revision})"


class State:
    """The state of one session. Values are replaced, never changed in place, so that snapshots stay what they were."""

    def __init__(self, keys: Mapping[str, Mode] | None = None) -> None:
        self._keys = dict(keys or {})
        self._values: dict[str, Any] = {}
        self._changed: dict[str, tuple[int, str]] = {}
        self.revision = 0
        self.now = Snapshot(self._values, 0)

    def snapshot(self) -> Snapshot:
        """What a call that starts now sees."""
        return self.now

    def check(self, changes: Iterable[Change], base: int) -> Problem | None:
        """Whether changes made on the snapshot `base` may be committed now."""
        outcome = self._apply(changes, base)
        return outcome if isinstance(outcome, Problem) else None

    def commit(self, changes: Iterable[Change], base: int, call: str) -> Problem | None:
        """Applies all changes, or none and says why."""
        changes = list(changes)
        if not changes:
            return None
        outcome = self._apply(changes, base)
        if isinstance(outcome, Problem):
            return outcome
        self._values = outcome
        self.revision += 1
        self.now = Snapshot(outcome, self.revision)
        for change in changes:
            self._changed[change.key] = (self.revision, call)
        return None

    def _apply(self, changes: Iterable[Change], base: int) -> dict[str, Any] | Problem:
        if base > self.revision:
            return Problem("revision", "")
        values = dict(self._values)
        for change in changes:
            mode = self._keys.get(change.key, "exclusive")
            last, by = self._changed.get(change.key, (0, ""))
            if mode == "exclusive" and last > base:
                return Problem("conflict", change.key, by)
            if change.op not in OPS or mode not in ("exclusive", change.op):
                return Problem("op", change.key)
            if not _change(values, change):
                return Problem("type", change.key)
        return values


def _change(values: dict[str, Any], change: Change) -> bool:
    """Makes one change on a copy of the state; False where the value there does not take it."""
    key, new, old = change.key, change.value, values.get(change.key)
    if change.op == "set":
        values[key] = new
    elif change.op == "delete":
        values.pop(key, None)
    elif change.op == "append":
        if not isinstance(old, list | None):
            return False
        values[key] = [*(old or ()), *(new if isinstance(new, list) else [new])]
    elif change.op == "merge":
        if not isinstance(old, dict | None) or not isinstance(new, dict):
            return False
        values[key] = {**(old or {}), **new}
    else:
        if not _number(old if old is not None else 0) or not _number(new):
            return False
        values[key] = (old or 0) + new
    return True


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

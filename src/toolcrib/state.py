"""Session state: a fold of the changes that calls committed, with conflicts found instead of overwritten."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from toolcrib.events import StateRecord
from toolcrib.types import Change

Mode = Literal["exclusive", "add", "append", "merge"]
"""How a key may be changed: by one call at a time in any way, or by many at once in this one."""

OPS = ("set", "merge", "append", "add", "delete")


class Key(NamedTuple):
    """How a key of the state may be changed, and whether each run has one of its own, which goes with the run."""

    mode: Mode = "exclusive"
    lives: Literal["session", "run"] = "session"


class StateProblem(NamedTuple):
    """Why a batch of changes was refused; nothing of it was applied."""

    problem: Literal["conflict", "op", "type", "revision", "gap"]
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
        if self.problem == "gap":
            return "A commit of the state is missing"
        return f"State key '{self.key}' holds a value of another type"


def declared(keys: Mapping[str, Mode | Key]) -> dict[str, str | dict[str, str]]:
    """Declarations of keys as plain data, without those that say what holds anyway."""
    modes = {name: _mode(key if isinstance(key, Key) else Key(key)) for name, key in keys.items()}
    return {name: mode for name, mode in sorted(modes.items()) if mode != "exclusive"}


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
    """The state of one session. Values are replaced, never changed in place, so that snapshots stay what they were.

    What lives for a run is kept by run, and calls of other runs do not see it.
    """

    def __init__(self, keys: Mapping[str, Mode | Key] | None = None) -> None:
        self._keys = {name: key if isinstance(key, Key) else Key(key) for name, key in (keys or {}).items()}
        self._values: dict[str | None, dict[str, Any]] = {None: {}}
        self._changed: dict[tuple[str | None, str], tuple[int, str]] = {}
        self.scoped = any(key.lives == "run" for key in self._keys.values())
        self.has_runs = False  # whether it holds values of runs
        self.revision = 0
        self.now = Snapshot({}, 0)

    def snapshot(self, run: str | None = None) -> Snapshot:
        """What a call that starts now sees."""
        if run is None or run not in self._values:
            return self.now
        return Snapshot({**self._values[None], **self._values[run]}, self.revision)

    def check(self, changes: Iterable[Change], base: int, run: str | None = None) -> StateProblem | None:
        """Whether changes made on the snapshot `base` may be committed now."""
        outcome = self._apply(changes, base, run)
        return outcome if isinstance(outcome, StateProblem) else None

    def commit(self, changes: Iterable[Change], base: int, call: str, run: str | None = None) -> StateProblem | None:
        """Applies all changes, or none and says why."""
        changes = list(changes)
        if not changes:
            return None
        outcome = self._apply(changes, base, run)
        if isinstance(outcome, StateProblem):
            return outcome
        self._values.update(outcome)
        self.has_runs = len(self._values) > 1
        self.revision += 1
        self.now = Snapshot(self._values[None], self.revision)
        for change in changes:
            self._changed[self._whose(change.key, run), change.key] = (self.revision, call)
        return None

    def record(self, changes: Iterable[Change], base: int, run: str | None = None) -> StateRecord:
        """The next commit as its event keeps it: with the mode of each key, so that nobody has to judge it again."""
        changes = list(changes)
        keys = {change.key: _mode(self._keys.get(change.key, Key())) for change in changes}
        return StateRecord(base, self.revision + 1, changes, keys, run if self.scoped else None)

    def replay(self, commit: StateRecord, call: str) -> StateProblem | None:
        """Applies what an event says was committed, whatever is declared now; what is wrong with it, if anything is.

        An event that does not tell the modes of its keys is of an older version: its run-scoped keys are those of now.
        """
        revision, run, keys = commit.revision, commit.run, commit.keys
        if revision <= self.revision:
            return None
        problem = StateProblem("gap", "") if revision != self.revision + 1 else None
        values: dict[str | None, dict[str, Any]] = {}
        self.revision = revision
        changes: list[Any] = commit.changes
        for one in changes:
            change = one if isinstance(one, Change) else Change(**one)  # an odd log may say anything
            whose = self._whose(change.key, run) if keys is None else run if _of_run(keys.get(change.key)) else None
            mine = values.setdefault(whose, dict(self._values.get(whose, {})))
            if change.op not in OPS:
                problem = problem or StateProblem("op", change.key)
            elif not _change(mine, change):
                problem = problem or StateProblem("type", change.key)
                mine.pop(change.key, None)
                _change(mine, change)
            self._changed[whose, change.key] = (revision, call)
        self._values.update(values)
        self.has_runs = len(self._values) > 1
        self.now = Snapshot(self._values[None], revision)
        return problem

    def end(self, run: str) -> None:
        """Forgets what lived for a run."""
        self._values.pop(run, None)
        self._changed = {key: last for key, last in self._changed.items() if key[0] != run}

    def _whose(self, key: str, run: str | None) -> str | None:
        """The run that a key belongs to; None for what the whole session has."""
        return run if key in self._keys and self._keys[key].lives == "run" else None

    def _apply(
        self, changes: Iterable[Change], base: int, run: str | None
    ) -> dict[str | None, dict[str, Any]] | StateProblem:
        if base > self.revision:
            return StateProblem("revision", "")
        values: dict[str | None, dict[str, Any]] = {}
        for change in changes:
            whose = self._whose(change.key, run)
            mode = self._keys.get(change.key, Key()).mode
            last, by = self._changed.get((whose, change.key), (0, ""))
            if mode == "exclusive" and last > base:
                return StateProblem("conflict", change.key, by)
            if change.op not in OPS or mode not in ("exclusive", change.op):
                return StateProblem("op", change.key)
            if not _change(values.setdefault(whose, dict(self._values.get(whose, {}))), change):
                return StateProblem("type", change.key)
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


def _mode(key: Key) -> str | dict[str, str]:
    """A declaration as an event keeps it."""
    return key.mode if key.lives == "session" else {"mode": key.mode, "lives": key.lives}


def _of_run(mode: object) -> bool:
    """Whether a key was committed for its run alone."""
    return isinstance(mode, Mapping) and mode.get("lives") == "run"


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

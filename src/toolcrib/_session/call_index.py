"""The index of calls as the log tells it: each call folded from its events, with the row that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolcrib._call import approvals
from toolcrib._call.history import History
from toolcrib._call.lifecycle import DUE, Life
from toolcrib.events import Done, Event
from toolcrib.store import Row, State

CLOSE_S = 0.001
ENDINGS = ("", "done", "done, settled")


class FoldedCall:
    """One call as its events tell it, and where they stand."""

    def __init__(self, session: str, first: Event) -> None:
        self.history = History(session)
        self.life = Life()
        self.first = first

    @property
    def known(self) -> bool:
        """True if the log has its beginning."""
        return self.first.kind == "accepted"

    def take(self, event: Event) -> None:
        """Take its next event."""
        self.life.take(event)
        self.history.advance(event)

    @property
    def states(self) -> tuple[State, ...]:
        """What the index may say, the one to write first."""
        return self.life.states(self.history.accepted.effect)

    def row(self) -> Row:
        """Its row. Who ran it the log does not tell: what was running is left to whoever recovers next."""
        history, life, accepted = self.history, self.life, self.history.accepted
        row = Row(history.id, history.session, accepted.tool, accepted.effect, self.states[0], life.attempt)
        row.accepted_at, row.accepted_seq = history.accepted_at, self.first.seq
        row.background = bool(accepted.background)
        row.parent, row.key = accepted.parent, accepted.key
        row.question = next(reversed(history.questions), None)
        if history.question is not None:
            row.expires_at = approvals.escalates_at(history.question) or history.question.expires_at
        if history.scheduled is not None and row.question is None:
            row.question = f"{DUE}{history.scheduled.schedule}"
        if history.awaits_time and history.scheduled is not None:
            row.expires_at = history.scheduled.due or history.accepted_at
        if life.ends:
            end = life.ends[-1].data
            assert isinstance(end, Done)
            if (end.metadata or {}).get("retracted"):
                row.key = None  # it never began, and its key may be used again
            row.done_seq = life.ends[-1].seq
            row.code = None if end.failure is None else end.failure.code
        return row

    @property
    def _watches(self) -> bool:
        """True if it waits for the end of another call."""
        return self.history.scheduled is not None and self.history.scheduled.when is not None

    def problems(self, row: Row | None) -> Iterator[str]:
        """Yield where the index says something else than the log, or the log what cannot be."""
        if not self.known:
            yield f"its events begin with '{self.first.kind}', not with 'accepted'"
            return
        kinds = ", ".join(event.kind for event in self.life.ends)
        if kinds not in ENDINGS:
            yield f"it ends with {kinds}"
        if row is None:
            yield "is in the log, not in the index"
            return
        for name, (log, index) in self._compared(row).items():
            if log != index:
                yield f"{name}: the log says {log!r}, the index {index!r}"

    def _compared(self, row: Row) -> dict[str, tuple[Any, Any]]:
        """What log and index say of a call; who runs it, and in which attempt, only the index knows."""
        folded, waits = self.row(), self.history.question is not None or self.history.awaits_time
        if self.history.awaits_time and folded.question is not None and self._watches:
            folded.expires_at = row.expires_at  # when it is looked at next, which only the index knows
        return {
            "tool": (folded.tool, row.tool),
            "effect": (folded.effect, row.effect),
            "state": (row.state if row.state in self.states else "/".join(self.states), row.state),
            "accepted": _times(folded.accepted_at, row.accepted_at),
            "first event": (folded.accepted_seq, row.accepted_seq),
            "last event": (folded.done_seq, row.done_seq),
            "code": (folded.code, row.code),
            "question": (folded.question if waits else row.question, row.question),
            "expiry": _times(folded.expires_at, row.expires_at),
            "background": (folded.background, row.background),
            "parent": (folded.parent, row.parent),
            "key": (folded.key, row.key),
        }


def _times(log: float | None, index: float | None) -> tuple[float | None, float | None]:
    """Two times, which are the same as far as a database keeps them."""
    close = log is not None and index is not None and abs(log - index) < CLOSE_S
    return (index if close else log, index)

"""The index of calls as the log tells it: each call folded from its events, with the row that belongs to it."""

from __future__ import annotations

from toolcrib._call import approvals
from toolcrib._call.history import History
from toolcrib.events import Event
from toolcrib.store import Row, State


class FoldedCall:
    """One call as its events tell it, and where they stand."""

    def __init__(self, session: str, first: Event) -> None:
        self.history = History(session)
        self.first = first
        self.ends: list[Event] = []
        self.attempt = 0
        self.answered = False

    @property
    def known(self) -> bool:
        """Whether the log has its beginning."""
        return self.first.kind == "accepted"

    def take(self, event: Event) -> None:
        """Takes its next event, and counts attempts as whoever wrote them did."""
        if event.kind in ("done", "settled"):
            self.ends.append(event)
        elif event.kind == "started":
            self.attempt, self.answered = event.fields.get("attempt", 1), False
        elif event.kind == "waiting" and self.answered and self.history.started is None:
            self.attempt += 1  # it never started since its last question, and yet both are told apart
        elif event.kind == "answered":
            # Going on after an answer is an attempt of its own, and writes no event where it had started before.
            self.answered = True
            self.attempt += self.history.started is not None
        self.history.advance(event)

    @property
    def states(self) -> tuple[State, ...]:
        """What the index may say, the one to write first. After an answer queued and running look alike: what may
        happen only once counts as running, so that nobody starts it a second time.
        """
        if self.history.done is not None:
            return ("done",)
        if self.history.question is not None:
            return ("waiting",)
        if self.history.paused is not None:
            return ("queued", "waiting")
        if self.history.started is None:
            return ("queued",)
        if not self.answered:
            return ("running",)
        return ("running", "queued") if self.history.accepted.get("effect") == "once" else ("queued", "running")

    def row(self) -> Row:
        """Its row. Who ran it the log does not tell: what was running is left to whoever recovers next."""
        history, said = self.history, self.history.accepted
        row = Row(history.id, history.session, said["tool"], said.get("effect", "once"), self.states[0], self.attempt)
        row.accepted_at, row.accepted_seq = history.accepted_at, self.first.seq
        row.background = said.get("background", False)
        row.parent, row.key = said.get("parent"), said.get("key")
        row.question = next(reversed(history.questions), None)
        if history.question is not None:
            row.expires_at = approvals.escalates_at(history.question) or history.question.expires_at
        if self.ends:
            if (self.ends[-1].fields.get("metadata") or {}).get("retracted"):
                row.key = None  # it never began, and its key may be used again
            row.done_seq = self.ends[-1].seq
            row.code = (self.ends[-1].fields.get("failure") or {}).get("code")
        return row

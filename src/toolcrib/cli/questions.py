"""Questions on the command line: looked up by id alone, and answered by whoever sits there."""

from __future__ import annotations

import dataclasses
import getpass
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.cli.terminal import CommandError

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib.crib import Crib
    from toolcrib.session import Session
    from toolcrib.store import Row, Store
    from toolcrib.types import Answer, Question

LOOK = "`toolcrib approvals list` shows what is open"


class PendingQuestion(NamedTuple):
    """A question, and where it was asked."""

    session: Session
    row: Row
    history: History
    question: Question

    @property
    def answer(self) -> Answer | None:
        """Return the answer to it."""
        return self.history.answer(self.question.id)

    @property
    def state(self) -> str:
        """Whether it is open."""
        if self.answer is not None:
            return "answered"
        if self.row.state != "waiting" or self.row.question != self.question.id:
            return "ended"
        return "expired" if self.question.expires_at <= time.time() else "open"

    async def renewed(self) -> PendingQuestion:
        """The same question as it is now."""
        row = await self.session._row(self.row.id)
        history = await self.session._history(row)
        return PendingQuestion(self.session, row, history, history.questions[self.question.id])

    async def answered_at(self) -> int:
        """Where in the log it was answered; 0 where it was not."""
        async for event in self.session.events(call=self.row.id, follow=False):
            if event.kind == "answered" and event.fields["question"] == self.question.id:
                return event.seq
        return 0


async def asked_by_id(crib: Crib, question: str, advice: str = LOOK) -> PendingQuestion:
    """A question by its id alone.

    Raises:
        CommandError: there is no such question.
    """
    pending = await find(crib, question)
    if pending is None:
        raise CommandError(f"No such question: {question}", advice, exit_code=1, code="not_found")
    return pending


async def find(crib: Crib, question: str) -> PendingQuestion | None:
    """The same, if there is one."""
    row = await crib.store.call(question.rpartition("-")[0])  # a question is named after its call
    session = None if row is None else await crib._session_table.attached(row.session)
    if row is None or session is None:
        return None
    history = await session._history(row)
    return (
        PendingQuestion(session, row, history, history.questions[question]) if question in history.questions else None
    )


async def data(store: Store, question: Question) -> dict[str, Any]:
    """A question as JSON, with the owner of its session."""
    row = await store.session(question.session)
    return {**dataclasses.asdict(question), "owner": None if row is None else row.owner}


def wanted(question: Mapping[str, Any]) -> str:
    """Describe who has to agree to a question, where rules demand it."""
    from toolcrib.policy.approvers import demand

    return "; ".join(demand(one).words() for one in question["demands"])


def agreed(question: Mapping[str, Any]) -> str:
    """Describe how many of the needed approvals a question has."""
    many, needed = (
        len(question["approved_by"]),
        max([len(question["demands"]), *(one["quorum"] for one in question["demands"])]),
    )
    return f"{many} of {needed} approvals" if many < needed else f"{many} approvals, and others have to agree too"


class AnswerInput(NamedTuple):
    """What a person says to a question."""

    action: str
    actor: str | None = None
    key: str | None = None
    reason: str | None = None
    scope: str = "once"
    arguments: Mapping[str, Any] | None = None
    value: Any = None


async def give(session: Session, question: str, answer: AnswerInput) -> Answer:
    """Answers it.

    Raises:
        Refused: it does not hold, or not any more.
    """
    more = {name: value for name, value in answer._asdict().items() if name not in ("action", "value")}
    return await session.answer(question, answer.action, answer.value, **(more | {"actor": answer.actor or user()}))


def user() -> str:
    """Who sits at the terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "operator"

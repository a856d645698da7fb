"""What came of a message to an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.agent.conversation import AgentRun
from toolcrib.types import Question


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of a message: the run that took it, and how that ended or what it waits for."""

    run: str | None
    status: str
    reason: str | None = None
    answer: Any = None
    code: str | None = None
    detail: str | None = None
    turns: int = 0
    usage: Mapping[str, Any] | None = None
    questions: tuple[Question, ...] = ()


def outcome_of(run: AgentRun) -> RunOutcome:
    """What came of a run that is over."""
    end = run.finished
    if end is None:
        return RunOutcome(run.id, "done")
    return RunOutcome(run.id, "done", end.reason, end.answer, end.code, end.detail, end.turns, end.usage)

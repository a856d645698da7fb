"""How much of a conversation a model is sent, and what stands for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib.agent.transcript import TranscriptItem, files_in, harmless

if TYPE_CHECKING:
    from toolcrib.agent.definition import Agent
    from toolcrib.agent.models import Model

LONGEST = 2000
"""So much of a question is repeated when what was said around it is left out."""


async def allowed(model: Model, agent: Agent) -> int | None:
    """How many tokens of a conversation the model is sent; None where nobody says.

    That is what the agent says, else half of what the model takes: instructions, tools and the reply need room too,
    and tokens are counted by a rough rule.

    Raises:
        ModelError: the model cannot even be asked that.
    """
    if "window" in agent.model_settings:
        window = agent.model_settings["window"]
        return window if isinstance(window, int) and window > 0 else None
    taken = await model.window(agent.model_settings)
    return None if taken is None else taken // 2


def with_placeholders(summary: str, view: Sequence[TranscriptItem]) -> str:
    """A summary that also tells which files were shown in what it stands for."""
    return "\n".join([summary, *dict.fromkeys(file.placeholder("shown before") for file in files_in(view))])


def left_out(old: Sequence[TranscriptItem]) -> str:
    """What stands for messages that are too long for anybody to read."""
    question = next((item.text for item in reversed(old) if item.role == "user"), "")
    return harmless(f"What was said before is too long and was left out. The last question was: {question[:LONGEST]}")

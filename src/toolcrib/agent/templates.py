"""`{{name}}` in instructions: put in place from what is known, without logic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.agent.definition import Agent
    from toolcrib.session import Session

KNOWN = ("session", "owner", "agent", "now")
_NAME = re.compile(r"\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")


def names_in(text: str) -> list[str]:
    """The names that stand in a text."""
    return list(dict.fromkeys(_NAME.findall(text)))


def unknown_names(text: str, vars: Iterable[str]) -> list[str]:
    """The names in a text that nobody would fill in."""
    known = {*KNOWN, *vars}
    return [name for name in names_in(text) if name not in known]


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its names put in place; what is not known stays as it is."""
    return _NAME.sub(lambda match: values.get(match[1], match[0]), text)


def values(session: Session, agent: Agent) -> dict[str, str]:
    """What the names in the instructions of an agent stand for now."""
    now = datetime.fromtimestamp(session.pipeline.clock.now(), UTC).isoformat(timespec="seconds")
    return {"session": session.id, "owner": session.owner, "agent": agent.name, "now": now, **agent.vars}

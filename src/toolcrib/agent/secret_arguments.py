"""Arguments of a model that nobody may see: they are kept beside the log, which shows something else in their place."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from toolcrib._call.request import hidden, undressed
from toolcrib.agent.models import ModelCall
from toolcrib.agent.transcript import CallNote
from toolcrib.errors import BadSecretKey
from toolcrib.events import CallRequestRecord
from toolcrib.schema import BadArguments
from toolcrib.schema.problems import ArgumentProblem
from toolcrib.schema.redaction import MASK, without
from toolcrib.store.codec import encode
from toolcrib.store.vault import SealedValue, secret_id
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.session import Session

GIVEN = "model"
"""The part of a call under which the arguments that a model gave are kept."""

log = logging.getLogger("toolcrib.agent")


async def declared(session: Session, id: str, call: ModelCall, tool: Tool | None) -> CallRequestRecord:
    """A call whose arguments may hold a secret, as the message of its model tells it."""
    arguments = call.args.encode("utf-8", "replace")
    shown = visible_arguments(tool, arguments)
    if shown is None:
        return CallRequestRecord(id, call.name, call.args, call.id)
    try:
        await session.pipeline.vault.keep(session.id, secret_id(id, GIVEN), arguments)
    except BadSecretKey as error:
        log.error("arguments of call %s cannot be kept: %s", id, error)
    return CallRequestRecord(id, call.name, encode(shown).decode(), call.id, secret=True)


async def given(session: Session, note: CallNote) -> str:
    """The arguments of such a call as its model gave them; a mask, which is no arguments, where they are lost."""
    kept: bytes | None = None
    try:
        kept = await session.pipeline.vault.kept(session.id, secret_id(note.id, GIVEN))
    except SealedValue as error:
        log.error("arguments of call %s cannot be read: %s", note.id, error)
    return (kept or MASK.encode()).decode()


def visible_arguments(tool: Tool | None, arguments: bytes) -> Any:
    """The arguments of a model as anybody may see them; None where there is nothing to hide."""
    topic, problems = "", list[ArgumentProblem]()
    if tool is not None and tool.hidden is not None:
        arguments, topic = undressed(tool, arguments, "")
        try:
            tool.parse(arguments)
        except BadArguments as error:
            problems = error.problems
        except Exception:  # noqa: BLE001 - a type of the tool may raise whatever it likes; the call itself will tell
            problems = [ArgumentProblem("", "value", "")]
    shown, texts = hidden(tool, arguments, (), problems)
    if shown == MASK:
        return {}
    return {"topic": without(texts, topic), **shown} if topic and isinstance(shown, dict) else shown

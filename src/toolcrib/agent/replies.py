"""What a model says, taken in piece by piece: told as it comes, asked for again where that can help."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib._call.request import hidden, undressed
from toolcrib.agent.attachments import without_files
from toolcrib.agent.definition import Agent
from toolcrib.agent.models import (
    NOTHING,
    RETRIED,
    CompletionRequest,
    Finish,
    Model,
    ModelCall,
    ModelError,
    ProviderData,
    Reasoning,
    Text,
    Usage,
)
from toolcrib.events import ReasoningStreamed, TextStreamed
from toolcrib.schema import BadArguments
from toolcrib.schema.problems import ArgumentProblem
from toolcrib.schema.redaction import MASK, without
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib.agent.conversation import AgentRun
    from toolcrib.agent.run_log import RunLog

JOIN_S = 0.05
RETRIES = 2
BACKOFF_S = 0.5
PATIENCE_S = 60.0
"""A provider that wants to be left alone for longer is not waited for."""

UNREADABLE = ("invalid_arguments", "too_large")
"""The codes of errors that a file may be the reason of."""

REFUSED = "the provider did not accept it"
"""Why a placeholder stands for a file in a request that was refused with it."""

log = logging.getLogger("toolcrib.agent")

Streamed = TextStreamed | ReasoningStreamed


@dataclass(slots=True)
class ModelReply:
    """One whole reply."""

    text: str = ""
    calls: list[ModelCall] = field(default_factory=list)
    usage: Usage = NOTHING
    finish: str = ""
    kept: dict[str, Any] | None = None


class ReplyStream:
    """Tells readers what a model says while it speaks; pieces that come close together are one event."""

    def __init__(self, log: RunLog, run: AgentRun, maker: LiveCall | None = None, *, silent: bool = False) -> None:
        self._log = log
        self._run = run
        self._maker = maker
        self._turn = run.turn
        self._silent = silent
        self._pieces: list[tuple[type[Streamed], str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.told = False
        self.asked = 0

    def add(self, kind: type[Streamed], piece: str) -> None:
        """The next piece; a model whose call is another process's is not listened to any more."""
        if self._maker is not None and self._maker.fenced:
            self._maker.heed()
        if self._silent or not piece:
            return
        if self._pieces and self._pieces[-1][0] == kind:
            self._pieces[-1] = (kind, self._pieces[-1][1] + piece)
        else:
            self._pieces.append((kind, piece))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(JOIN_S, self._flush)

    def _flush(self) -> None:
        for data in self.rest():
            self.told = True
            self._log.put(data, self._run, self._maker)

    def rest(self) -> list[Streamed]:
        """What was not told yet, as events."""
        self.hush()
        pieces, self._pieces = self._pieces, []
        return [kind(self._run.id, self._turn, piece) for kind, piece in pieces]

    def hush(self) -> None:
        """Nothing more is told by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def replied(stream: ReplyStream, model: Model, request: CompletionRequest, agent: Agent) -> ModelReply:
    """The reply of a model; one that could not be had is tried again, and an empty one asked for once more.

    A request with files that is refused is made once more without them: one file that a provider does not read would
    else end every later turn of the conversation too.

    Raises:
        ModelError: it cannot be had.
    """
    retries = agent.model_settings.get("retries", RETRIES)
    empty = False
    while True:
        stream.asked += 1
        try:
            reply = await _whole(stream, model, request)
        except ModelError as error:
            stream.hush()
            bare = without_files(request, REFUSED) if error.code in UNREADABLE and not stream.told else None
            if bare is not None:
                log.warning("agent %s: asked again without files: %s", agent.name, error.message)
                request = bare
                continue
            after = error.retry_after or 0.0
            if error.code not in RETRIED or retries <= 0 or stream.told or after > PATIENCE_S:
                raise
            retries -= 1
            stream.rest()
            backoff: float = agent.model_settings.get("backoff_s", BACKOFF_S) * 2 ** (stream.asked - 1)
            await asyncio.sleep(max(backoff, after))
            continue
        except BaseException:
            stream.hush()
            raise
        if reply.text or reply.calls or empty:
            return reply
        empty = True


async def _whole(stream: ReplyStream, model: Model, request: CompletionRequest) -> ModelReply:
    reply = ModelReply()
    texts: list[str] = []
    response: Any = model.respond(request)
    async with aclosing(response if hasattr(response, "aclose") else _closable(response)) as deltas:
        async for delta in deltas:
            match delta:
                case Text(piece):
                    texts.append(piece)
                    stream.add(TextStreamed, piece)
                case Reasoning(piece):
                    stream.add(ReasoningStreamed, piece)
                case ModelCall():
                    reply.calls.append(delta)
                case Usage():
                    reply.usage += delta
                case Finish(reason):
                    reply.finish = reason
                case ProviderData(data):
                    reply.kept = dict(data)
    reply.text = "".join(texts)
    reply.finish = reply.finish or ("calls" if reply.calls else "stop")
    return reply


async def _closable(deltas: Any) -> Any:
    """An iterator that is no generator, as one that can be closed."""
    async for delta in deltas:
        yield delta


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

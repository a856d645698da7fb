"""What a model says, taken in piece by piece: told as it comes, asked for again where that can help."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.agent.attachments import without_files
from toolcrib.agent.definition import Agent
from toolcrib.agent.models import (
    NOTHING,
    RETRIED,
    CompletionRequest,
    Finish,
    MediaIntake,
    Model,
    ModelCall,
    ModelError,
    ProviderData,
    Reasoning,
    Text,
    Usage,
)
from toolcrib.events import ReasoningStreamed, TextStreamed

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


@dataclass(slots=True)
class ReplyStream:
    """Tells readers what a model says while it speaks; pieces that come close together are one event.

    `request` is what the model was asked, of events up to `seq`; `files` is what it takes of files, where these
    had any, `bare` tells that it refused them, and `at` when it was asked again.
    """

    _log: RunLog
    _run: AgentRun
    _turn: int
    seq: int
    _maker: LiveCall | None = None
    _silent: bool = False
    _pieces: list[tuple[type[Streamed], str]] = field(default_factory=list)
    _timer: asyncio.TimerHandle | None = None
    streamed: bool = False
    requests: int = 0
    request: CompletionRequest | None = None
    files: MediaIntake | None = None
    at: float | None = None
    bare: bool = False

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
            self.streamed = True
            self._log.put(data, self._run, self._maker)

    def rest(self) -> list[Streamed]:
        """What was not told yet, as events."""
        self.hush()
        pieces, self._pieces = self._pieces, []
        return [kind(self._run.id, self._turn, piece) for kind, piece in pieces]

    def now(self) -> float:
        """The time by the clock of the log."""
        return self._log.clock.now()

    def hush(self) -> None:
        """Nothing more is told by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def replied(stream: ReplyStream, model: Model, request: CompletionRequest, agent: Agent) -> ModelReply:
    """The reply of a model; one that could not be had is tried again, and an empty one asked for once more.

    Raises:
        ModelError: it cannot be had.
    """
    retries = agent.model_settings.get("retries", RETRIES)
    empty = False
    while True:
        stream.requests, stream.request = stream.requests + 1, request
        try:
            reply = await _whole(stream, model, request)
        except ModelError as error:
            stream.hush()
            request, retries = await _retried(stream, request, agent, error, retries)
            stream.at = stream.now()
        except BaseException:
            stream.hush()
            raise
        else:
            if reply.text or reply.calls or empty:
                return reply
            empty, stream.at = True, stream.now()


async def _retried(
    stream: ReplyStream, request: CompletionRequest, agent: Agent, error: ModelError, retries: int
) -> tuple[CompletionRequest, int]:
    """Returns when a model that could not reply may be asked again, with what it is asked then and how often still.

    A request with files that is refused is made once more without them: one file that a provider does not read would
    else end every later turn of the conversation too.

    Raises:
        ModelError: it may not.
    """
    bare = without_files(request, REFUSED) if error.code in UNREADABLE and not stream.streamed else None
    if bare is not None:
        log.warning("agent %s: asked again without files: %s", agent.name, error.message)
        stream.bare = True
        return bare, retries
    after = error.retry_after or 0.0
    if error.code not in RETRIED or retries <= 0 or stream.streamed or after > PATIENCE_S:
        raise error
    stream.rest()
    backoff: float = agent.model_settings.get("backoff_s", BACKOFF_S) * 2 ** (stream.requests - 1)
    await asyncio.sleep(max(backoff, after))
    return request, retries - 1


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

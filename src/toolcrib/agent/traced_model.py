"""`TracedModel`: a model with a span `chat MODEL` around each request, and the numbers of it.

What was said is told only where that is switched on, in the form that the semantic conventions have for messages.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from toolcrib.agent.models import (
    NOTHING,
    CompletionRequest,
    Delta,
    Finish,
    MediaIntake,
    Message,
    Model,
    ModelCall,
    ModelError,
    Text,
    Usage,
)
from toolcrib.store.codec import decode, encode
from toolcrib.telemetry import Telemetry, failed

PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
"""The names that the conventions have for providers which are called otherwise here."""

OWN = "toolcrib"
"""The provider of a model that is an object of the program."""

SETTINGS = ("temperature", "top_p", "top_k", "max_tokens", "seed", "frequency_penalty", "presence_penalty")
FINISH = {"calls": "tool_calls"}
MEASURED = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")


def provider_of(model: Any) -> str:
    """Return the provider of a model by its name, as the conventions call it."""
    provider, colon, _ = model.partition(":") if isinstance(model, str) else ("", "", "")
    return PROVIDERS.get(provider, provider) if colon else OWN


class TracedModel(Model):
    """A model with a span around each request."""

    def __init__(self, model: Model, telemetry: Telemetry) -> None:
        self._model = model
        self._telemetry = telemetry

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        """The reply of the model, piece by piece."""
        reply = _TracedReply(self._telemetry, request, _facts(self._model.name or request.model, request))
        deltas: Any = self._model.respond(request)
        try:
            while (delta := await reply.next(deltas)) is not None:
                yield delta
        except ModelError as error:
            reply.error = error.code
            raise
        except Exception as error:
            reply.error = type(error).__name__
            raise
        finally:
            if hasattr(deltas, "aclose"):
                await deltas.aclose()
            reply.end()

    def problems(self, settings: Mapping[str, Any]) -> Iterable[tuple[str | None, str, str | None]]:
        """What can be said against its name or a setting."""
        return self._model.problems(settings)

    async def window(self, settings: Mapping[str, Any]) -> int | None:
        """How many tokens it takes in one request."""
        return await self._model.window(settings)

    async def media(self, settings: Mapping[str, Any]) -> MediaIntake:
        """The files that it takes."""
        return await self._model.media(settings)


class _TracedReply:
    """One reply, and its span."""

    def __init__(self, telemetry: Telemetry, request: CompletionRequest, facts: dict[str, Any]) -> None:
        from opentelemetry.trace import SpanKind

        self.error: str | None = None
        self._telemetry = telemetry
        self._measured = {name: facts[name] for name in MEASURED if name in facts}
        content = _content(request) if telemetry.content else {}
        name = f"chat {facts['gen_ai.request.model']}" if "gen_ai.request.model" in facts else "chat"
        self._span = telemetry.tracer.start_span(name, kind=SpanKind.CLIENT, attributes={**facts, **content})
        self._begun = time.perf_counter()
        self._first: float | None = None
        self._usage, self._finish = NOTHING, ""
        self._texts: list[str] = []
        self._calls: list[ModelCall] = []

    def _within(self) -> AbstractContextManager[Any]:
        from opentelemetry.trace import use_span

        return use_span(self._span, record_exception=False, set_status_on_exception=False)

    async def next(self, deltas: Any) -> Delta | None:
        """The next piece. The span is the current one while the model works, and not while its reader does."""
        with self._within():
            delta: Delta | None = await anext(deltas, None)
        if delta is not None and self._first is None:
            self._first = time.perf_counter() - self._begun
        match delta:
            case Text(piece) if self._telemetry.content:
                self._texts.append(piece)
            case ModelCall():
                self._calls.append(delta)
            case Usage():
                self._usage += delta
            case Finish(reason):
                self._finish = reason
        return delta

    def end(self) -> None:
        """Ends the span, and records the numbers with it as their example."""
        span, usage = self._span, self._usage
        finish = self._finish or ("calls" if self._calls else "stop")
        if self.error is None:
            span.set_attribute("gen_ai.response.finish_reasons", [FINISH.get(finish, finish)])
        else:
            failed(span, self.error)
        if usage != NOTHING:
            span.set_attribute("gen_ai.usage.input_tokens", usage.input)
            span.set_attribute("gen_ai.usage.output_tokens", usage.output)
            span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached)
        if usage.cost is not None:
            span.set_attribute("gen_ai.usage.cost", usage.cost)
        if self._first is not None:
            span.set_attribute("gen_ai.response.time_to_first_chunk", self._first)
        if self._telemetry.content and self.error is None:
            span.set_attribute("gen_ai.output.messages", encode([self._said(finish)]).decode())
        with self._within():
            self._measure()
        span.end()

    def _measure(self) -> None:
        numbers, usage = self._telemetry.instruments, self._usage
        error = {} if self.error is None else {"error.type": self.error}
        numbers.model_duration.record(time.perf_counter() - self._begun, {**self._measured, **error})
        if self._first is not None:
            numbers.first_chunk.record(self._first, self._measured)
        for kind, count in (("input", usage.input), ("output", usage.output)) if usage != NOTHING else ():
            numbers.tokens.record(count, {**self._measured, "gen_ai.token.type": kind})

    def _said(self, finish: str) -> dict[str, Any]:
        message = Message("assistant", "".join(self._texts), tuple(self._calls))
        return {**_message(message), "finish_reason": FINISH.get(finish, finish)}


def _facts(model: Any, request: CompletionRequest) -> dict[str, Any]:
    settings = {name: value for name in SETTINGS if (value := request.settings.get(name)) is not None}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_of(model),
        **({"gen_ai.request.model": model.rpartition(":")[2]} if isinstance(model, str) else {}),
        **{f"gen_ai.request.{name}": value for name, value in settings.items() if isinstance(value, int | float)},
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": request.session,
        "session.id": request.session,
        "gen_ai.agent.name": request.agent,
        "toolcrib.run.id": request.run,
        "toolcrib.run.turn": request.turn,
    }


def _content(request: CompletionRequest) -> dict[str, Any]:
    """What was said, in the form that the conventions have for it."""
    system = [{"type": "text", "content": one.text} for one in request.messages if one.role == "system"]
    tools = [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.schema}
        for tool in request.tools
    ]
    return {
        "gen_ai.system_instructions": encode(system).decode(),
        "gen_ai.input.messages": encode([_message(one) for one in request.messages if one.role != "system"]).decode(),
        "gen_ai.tool.definitions": encode(tools).decode(),
    }


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        parts: list[dict[str, Any]] = [{"type": "tool_call_response", "id": message.call, "response": message.text}]
    else:
        parts = [{"type": "text", "content": message.text}] if message.text else []
    calls = [
        {"type": "tool_call", "id": one.id, "name": one.name, "arguments": _read(one.args)} for one in message.calls
    ]
    return {"role": message.role, "parts": [*parts, *calls]}


def _read(arguments: str) -> Any:
    try:
        return decode(arguments.encode())
    except ValueError:
        return arguments

"""Our messages, tools and deltas as `pydantic_ai` says them, and back.

The same history makes the same bytes each time, so that providers find it in their caches.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from toolcrib.agent.models import CompletionRequest, Delta, Message, ModelCall, Reasoning, Text, Usage
from toolcrib.agent.transcript import CONTINUE

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart
    from pydantic_ai.models import Model, StreamedResponse

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ABOUT = ("provider_name", "provider_url", "canonical_system")
_DETAILS = ("id", "provider_name", "provider_details")


def legal(name: str) -> str:
    """A name that every provider takes: letters, digits, `_` and `-`, 64 at the most, no digit in front."""
    if _LEGAL.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"_{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:54]}_{digest}"


class ToolNames:
    """The names of tools as a provider is told them, and what each means."""

    def __init__(self, names: Iterable[str]) -> None:
        self._meant = {legal(name): name for name in names}

    def meant(self, name: str) -> str:
        """The tool that a model means."""
        return self._meant.get(name, name)


# To the provider


def stream(
    model: Model, request: CompletionRequest, settings: Mapping[str, Any], names: ToolNames
) -> AbstractAsyncContextManager[StreamedResponse]:
    """Sends a request; the reply as it comes."""
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    system = "\n\n".join(one.text for one in request.messages if one.role == "system" and one.text)
    tools = [
        ToolDefinition(name=legal(tool.name), parameters_json_schema=dict(tool.schema), description=tool.description)
        for tool in request.tools
    ]
    parameters = ModelRequestParameters(
        function_tools=tools, instruction_parts=[InstructionPart(content=system)] if system else []
    )
    sent = messages(request.messages, model.system)
    return model_request_stream(model, sent, model_settings=dict(settings), model_request_parameters=parameters)  # type: ignore[arg-type]


def messages(conversation: Iterable[Message], system: str) -> list[ModelMessage]:
    """What was said, as requests and replies in turn; the first is a request."""
    from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart

    made: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = []
    tools: dict[str, str] = {}
    for message in conversation:
        if message.role == "user":
            waiting.append(UserPromptPart(_content(message)))
        elif message.role == "tool":
            id = message.call or ""
            waiting.append(ToolReturnPart(legal(tools.get(id, id)), _content(message), legal(id)))
        elif message.role == "assistant":
            if waiting or not made:
                made.append(ModelRequest(waiting or [UserPromptPart(CONTINUE)]))
                waiting = []
            tools.update({call.id: call.name for call in message.calls})
            made.append(_reply(message, system))
    if waiting or not made:
        made.append(ModelRequest(waiting or [UserPromptPart(CONTINUE)]))
    return made


def _content(message: Message) -> str | list[Any]:
    """What a user said or a tool returned: a text, or texts and files."""
    if not message.parts:
        return message.text
    from pydantic_ai.messages import BinaryContent

    return [
        part if isinstance(part, str) else BinaryContent(part.content(), media_type=part.mime_type)
        for part in message.parts
    ]


def _reply(message: Message, system: str) -> ModelResponse:
    """A reply of before. What its model left with it goes along, if it is of the same provider and fits."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    left = message.kept
    if left is not None and left.get("provider_name") == system:
        parts = _restored(left["parts"], message)
        if parts is not None:
            about: dict[str, Any] = {name: left.get(name) for name in _ABOUT}
            return ModelResponse(parts, **about)
    parts = [TextPart(message.text)] if message.text else []
    parts += [ToolCallPart(legal(call.name), call.args, legal(call.id)) for call in message.calls]
    return ModelResponse(parts)


def _restored(left: Sequence[Mapping[str, Any]], message: Message) -> list[ModelResponsePart] | None:
    """The parts of a reply as they were; None where the message is not the one that they were left with."""
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    calls = iter(message.calls)
    parts: list[ModelResponsePart] = []
    at = 0
    for one in left:
        details: dict[str, Any] = {name: one.get(name) for name in _DETAILS}
        if one["kind"] == "thinking":
            parts.append(ThinkingPart(one["content"], signature=one.get("signature"), **details))
        elif one["kind"] == "text":
            parts.append(TextPart(message.text[at : at + one["length"]], **details))
            at += one["length"]
        elif (call := next(calls, None)) is not None:
            parts.append(ToolCallPart(legal(call.name), call.args, legal(call.id), **details))
    fits = at == len(message.text) and len(message.calls) == sum(one["kind"] == "call" for one in left)
    return parts if fits else None


# From the provider


def told(event: Any) -> Delta | None:
    """The piece of text or reasoning that an event of the stream brings."""
    kind = event.event_kind
    if kind == "part_start":
        part, piece = event.part.part_kind, getattr(event.part, "content", None)
    elif kind == "part_delta":
        part, piece = event.delta.part_delta_kind, getattr(event.delta, "content_delta", None)
    else:
        return None
    if not piece or part not in ("text", "thinking"):
        return None
    return Text(piece) if part == "text" else Reasoning(piece)


def calls(response: ModelResponse, names: ToolNames) -> list[ModelCall]:
    """The calls of a reply, the text of their arguments as it came."""
    calls_made = [
        ModelCall(part.tool_call_id, names.meant(part.tool_name), _text(part.args))
        for part in response.parts
        if part.part_kind == "tool-call"
    ]
    if calls_made and response.finish_reason == "length" and not calls_made[-1].args:
        calls_made[-1] = calls_made[-1]._replace(args="{")  # nothing at all would mean that it takes no arguments
    return calls_made


def finish(response: ModelResponse) -> str | None:
    """Why a reply ended, in the provider's own word where nobody knows it; None where its end did not come."""
    if response.state != "complete":
        return None
    return response.finish_reason or (response.provider_details or {}).get("finish_reason")


def _text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False) if args else ""


def usage(response: ModelResponse) -> Usage:
    """What a reply took, and its price where there is a list of prices that knows it."""
    used = response.usage
    return Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens, _cost(response))


def _cost(response: ModelResponse) -> float | None:
    if response.usage.cost is not None:
        return float(response.usage.cost)
    try:
        return round(float(response.cost().total_price), 9)
    except (LookupError, ValueError, AssertionError):
        return None


def kept(response: ModelResponse) -> dict[str, Any] | None:
    """What must go back with a reply in later requests: reasoning and what is signed. Mostly nothing."""
    parts = [_left(part) for part in response.parts]
    if None in parts or not any(one and (one["kind"] == "thinking" or "provider_details" in one) for one in parts):
        return None
    about = {name: getattr(response, name) for name in _ABOUT}
    return {**{name: value for name, value in about.items() if value is not None}, "parts": parts}


def _left(part: Any) -> dict[str, Any] | None:
    details = {name: value for name in _DETAILS if (value := getattr(part, name, None)) is not None}
    if part.part_kind == "thinking":
        signed = {} if part.signature is None else {"signature": part.signature}
        return {"kind": "thinking", "content": part.content, **signed, **details}
    if part.part_kind == "text":
        return {"kind": "text", "length": len(part.content), **details}
    if part.part_kind == "tool-call":
        return {"kind": "call", **details}
    return None

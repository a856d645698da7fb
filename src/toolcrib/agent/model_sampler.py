"""Turns of a model for MCP servers that ask for one by `sampling/createMessage`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.agent.models import CompletionRequest, Finish, Message, Model, ModelError, Text
from toolcrib.context import Context
from toolcrib.errors import ToolFailure

AGENT = "sampling"
"""The agent that a model is told to speak for."""


class ModelSampler:
    """Has a model take the turns that a server asks for: `Mcp(..., sampler=Sampler(ModelSampler(find, name)))`.

    `find` returns the model when it is needed first; `name` is what the server is told of it.
    """

    def __init__(self, find: Callable[[], Model], name: str) -> None:
        self._find = find
        self._name = name

    async def __call__(self, ctx: Context, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take one turn; parameters and result are those of `sampling/createMessage`.

        Raises:
            ToolFailure: the request holds more than text, or the model gave no reply.
        """
        if params.get("tools"):
            raise ToolFailure("failed", "The model that takes turns for servers is offered no tools")
        wanted = {"max_tokens": "maxTokens", "temperature": "temperature", "stop_sequences": "stopSequences"}
        settings = {key: params[name] for key, name in wanted.items() if params.get(name) is not None}
        request = CompletionRequest(AGENT, self._name, _messages(params), settings=settings, session=ctx.session)
        texts, reason = [], "stop"
        try:
            async for delta in self._find().respond(request):
                if isinstance(delta, Text):
                    texts.append(delta.delta)
                elif isinstance(delta, Finish):
                    reason = delta.reason
        except ModelError as error:
            raise ToolFailure(error.code, f"The model gave no reply: {error.message}") from None
        content = {"type": "text", "text": "".join(texts)}
        ended = "maxTokens" if reason == "length" else "endTurn"
        return {"role": "assistant", "content": content, "model": self._name, "stopReason": ended}


def _messages(params: Mapping[str, Any]) -> tuple[Message, ...]:
    listed = params.get("messages")
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise ToolFailure("failed", "The server asked for a turn without messages")
    prompt = params.get("systemPrompt")
    first = [Message("system", prompt)] if isinstance(prompt, str) and prompt else []
    turns = [Message("assistant" if one.get("role") == "assistant" else "user", _text(one)) for one in listed]
    return (*first, *turns)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [one.get("text") if isinstance(one, Mapping) and one.get("type") == "text" else None for one in blocks]
    if any(not isinstance(text, str) for text in texts):
        raise ToolFailure("failed", "The server asked a model about more than text")
    return "\n".join(str(text) for text in texts)

"""What a tool may ask of the client that called it over MCP: a form for its user, its model, its roots.

Each is a question in the log like any other. A client of the newest revision gets all of them at once in an
`input_required` result, an older one as requests of the server. Nobody but a client can answer for its model or its
roots, so a call from a client that can do nothing of what was asked ends with an error that says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.context import Context
from toolcrib.tool import canonical

Wish = Mapping[str, Any]
"""A request to a client: `method` and `params`."""


def elicit(message: str, schema: Mapping[str, Any]) -> Wish:
    """A form for the user of the client; `schema` is an object of plain fields."""
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": dict(schema)}}


def sample(messages: str | Sequence[Mapping[str, Any]], max_tokens: int, **more: Any) -> Wish:
    """A turn of the client's model; a text is what its user says."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
    return {"method": "sampling/createMessage", "params": {"messages": list(messages), "maxTokens": max_tokens, **more}}


def roots() -> Wish:
    """The folders that the client works in."""
    return {"method": "roots/list", "params": {}}


async def ask_client(ctx: Context, **wishes: Wish) -> dict[str, Any]:
    """Asks for several things at once, and gives the answers under the same names, in the words of the protocol.

    What the client said it cannot do is not asked, and is missing from the answers.
    """
    requests = {name: dict(wish) for name, wish in wishes.items()}
    prompt = f"Asked of the client: {', '.join(requests)}"
    key = "mcp:" + hashlib.sha256(canonical(requests)).hexdigest()[:24]
    answer = await ctx.ask(prompt, kind="external", data={"mcp": requests}, key=key)
    data: dict[str, Any] = answer.value or {}
    return data

"""The agents of the order desk, and a model for them that needs no key: it goes by a few words and knows no others."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

from toolcrib.agent import Agent, Agents, CompletionRequest, Message, Model
from toolcrib.agent.models import Delta, Finish, ModelCall, Text, Usage

ORDER = re.compile(r"\b([A-Za-z])-?(\d+)\b")
NUMBER = re.compile(r"(?:#|\border\b(?: number)?) ?\d", re.IGNORECASE)
"""An order by its number alone, which this desk does not know."""

PAUSE_S = 0.03
TRIES = 3
HELP = "I know the orders A-7, A-8 and B-1: ask what was bought, where a parcel is, for money back, or for an export."


class ClerkModel(Model):
    """A model of rules."""

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        """A call where the last message asks for one, else words."""
        last = request.messages[-1]
        call = _again(request) if last.role == "tool" else _requested_call(request)
        if call is not None:
            name, args = call
            yield ModelCall(f"{request.run}-{request.turn}", name, json.dumps(args))
        else:
            for word in re.findall(r"\S+\s*", _words(request, last)):
                yield Text(word)
                await asyncio.sleep(PAUSE_S)
        yield Usage(sum(len(message.text) for message in request.messages) // 4, 20)
        yield Finish("stop" if call is None else "calls")


def _requested_call(request: CompletionRequest) -> tuple[str, dict[str, Any]] | None:
    """What the user wants done; the order may have been named earlier."""
    users = [
        message.text for message in request.messages if message.role == "user" and "handed over" not in message.text
    ]
    text = users[-1].lower() if users else ""
    if "export" in text:
        return "export", {"rows": 8}
    named = next(filter(None, map(_orders, reversed(users))), [])
    if len(named) != 1 or (NUMBER.search(text) and not _orders(text)):
        return None
    (order,) = named
    if re.search(r"money|refund|back", text):
        if request.agent == "desk":
            return "transfer_to_agent", {"agent_name": "billing", "reason": f"money back for {order}"}
        cents = re.search(r"\b(\d+) ?(?:cents|c)\b", text)
        return "refund", {"order": order, "cents": int(cents[1]) if cents else 500}
    for words, tool in (("where|track|parcel", "track"), ("address|move", "readdress"), ("label|print", "print_label")):
        if re.search(words, text):
            return tool, {"order": order}
    return ("look_up", {"order": order}) if _orders(text) else None


def _orders(text: str) -> list[str]:
    """The orders that a message names; `a7` is A-7."""
    return list(dict.fromkeys(f"{letter.upper()}-{number}" for letter, number in ORDER.findall(text)))


def _again(request: CompletionRequest) -> tuple[str, dict[str, Any]] | None:
    """The same call, where it may go well this time."""
    since = _since_user(request.messages)
    calls = [call for message in since for call in message.calls]
    if calls and "line dropped" in since[-1].text and len(calls) < TRIES:
        return calls[-1].name, json.loads(calls[-1].args)
    return None


def _since_user(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    last = max((number for number, message in enumerate(messages) if message.role == "user"), default=0)
    return messages[last + 1 :]


def _words(request: CompletionRequest, message: Message) -> str:
    if message.role != "tool":
        named = _orders(message.text)
        return f"One order at a time, please: {' or '.join(named)}?" if len(named) > 1 else HELP
    return f"Here is what I found: {message.text}"


def agents() -> Agents:
    """The desk, and billing for whatever is about money."""
    desk = Agent(
        name="desk",
        description="Takes orders and questions about them.",
        instructions="You stand at the order desk. Money is for billing.",
        sub_agents=["billing"],
        topics=False,
    )
    billing = Agent(
        name="billing",
        description="Gives money back.",
        instructions="You give money back, after a person has agreed.",
        topics=False,
    )
    return Agents([desk, billing], model=ClerkModel())

"""How much a reader of one message to an agent has to cross. The limits only go down."""

import asyncio
import itertools
import sys
from types import FrameType
from typing import Any

from tests._call.test_reading_path import SOURCE, Place, Walk, lines_of, read
from toolcrib import Crib
from toolcrib.agent import Agent, Agents, ScriptedModel

OWN = Walk(9, 802, 129)
"""What a message with one tool call crosses in `agent`: the model itself is not counted."""

WHOLE = Walk(20, 1485, 279)
"""What it crosses with the call that it makes, in memory."""

TURNS: list[dict[str, Any]] = [{"calls": [{"tool": "shop.read", "args": {"item": "x"}}]}, {"text": "It is there."}]


async def walked() -> list[Place]:
    """The functions of the package that one warm message enters, in order: file and first line."""
    entered: list[Place] = []
    model = str(SOURCE / "agent" / "scripted_model.py")

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(SOURCE)) and name != model:
            entered.append((name, frame.f_code.co_firstlineno))

    agents = Agents([Agent(name="clerk", instructions="You help.")], model=ScriptedModel({"clerk": TURNS * 2}))
    async with Crib([read], agents=agents) as crib:
        session = await crib.open("s", owner="ada", namespaces=["shop"])
        await session.send("Is it there?")
        sys.settrace(trace)
        try:
            outcome = await session.send("Is it there?")
        finally:
            sys.settrace(None)
    assert outcome.answer == "It is there."
    return entered


def crossed(entered: list[Place]) -> Walk:
    functions = set(entered)
    jumps = sum(one[0] != two[0] for one, two in itertools.pairwise(entered))
    return Walk(len({place[0] for place in functions}), sum(map(lines_of, functions)), jumps)


def test_a_reader_of_one_message_crosses_no_more_than_so_much() -> None:
    entered = asyncio.run(walked())
    whole = crossed(entered)
    own = crossed([place for place in entered if place[0].startswith(str(SOURCE / "agent"))])
    assert own.files > 3
    assert all(count <= limit for count, limit in zip(own, OWN, strict=True)), own
    assert all(count <= limit for count, limit in zip(whole, WHOLE, strict=True)), whole

"""A large refund waits for two people of finance, over a restart in between."""

import asyncio
from pathlib import Path

from toolcrib import Refused
from toolcrib.cli import load

HERE = Path(__file__).parent
STORE = "sqlite:///desk.db"


async def ask() -> str:
    async with load(HERE / "crib.yaml", store=STORE) as crib:
        session = await crib.open("monday", owner="ada", namespaces=["desk"])
        print("A-7 cost", (await session.call("desk.look_up", {"order": "A-7"})).data)
        print((await session.call("desk.look_up", {"order": "Z-9"})).text)
        call = await session.submit("desk.refund", {"order": "A-7", "cents": 12_000})
        async for event in session.events(call=call.id):
            if event.kind == "waiting":
                print(event.data.question.prompt)
                break
        return call.id


async def answer(call: str) -> None:
    async with load(HERE / "crib.yaml", store=STORE) as crib:
        session = await crib.open("monday", owner="ada", namespaces=["desk"])
        [question] = [one for one in await session.questions() if one.call == call]
        for person in ("ada", "ann", "bob"):
            try:
                await session.answer(question.id, "accept", actor=person)
                print(person, "agreed")
            except Refused as refused:
                print(f"{person}: {refused.message}")
        print((await session.result(call)).data)


waiting = asyncio.run(ask())
print("-- the process ends here, and another one begins --")
asyncio.run(answer(waiting))

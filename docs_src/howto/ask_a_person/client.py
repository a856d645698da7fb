import asyncio

from toolcrib import Crib, Tool

LOCATE = {
    "name": "locate",
    "description": "Tell where the user is.",
    "input_schema": {"type": "object", "properties": {"precise": {"type": "boolean"}}},
    "output_schema": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
}
RING = Tool(name="ring", description="Let the telephone of the user ring.")


async def main() -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada", namespaces=["default"])
        await session.offer([LOCATE, RING])
        print([tool.id for tool in session.tools()])

        await session.submit("client.locate", {"precise": False})
        await session.submit("client.ring")
        locate, ring = await session.questions()
        print(locate.kind, locate.tool, dict(locate.arguments))

        await session.answer(locate.id, "accept", {"city": "Bern"})
        print((await session.result(locate.call)).data)
        await session.answer(ring.id, "fail", reason="The telephone is off")
        print((await session.result(ring.call)).text)


asyncio.run(main())

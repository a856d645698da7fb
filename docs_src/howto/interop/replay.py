import asyncio

from toolcrib import Context, Crib, tool
from toolcrib.interop import LogReader, aios, awaken, distri


@tool
async def count(ctx: Context, to: int) -> int:
    """Count up to a number."""
    ctx.progress("counting", 0.5)
    return to


async def main() -> None:
    async with Crib([count]) as crib:
        session = await crib.open(owner="ada")
        await session.call("count", {"to": 3})
        events = [event async for event in session.events(follow=False)]

        for told in distri.replay(events):
            print(distri.dumps("AgentEventType", told))
        print(awaken.call_statuses(events))

        reading = LogReader(session.id)
        for event in events:
            for envelope in aios.envelopes(event, reading):
                print(aios.dumps("EventEnvelope", envelope))


asyncio.run(main())

import asyncio

from toolcrib import Context, Crib, Result, Schedule, tool


@tool(namespace="shop")
async def remind(order: str) -> str:
    """Remind somebody of an order."""
    return f"Order {order} is still open"


@tool(namespace="shop")
async def place(ctx: Context, order: str) -> Result:
    """Place an order, and remind of it later."""
    later = Schedule("shop.remind", {"order": order}, after=0.1)
    return Result({"order": order}, message="Placed", schedules=[later])


async def main() -> None:
    async with Crib([remind, place]) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["shop"])

        placed = await session.call("place", {"order": "A-7"})
        (reminder,) = placed.metadata["scheduled"]
        print((await session.result(reminder)).data)

        daily = await session.schedule(
            "remind", {"order": "A-8"}, cron="0 9 * * 1-5", timezone="Europe/Berlin", missed="skip", key="daily"
        )
        print([(one.tool, one.cron) for one in await crib.schedules(owner="ada")])
        print(await session.cancel_schedule(daily.id))


asyncio.run(main())

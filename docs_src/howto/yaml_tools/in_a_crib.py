import asyncio
from pathlib import Path

from toolcrib import Crib

FILE = Path(__file__).with_name("calendar.yaml")
POLICY = {"grants": {"allow": ["exec:cmd:python3"]}}


async def main() -> None:
    async with Crib([FILE], policy=POLICY) as crib:
        session = await crib.open(owner="ada", namespaces=["calendar"])
        print((await session.call("calendar.month", {"year": 2026, "month": 2})).data)
        print((await session.call("calendar.month", {"year": 2026, "month": "March"})).text)
        print((await session.call("calendar.month", {"year": 2026, "month": 13})).text)


asyncio.run(main())

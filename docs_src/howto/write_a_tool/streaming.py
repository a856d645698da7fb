import asyncio
from collections.abc import AsyncIterator
from typing import Any

from toolcrib import Crib, tool


@tool(namespace="files", read_only=True, timeout=300, idle_timeout=30)
async def index_files(count: int) -> AsyncIterator[dict[str, Any]]:
    """Index files and tell how far it is."""
    yield {"status": "started", "files": count}
    for done in range(1, count + 1):
        await asyncio.sleep(0.01)
        yield {"status": "progress", "percent": 100 * done // count}
    yield {"status": "completed", "files": count}


async def main() -> None:
    async with Crib([index_files]) as crib:
        session = await crib.open(owner="ada", namespaces=["files"])
        call = await session.submit("index_files", {"count": 2})
        async for event in session.events(call=call.id):
            if event.kind == "output":
                print(event.data.value)
        print("result:", (await session.result(call.id)).data)


asyncio.run(main())

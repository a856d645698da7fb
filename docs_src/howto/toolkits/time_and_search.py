import asyncio
import tempfile
from pathlib import Path

from toolcrib import Crib
from toolcrib.toolkits import search, time


async def main(folder: str) -> None:
    kits = [time.tools(), search.tools(key=None, docs=folder)]  # with a key a model can search the web too
    async with Crib(kits) as crib:
        session = await crib.open(owner="ada", namespaces=["time", "search"])
        given = {"time": "2026-07-01T09:30", "from_timezone": "Europe/Paris", "to_timezone": "Asia/Tokyo"}
        print((await session.call("convert_time", given)).data["to"]["iso"])
        print((await session.call("search_docs", {"query": "minutes"})).text.splitlines()[1])
        print((await session.call("brave_search", {"query": "tools"})).text.splitlines()[0])


with tempfile.TemporaryDirectory() as made:
    Path(made, "limits.md").write_text("# Limits\nA call may take a minute.\n")
    asyncio.run(main(made))

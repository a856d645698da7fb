import asyncio
import tempfile
from pathlib import Path

from toolcrib import Crib
from toolcrib.toolkits import shell


async def main(folder: Path) -> None:
    policy = {"grants": {"allow": ["exec:cmd:sort", "exec:cmd:head", "fs:read:${workspace}/**"]}}
    async with Crib([shell.tools(folder)], workspace=folder, policy=policy) as crib:
        session = await crib.open(owner="ada", namespaces=["shell"])
        result = await session.call("shell", {"command": "sort todo.txt | head -1"})
        print(result.data["stdout"].strip() if result.ok else result.text)
        print((await session.call("shell", {"command": "sort todo.txt; rm todo.txt"})).text)


with tempfile.TemporaryDirectory() as made:
    Path(made, "todo.txt").write_text("milk\nbread\n")
    asyncio.run(main(Path(made)))

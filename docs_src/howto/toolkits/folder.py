import asyncio
import tempfile
from pathlib import Path

from toolcrib import Crib
from toolcrib.toolkits import files


async def main(folder: Path) -> None:
    policy = {"grants": {"allow": ["fs:*:${workspace}/**"]}}
    async with Crib([files.tools(root=folder)], workspace=folder, policy=policy) as crib:
        session = await crib.open(owner="ada", namespaces=["files"])
        read = (await session.call("read_file", {"path": "notes.md"})).data
        change = {"path": "notes.md", "edits": [{"old": "[ ]", "new": "[x]"}], "if_hash": read["hash"]}
        print((await session.call("edit_file", change)).data["diff"])
        print((await session.call("read_file", {"path": "../secret"})).text)


with tempfile.TemporaryDirectory() as made:
    Path(made, "notes.md").write_text("- [ ] call Ada\n")
    asyncio.run(main(Path(made)))

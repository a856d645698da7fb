import asyncio
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import toolcrib
from toolcrib import Crib

SHIPPED = Path(toolcrib.__file__).parent / "definitions" / "shipped"
PLAN = "Buy tea. Make tea.\n"
POLICY = {"grants": {"allow": ["exec:cmd:git", "exec:cmd:python"]}}


def prepare(folder: str) -> None:
    for words in ("init --quiet --initial-branch=main", "config user.name Ada", "config user.email ada@example.com"):
        subprocess.run(["git", "-C", folder, *words.split()], check=True)
    Path(folder, "plan.txt").write_text(PLAN)


async def main(folder: str) -> None:
    async with Crib([SHIPPED], policy=POLICY, workspace=folder) as crib:
        session = await crib.open(owner="ada", namespaces=["git", "text-stats", "repo-brief"])
        print((await session.call("git.add", {"paths": ["."]})).text)
        await session.call("git.add", {"paths": ["plan.txt"]})
        await session.call("git.commit", {"subject": "Plan the tea"})
        print((await session.call("git.log", {"subjects": True})).data)
        print((await session.call("text-stats.count", {"text": PLAN})).data)
        brief = await session.call("repo-brief.run", {"commits": 1, "themes": 1})
        print({name: step["data"] for name, step in brief.data["steps"].items()})


with TemporaryDirectory() as folder:
    prepare(folder)
    asyncio.run(main(folder))

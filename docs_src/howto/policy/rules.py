import asyncio
import tempfile

from toolcrib import Crib, tool


@tool(namespace="box", capabilities=["fs:write:{path}"])
def put(path: str, text: str = "") -> str:
    """Write a file."""
    return f"wrote {path}"


@tool(namespace="box", capabilities=["exec:cmd:{command}"])
def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


POLICY = {
    "grants": {"allow": ["fs:write:${workspace}/**", "exec:cmd:git"], "ask": ["exec:cmd:*"]},
    "rules": [{"id": "no-force", "deny": "shell(git push --force *)", "reason": "Ask for a review instead."}],
}


async def main() -> None:
    with tempfile.TemporaryDirectory() as workspace:
        async with Crib([put, shell], policy=POLICY, workspace=workspace) as crib:
            session = await crib.open(owner="ada", namespaces=["box"])
            print((await session.call("put", {"path": "notes.md"})).text)
            print((await session.call("put", {"path": "../../etc/hosts"})).failure is not None)
            print((await session.call("shell", {"command": "git status"})).text)
            print((await session.call("shell", {"command": "git push --force origin"})).text)
            print(session.why("shell", {"command": "git log && rm -rf build"}).verdict.effect)


asyncio.run(main())

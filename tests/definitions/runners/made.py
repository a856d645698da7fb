"""Definitions from text, the tools that they become, and programs that are really there."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolcrib import Crib, Limits, Result, Session, Tool
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.reader import read
from toolcrib.definitions.runners import Runner, RunnerSettings, runner

HEAD = "tool:\n  id: {id}\n  type: {type}\n  name: Made\n  description: Made for a test\n  version: 1.0.0\n"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def definition(
    type: str, text: str, id: str = "made", path: Path | None = None, root: Path | None = None
) -> ToolDefinition:
    """A definition whose blocks stand in `text`, at the margin."""
    lines = "".join(f"  {line}\n" for line in text.strip("\n").splitlines())
    return read(HEAD.format(id=id, type=type) + lines, path=path, root=root)


def made(found: ToolDefinition, name: str, settings: RunnerSettings | None = None) -> Runner:
    """How a command runs."""
    command = found.command(name)
    assert command is not None, [one.name for one in found.commands]
    how = runner(found, command, settings or RunnerSettings())
    assert how is not None
    return how


def tool_of(found: ToolDefinition, name: str, settings: RunnerSettings | None = None) -> Tool:
    """A command as a tool."""
    how = made(found, name, settings)
    return Tool(
        name=name,
        namespace=found.id,
        description=found.description,
        input_schema=how.input_schema,
        capabilities=how.capabilities,
        effect=how.effect,
        resumes=how.resumes,
        limits=Limits(timeout_s=how.timeout_s),
        run=how.run,
    )


@asynccontextmanager
async def session_with(*tools: Tool) -> AsyncIterator[Session]:
    """A session that may do what its tools need."""
    needs = [capability for tool in tools for capability in tool.capabilities if "{" not in capability]
    async with Crib(tools, policy={"default": "allow", "grants": {"allow": needs}}) as crib:
        yield await crib.open(owner="ada", namespaces=["*"])


async def called(tool: Tool, args: Any = None) -> Result:
    """What a call of a tool gives."""
    async with session_with(tool) as session:
        return await asyncio.wait_for(session.call(tool.id, args), 60)


class Programs:
    """A folder with programs, which comes first on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def write(self, name: str, code: str) -> str:
        """A program in Python."""
        path = self.folder / name
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(0o755)
        return str(path)

    def settings(self, **more: Any) -> RunnerSettings:
        """Settings with this folder, and these variables."""
        environ: Mapping[str, str] = {"PATH": f"{self.folder}{os.pathsep}{PATH}", "HOME": str(self.folder), **more}
        return RunnerSettings(environ=environ)

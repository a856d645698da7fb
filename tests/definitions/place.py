"""Folders of definition files, a crib over them, and what they run: programs and servers that are really there."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.definitions.runners.made import PATH, Programs
from toolcrib import Crib, Event, Result, Session
from toolcrib.definitions.source import FileSource

PEER = Path(__file__).parent / "peer.py"
GRANTS = {"allow": ["exec:cmd:**", "net:egress:*", "secrets:read:*"]}
ALLOW = {"default": "allow", "grants": GRANTS}
ASK = {"default": "ask", "grants": GRANTS}
ECHO = "import json, sys; print(json.dumps({'args': sys.argv[1:]}))"


class Place:
    """A folder of files, one of programs that comes first on the PATH, and the log of a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "tools"
        self.root.mkdir()
        self.programs = Programs(folder / "bin")
        self.log = folder / "peer.log"
        self.environ: dict[str, str] = {"PATH": f"{folder / 'bin'}{os.pathsep}{PATH}", "HOME": str(folder)}

    def write(self, id: str, type: str, root: Path | None = None, version: str = "1.0.0", **blocks: Any) -> Path:
        """A file; JSON is YAML."""
        path = (root or self.root) / f"{id}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        tool = {"id": id, "type": type, "name": id, "description": f"The tool {id}", "version": version, **blocks}
        path.write_text(json.dumps({"tool": tool}))
        return path

    def peer(self, *tools: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The block of a file whose server is the peer with these tools."""
        return {"server_command": sys.executable, "server_args": [str(PEER), str(self.log), json.dumps(tools)], **more}

    def noted(self, what: str) -> list[dict[str, Any]]:
        """What the server wrote down: each `start`, each `call`."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [one for one in map(json.loads, lines) if what in one]

    def source(self, pack: str | None = None, **more: Any) -> FileSource:
        return FileSource([self.root], pack, **{"environ": self.environ, **more})

    @asynccontextmanager
    async def opened(
        self, *more: Any, source: FileSource | None = None, **settings: Any
    ) -> AsyncIterator[tuple[FileSource, Session]]:
        """A crib over the files, and a session that may use all of them."""
        files = source or self.source()
        async with asyncio.timeout(60), Crib([files, *more], **{"policy": ALLOW, **settings}) as crib:
            yield files, await crib.open("s", owner="ada", namespaces=["*"])

    @asynccontextmanager
    async def looked_at(self, **more: Any) -> AsyncIterator[FileSource]:
        """The files without a crib."""
        files = self.source(**more)
        try:
            yield files
        finally:
            await files.stop()


def code(result: Result) -> str | None:
    return None if result.failure is None else result.failure.code


def message(result: Result) -> str:
    return "" if result.failure is None else result.failure.message


def hint(result: Result) -> str:
    return "" if result.failure is None else result.failure.hint or ""


def names(session: Session) -> set[str]:
    """The ids of all tools of files that a session sees."""
    return {tool.id for tool in session._view.tools if tool.source != "builtin"}


async def events(session: Session, call: str | None = None) -> list[Event]:
    return [event async for event in session.events(call=call, follow=False)]


async def done(session: Session) -> Event:
    """The end of the last call."""
    return [event for event in await events(session) if event.kind == "done"][-1]


async def until(session: Session, kind: str, after: int = 0) -> Event:
    """The next event of that kind."""
    async with asyncio.timeout(60):
        async for event in session.events(after):
            if event.kind == kind:
                return event
    raise AssertionError(f"there was no {kind}")


async def comes(true: Callable[[], Any]) -> None:
    """Waits for what a process does, of which nobody tells."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)

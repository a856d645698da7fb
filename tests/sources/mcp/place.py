"""Servers to talk to, and cribs that do."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests import ready
from toolcrib import Crib, Session
from toolcrib.sources.mcp import Mcp

PEERS = Path(__file__).parent / "peers"
ALLOW = {"default": "allow"}


def raw(era: str = "legacy", **more: Any) -> Mcp:
    """The server that is written by hand; one that starts is waited for, since that takes long on a busy machine."""
    patience = {"required": True, "start_s": 120} if era in ("legacy", "modern") else {}
    return Mcp(sys.executable, str(PEERS / "raw.py"), era, **{"name": "raw", **patience, **more})


def kit(**more: Any) -> Mcp:
    """The server that is made with the SDK, which is waited for: on a busy machine it takes long to start."""
    settings = {"name": "kit", "required": True, "start_s": 120, **more}
    return Mcp(*ready.command(str(PEERS / "kit.py"), "stdio"), **settings)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def served(kind: str, port: int = 0) -> AsyncIterator[int]:
    """The server that is made with the SDK, at a port of this machine."""
    port = port or free_port()
    with ready.Program([str(PEERS / "kit.py"), kind, str(port)], stderr=asyncio.subprocess.PIPE) as process:
        assert process.stderr is not None
        drain = None
        try:
            async with asyncio.timeout(120):
                while "Uvicorn running" not in await asyncio.to_thread(process.stderr.readline):
                    assert process.poll() is None
            drain = asyncio.create_task(asyncio.to_thread(process.stderr.read))
            yield port
        finally:
            process.kill()
            if drain is not None:
                await drain


@asynccontextmanager
async def opened(*sources: Mcp, owner: str = "ada", **more: Any) -> AsyncIterator[tuple[Crib, Session]]:
    """A crib with servers, and a session that may use all of them."""
    async with Crib(sources, **{"policy": ALLOW, **more}) as crib:
        yield crib, await crib.open("s", owner=owner, namespaces=[source.name for source in sources])


def code(result: Any) -> str | None:
    return None if result.failure is None else result.failure.code


def message(result: Any) -> str:
    return "" if result.failure is None else str(result.failure.message)


async def asked(session: Session, call: str) -> Any:
    """The question that a call waits with."""
    async for event in session.events(call=call):
        if event.kind == "waiting":
            past = [other async for other in session.events(call=call, follow=False) if other.kind == "answered"]
            if event.fields["question"]["id"] not in [answered.fields["question"] for answered in past]:
                return event.fields["question"]
        assert event.kind != "done", event.fields
    raise AssertionError("it never asked")

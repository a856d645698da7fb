"""A server inside another program: whose signals it takes, and what it leaves behind where somebody hangs up."""

import asyncio
import signal
from typing import Any

import pytest

from toolcrib import Crib
from toolcrib.serve.asgi import ClientDisconnected
from toolcrib.serve.http import Site, server
from toolcrib.serve.mcp.http import HttpExchange, IncomingRequest
from toolcrib.serve.mcp.request import McpReply


async def test_a_server_inside_a_program_leaves_its_signals_alone() -> None:
    ready = asyncio.Event()
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with Crib() as crib:
        made = server(Site(crib), ready.set, port=0, loop="none", lifespan="off", log_config=None)
        serving = asyncio.ensure_future(made.serve())
        await asyncio.wait_for(ready.wait(), 60)
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        made.should_exit = True
        await serving


async def test_what_nobody_wants_to_hear_of_has_ended_when_its_exchange_is_over() -> None:
    began, tidied = asyncio.Event(), False

    async def work() -> McpReply:
        nonlocal tidied
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            tidied = True
        return McpReply(b"{}")

    async def receive() -> dict[str, Any]:
        await began.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    async with Crib() as crib:
        exchange = HttpExchange(IncomingRequest(Site(crib).api, {"headers": []}, receive, send))
        with pytest.raises(ClientDisconnected):
            await exchange.attend(work())
        assert tidied

"""A crib inside an application of somebody else, below any path."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib import Crib, tool
from toolcrib.console import console
from toolcrib.serve.http import Site


@tool(read_only=True)
async def find(order: str) -> dict[str, str]:
    """Find an order."""
    return {"order": order}


@asynccontextmanager
async def mounted(prefix: str) -> AsyncIterator[httpx.AsyncClient]:
    async with Crib([find]) as crib:
        site: Any = Site(crib)
        site.mount("/", console())
        await site.open()
        app = FastAPI()
        app.mount(prefix, site)
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", loop="none", lifespan="off"))
        task = asyncio.create_task(server.serve([listening]))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}{prefix}/", timeout=60) as client:
            yield client
        server.should_exit = True
        await site.quiet()
        await task


@requirement("adapters.pages.2")
@pytest.mark.parametrize("prefix", ["/crib", "/a/b c"])
async def test_api_stream_mcp_and_console_work_below_a_path(prefix: str) -> None:
    async with mounted(prefix) as client:
        assert (await client.get("v1/tools")).json()["items"][0]["name"] == "find"
        page = await client.get("")
        asset = page.text.partition('src="./')[2].partition('"')[0]
        assert (await client.get(asset)).status_code == 200
        made = await client.post("v1/sessions", json={"id": "s"})
        assert made.status_code in (200, 201), made.text
        call = await client.post("v1/sessions/s/calls", json={"tool": "find", "args": {"order": "A/7"}})
        assert call.status_code < 300, call.text
        async with client.stream("GET", "v1/sessions/s/events", headers={"accept": "text/event-stream"}) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:") and json.loads(line[5:]).get("kind") == "done":
                    break
        assert (await client.post("mcp", json={})).status_code != 404
        assert (await client.get("v1/nothing")).status_code == 404


@requirement("adapters.pages.3")
@pytest.mark.process
def test_the_program_of_the_page_is_served_by_uvicorn() -> None:
    folder = ROOT / "docs_src/howto"
    with socket.create_server(("127.0.0.1", 0)) as listening, httpx.Client(timeout=60) as client:
        number, port = listening.fileno(), listening.getsockname()[1]
        words = [sys.executable, "-m", "uvicorn", "with_fastapi:app", "--app-dir", str(folder), "--fd", str(number)]
        server = subprocess.Popen([*words, "--log-level", "critical"], pass_fds=[number])
        try:
            base = f"http://127.0.0.1:{port}/crib"  # it listens already, so that the first request waits for the start
            assert client.post(f"{base}/v1/sessions", json={"id": "s"}).is_success
            call = {"tool": "find", "args": {"order": "A-7"}}
            made = client.post(f"{base}/v1/sessions/s/calls", json=call)
            assert made.json()["data"] == {"order": "A-7", "state": "paid"}, made.text
            assert "<html" in client.get(f"{base}/").text
        finally:
            server.terminate()
            assert server.wait(60) in (0, -15)

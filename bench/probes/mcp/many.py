"""Usage: many <upstreams> <dead> <people>. A real `toolcrib serve` in front of many servers, and many people on one.

Prints as JSON: seconds until it listens, until it answers and until the tools of all living servers are listed; then
how many processes and how much memory there are for people who each have a conversation with one server.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

ACCEPT = {"Accept": "application/json, text/event-stream"}
GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
PATIENCE_S = 300.0
PEOPLE = 100
ROOT = Path(__file__).parents[3]


def _key(number: int) -> str:
    return f"key-of-person-{number:06}"


def _crib(living: int, dead: int) -> str:
    command = [sys.executable, str(ROOT / "bench/probes/mcp/upstream.py")]
    entries = [{"mcp": command, "name": f"s{number}", "trusted": True} for number in range(living)]
    for number in range(dead):
        gone = ["sleep", "1000"] if number % 2 else "http://127.0.0.1:9/mcp"
        entries.append({"mcp": gone, "name": f"d{number}", "trusted": True})
    return json.dumps({"sources": entries})


@contextmanager
def _served(living: int, dead: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "crib.yaml").write_text(_crib(living, dead))
        Path(folder, "keys").write_text("".join(f"person{number} {_key(number)}\n" for number in range(PEOPLE)))
        argv = [sys.executable, "-m", "toolcrib", "serve", "--mcp", "--key-file", "keys", "--port", str(port)]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(argv, cwd=folder, stdout=quiet, stderr=quiet) as process:
            try:
                yield f"http://127.0.0.1:{port}/mcp", process
            finally:
                process.terminate()


class _Client:
    """A client of an older revision, which has a session of its own."""

    def __init__(self, http: httpx.AsyncClient, url: str, number: int = 0) -> None:
        self._http, self._url = http, url
        self._headers = ACCEPT | {"Authorization": f"Bearer {_key(number)}"}

    async def post(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self._http.post(self._url, json=message, headers=self._headers)
        if "mcp-session-id" in answer.headers:
            self._headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        told = json.loads(lines[-1] if lines else answer.text)
        if "result" not in told:
            raise SystemExit(f"{method}: {told}")
        return told["result"]


async def _ready(url: str, living: int) -> dict[str, float]:
    began = time.perf_counter()
    found: dict[str, float] = {}
    async with httpx.AsyncClient(timeout=60) as http:
        client = _Client(http, url)
        while "listens" not in found and time.perf_counter() - began < PATIENCE_S:
            try:
                await client.post("initialize", **GREETING)
                found["listens"] = time.perf_counter() - began
            except httpx.TransportError:
                await asyncio.sleep(0.01)
        while time.perf_counter() - began < PATIENCE_S:
            if len((await client.post("tools/list"))["tools"]) >= living:
                found["listed"] = time.perf_counter() - began
                return found
            await asyncio.sleep(0.1)
    return found


def _memory(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    children = psutil.Process(process.pid).children(recursive=True)
    return len(children), psutil.Process(process.pid).memory_info().rss


async def _people(url: str, people: int) -> list[str]:
    """Each calls twice, and is told that these were its first and second call."""
    async with httpx.AsyncClient(timeout=120) as http:

        async def one(number: int) -> str:
            client = _Client(http, url, number)
            await client.post("initialize", **GREETING)
            for _ in range(2):
                result = await client.post("tools/call", name="s0__add", arguments={"a": 1, "b": 2})
            return str(result["content"][0]["text"])

        return await asyncio.gather(*(one(number) for number in range(people)))


def main(upstreams: int, dead: int, people: int) -> None:
    """Measures both."""
    os.environ["TOOLCRIB_ALLOW_ROOT"] = "1"
    with _served(upstreams - dead, dead) as (url, _):
        found: dict[str, Any] = asyncio.run(_ready(url, upstreams - dead))
    with _served(0, 0) as (url, _):
        found["empty"] = asyncio.run(_ready(url, 0))["listens"]
    with _served(1, 0) as (url, process):
        asyncio.run(_ready(url, 1))
        before = _memory(process)
        told = asyncio.run(_people(url, people))
        after = _memory(process)
    found |= {"own_state": told.count("3, call 2"), "processes": after[0], "before": before[1], "after": after[1]}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Usage: added <http|stdio> <calls> <rows>. The time of single calls, of each row by turns, as JSON.

Rows are a JSON object: names and ports, or names and commands. The first is the server itself, the others proxies. A
turn is a few calls one after the other; its first call, which finds the caches of the processor full of what the other
rows did, is also told apart. A row that takes longer than a fifth of a second a call has one turn in twenty.
"""

import asyncio
import json
import sys
import time
from statistics import median, quantiles
from typing import Any

import uvloop

from bench.probes.mcp.messages import INITIALIZE, OLD_ADD, post

WARM = 10
SLOW_S = 0.2
SELDOM = 20
TURN = 20
READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


class _Pipe:
    """A server on its own standard input and output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._in, self._out = process, process.stdin, process.stdout

    @classmethod
    async def open(cls, argv: list[str]) -> "_Pipe":
        """Started, and greeted."""
        pipe = asyncio.subprocess.PIPE
        made = cls(
            await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
        )
        await made.send(INITIALIZE)
        made._in.write(READY + b"\n")
        return made

    async def send(self, message: bytes) -> bytes:
        """The answer to a request."""
        self._in.write(message + b"\n")
        wanted = json.loads(message)["id"]
        while line := await self._out.readline():
            if json.loads(line).get("id") == wanted:
                return line
        raise SystemExit("a server ended")

    async def close(self) -> None:
        """Ends it."""
        self._in.close()
        await self._process.wait()


class _Http:
    """A server at a port, by one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._session: dict[str, str] = {}

    @classmethod
    async def open(cls, port: int) -> "_Http":
        """Connected, and greeted."""
        made = cls(*await asyncio.open_connection("127.0.0.1", port))
        await made.send(INITIALIZE)
        return made

    async def send(self, message: bytes) -> bytes:
        """The answer to a request, which is not looked at."""
        self._writer.write(post(message, MCP_Protocol_Version="2025-11-25", **self._session))
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.splitlines()[1:])}
        if "mcp-session-id" in fields:
            self._session = {"Mcp_Session_Id": fields["mcp-session-id"]}
        if "content-length" in fields:
            return await self._reader.readexactly(int(fields["content-length"]))
        body = b""
        while (size := int(await self._reader.readline(), 16)) > 0:
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return body

    async def close(self) -> None:
        """Hangs up."""
        self._writer.close()


async def main(way: str, calls: int, rows: dict[str, Any]) -> None:
    """A few calls of each row after the other: what else the machine does then hits all alike."""
    opened: dict[str, Any] = {}
    every: dict[str, int] = {}
    for name, where in rows.items():
        opened[name] = await (_Pipe.open(where) if way == "stdio" else _Http.open(where))
        began = time.perf_counter()
        for _ in range(WARM):
            answer = await opened[name].send(OLD_ADD)
            if b"3" not in answer or b'"error"' in answer:
                raise SystemExit(f"{name} answers {answer[:300]!r}")
        every[name] = SELDOM if time.perf_counter() - began > WARM * SLOW_S else 1
    times: dict[str, list[list[float]]] = {name: [] for name in rows}
    for turn in range(calls // TURN):
        for name, server in opened.items():
            if turn % every[name] == 0:
                times[name].append([await _timed(server) for _ in range(TURN)])
    for server in opened.values():
        await server.close()
    print(json.dumps({name: _summary(turns) for name, turns in times.items()}))


async def _timed(server: Any) -> float:
    began = time.perf_counter()
    await server.send(OLD_ADD)
    return (time.perf_counter() - began) * 1000


def _summary(turns: list[list[float]]) -> dict[str, float]:
    every = [one for turn in turns for one in turn]
    return {"median": median(every), "p99": quantiles(every, n=100)[98], "first": median(turn[0] for turn in turns)}


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])))

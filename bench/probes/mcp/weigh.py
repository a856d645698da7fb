"""Usage: weigh <port> <pid> <sessions> <streams> <hangups>. What clients cost a server, and what is left of them."""

import asyncio
import json
import sys

import psutil
import uvloop

from bench.probes.mcp.messages import ADD, INITIALIZE, LISTEN, OLD_ADD, modern, post

SETTLE_S = 1.0
AT_ONCE = 50


async def _used(port: int) -> None:
    """A session of an older revision that made one call."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(post(INITIALIZE))
    answer = await reader.readuntil(b"}}}")
    (session,) = (line[16:].decode() for line in answer.split(b"\r\n") if line.startswith(b"mcp-session-id: "))
    writer.write(post(OLD_ADD, Mcp_Session_Id=session))
    await reader.readuntil(b"}]}}")
    writer.close()
    await writer.wait_closed()


async def _gone(port: int, request: bytes) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def _many(port: int, count: int, do: str) -> None:
    openings = [modern(ADD)[:20], modern(ADD)[:-5], modern(ADD), modern(LISTEN)]
    for begin in range(0, count, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, count))
        if do == "greet":
            await asyncio.gather(*(_used(port) for _ in numbers))
        else:
            await asyncio.gather(*(_gone(port, openings[number % len(openings)]) for number in numbers))


async def main(port: int, pid: int, sessions: int, streams: int, hangups: int) -> None:
    """Greet, listen, hang up."""
    server = psutil.Process(pid)
    await _many(port, 200, "hang up")
    await _many(port, 50, "greet")
    await asyncio.sleep(SETTLE_S)
    found: dict[str, float] = {}

    before = server.memory_info().rss
    await _many(port, sessions, "greet")
    await asyncio.sleep(SETTLE_S)
    found["session_bytes"] = (server.memory_info().rss - before) / sessions

    before = server.memory_info().rss
    held = []
    for _ in range(streams):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(modern(LISTEN))
        await reader.readuntil(b"acknowledged")
        held.append(writer)
    await asyncio.sleep(SETTLE_S)
    found["stream_bytes"] = (server.memory_info().rss - before) / streams
    for writer in held:
        writer.close()
    await asyncio.sleep(SETTLE_S)

    before, files = server.memory_info().rss, server.num_fds()
    await _many(port, hangups, "hang up")
    await asyncio.sleep(SETTLE_S)
    found["left_files"] = server.num_fds() - files
    found["left_bytes"] = (server.memory_info().rss - before) / hangups
    print(json.dumps({name: round(value) for name, value in found.items()}))


if __name__ == "__main__":
    uvloop.run(main(*map(int, sys.argv[1:])))

"""Usage: streams <port> <pid> <streams> <sessions> <rounds> <at once>. What streams cost, how soon events reach them.

In each round a call is made in every session, so many at once, and the time from its last event (taken just before the
commit) to its arrival is noted for each stream.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence

import psutil
import uvloop

from bench.probes.http.messages import ANSWER, CALL, follow, post
from bench.probes.mcp.load import whole

SETTLE_S = 1.0
ARRIVE_S = 60.0
WARM = 100
DONE = re.compile(rb'event: done\ndata: \{"session":"[^"]*","seq":\d+,"time":([0-9.]+)')


class _Board:
    """Counts what arrives at all streams."""

    def __init__(self) -> None:
        self.pieces: list[tuple[float, bytes]] = []
        self.done = 0
        self._wanted = 0
        self._reached = asyncio.Event()

    def note(self, now: float, piece: bytes) -> None:
        """Something arrived; it is looked at later, since others arrive meanwhile."""
        self.pieces.append((now, piece))
        self.done += piece.count(b"event: done\n")
        if self.done >= self._wanted:
            self._reached.set()

    async def arrived(self, wanted: int) -> None:
        """Returns when so many calls were seen to end, by all streams together."""
        self._wanted = wanted
        self._reached.clear()
        if self.done < wanted:
            async with asyncio.timeout(ARRIVE_S):
                await self._reached.wait()

    def clear(self) -> None:
        """Begins anew."""
        self.pieces.clear()
        self.done = 0

    def late_ms(self) -> list[float]:
        """How long each end of a call took to each of its streams."""
        return sorted((now - float(at)) * 1e3 for now, piece in self.pieces for at in DONE.findall(piece))


class _Reader(asyncio.Protocol):
    """One stream."""

    def __init__(self, session: str, board: _Board) -> None:
        self._session = session
        self._board = board
        self._got = b""
        self.open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(follow(self._session))

    def data_received(self, data: bytes) -> None:
        now = time.time()
        self._got += data
        if self._got.endswith(b"\n\n\r\n"):  # the end of an event, and of the chunk it came in
            self._board.note(now, self._got)
            if not self.open.done():
                self.open.set_result(b" 200 " in self._got[:15])
            self._got = b""

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.open.done():
            self.open.set_result(False)


class _Client:
    """One connection for requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: bytes, right: bytes) -> None:
        """Sends, and waits for the right answer."""
        self._writer.write(request)
        answer = b""
        while not whole(answer):
            answer += await self._reader.read(65536)
        if right not in answer:
            raise SystemExit(f"a wrong answer: {answer[:500]!r}")


async def _everywhere(clients: Sequence[_Client], requests: Sequence[bytes], right: bytes) -> None:
    """Shares requests out among clients."""

    async def some(number: int) -> None:
        for request in requests[number :: len(clients)]:
            await clients[number].ask(request, right)

    await asyncio.gather(*(some(number) for number in range(len(clients))))


async def _opened(port: int, sessions: Sequence[str], streams: int, board: _Board) -> list[_Reader]:
    loop = asyncio.get_running_loop()
    readers = []
    for number in range(streams):
        session = sessions[number % len(sessions)]
        _, reader = await loop.create_connection(lambda session=session: _Reader(session, board), "127.0.0.1", port)  # type: ignore[misc]
        readers.append(reader)
        if not await reader.open:
            raise SystemExit(f"stream {number + 1} was not opened")
    return readers


async def main(port: int, pid: int, streams: int, sessions: int, rounds: int, together: int) -> None:
    """Open, weigh, call, tell."""
    server = psutil.Process(pid)
    names = [f"s{number}" for number in range(sessions)]
    clients = [_Client(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(together)]
    calls = [post(f"/v1/sessions/{name}/calls", CALL) for name in names]
    await _everywhere(clients, [post("/v1/sessions", {"id": name}) for name in names], b'"id"')
    await _everywhere(clients, calls, ANSWER)
    for reader in await _opened(port, names, WARM, _Board()):
        reader.transport.close()
    await asyncio.sleep(SETTLE_S)

    before, board = server.memory_info().rss, _Board()
    readers = await _opened(port, names, streams, board)
    await board.arrived(streams)  # each stream begins with what was before: one call
    await asyncio.sleep(SETTLE_S)
    weight = (server.memory_info().rss - before) / streams
    board.clear()
    for number in range(rounds):
        await _everywhere(clients, calls, ANSWER)
        await board.arrived((number + 1) * streams)
    late = board.late_ms()
    for reader in readers:
        reader.transport.close()
    found = {"arrivals": len(late), "stream_bytes": weight, "p50_ms": late[len(late) // 2]}
    found |= {"p99_ms": late[int(len(late) * 0.99)], "highest_ms": late[-1]}
    print(json.dumps({name: round(value, 2) for name, value in found.items()}))


if __name__ == "__main__":
    uvloop.run(main(*map(int, sys.argv[1:])))

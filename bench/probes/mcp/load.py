"""Usage: load <port> <connections> <seconds>. Calls `add` on that many connections, each as fast as it is answered."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import uvloop

from bench.probes.mcp.messages import ADD, modern

WARM_S = 0.5
FIRST_S = 60.0

Work = Iterator[tuple[bytes, bytes]]
"""The requests of a connection, each with what a right answer to it holds."""


class _Caller(asyncio.Protocol):
    """One connection: it sends, waits for the whole answer, and sends again."""

    def __init__(self, work: Work, times: list[float]) -> None:
        self._work = work
        self._times = times
        self._got = b""
        self.wrong = b""
        self.on = True
        self.answered = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._send()

    def _send(self) -> None:
        request, self._right = next(self._work)
        self._began = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._got = self._got + data if self._got else data
        if not whole(self._got):
            return
        self._times.append(time.perf_counter() - self._began)
        if self._right not in self._got:
            self.wrong = self._got
        self._got = b""
        self.answered.set()
        if self.on and not self.wrong:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.answered.set()


def whole(answer: bytes) -> bool:
    """Whether an answer came to its end."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    at = head.lower().find(b"content-length: ")
    if at < 0:
        return body.endswith(b"0\r\n\r\n")
    return len(body) >= int(head[at + 16 :].split(b"\r\n", 1)[0])


def _idle() -> float:
    return 0.0


async def load(
    port: int, works: Sequence[Work], seconds: float, cpu_s: Callable[[], float] = _idle
) -> dict[str, float]:
    """Warms up and measures, one connection for each work; `cpu_s` is what the server has used so far."""
    times: list[float] = []
    loop = asyncio.get_running_loop()
    callers = []
    for work in works:
        _, caller = await loop.create_connection(lambda work=work: _Caller(work, times), "127.0.0.1", port)  # type: ignore[misc]
        callers.append(caller)
    async with asyncio.timeout(FIRST_S):  # a server may have much to do at first
        await asyncio.gather(*(caller.answered.wait() for caller in callers))
    await asyncio.sleep(WARM_S)
    times.clear()
    began, used = time.perf_counter(), cpu_s()
    await asyncio.sleep(seconds)
    took, used, done = time.perf_counter() - began, cpu_s() - used, sorted(times)
    for caller in callers:
        caller.on = False
    await asyncio.sleep(0.1)
    wrong = [caller.wrong for caller in callers if caller.wrong]
    if not done or wrong:
        raise SystemExit(f"the server gave a wrong answer, or none: {b''.join(wrong[:1])[:500]!r}")
    return {
        "calls_s": round(len(done) / took, 1),
        "cpu_us": round(used / len(done) * 1e6, 1),
        "p50_ms": round(done[len(done) // 2] * 1e3, 2),
        "p99_ms": round(done[int(len(done) * 0.99)] * 1e3, 2),
    }


async def main(port: int, connections: int, seconds: float) -> None:
    """Measure, tell."""
    add = modern(ADD), b'"text":"3"'
    print(json.dumps(await load(port, [repeat(add) for _ in range(connections)], seconds)))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))

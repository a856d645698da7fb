"""Usage: load <port> <connections> <seconds>. Calls `add` on that many connections, each as fast as it is answered."""

import asyncio
import json
import sys
import time

import uvloop

from bench.probes.mcp.messages import ADD, modern

WARM_S = 0.5


class _Caller(asyncio.Protocol):
    """One connection: it sends, waits for the whole answer, and sends again."""

    def __init__(self, request: bytes, times: list[float]) -> None:
        self._request = request
        self._times = times
        self._got = b""
        self.wrong = 0
        self.on = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._got = self._got + data if self._got else data
        if not _whole(self._got):
            return
        self._times.append(time.perf_counter() - self._began)
        if b'"text":"3"' not in self._got:
            self.wrong += 1
        self._got = b""
        if self.on and not self.wrong:
            self._send()
        else:
            self._transport.close()


def _whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    at = head.lower().find(b"content-length: ")
    if at < 0:
        return body.endswith(b"0\r\n\r\n")
    return len(body) >= int(head[at + 16 :].split(b"\r\n", 1)[0])


async def main(port: int, connections: int, seconds: float) -> None:
    """Warm up, measure, tell."""
    times: list[float] = []
    loop = asyncio.get_running_loop()
    callers = []
    for _ in range(connections):
        _, caller = await loop.create_connection(lambda: _Caller(modern(ADD), times), "127.0.0.1", port)
        callers.append(caller)
    await asyncio.sleep(WARM_S)
    times.clear()
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    took, done = time.perf_counter() - began, sorted(times)
    for caller in callers:
        caller.on = False
    await asyncio.sleep(0.1)
    if not done or any(caller.wrong for caller in callers):
        raise SystemExit("the server gave a wrong answer, or none")
    print(
        json.dumps(
            {
                "calls_s": round(len(done) / took),
                "p50_ms": round(done[len(done) // 2] * 1e3, 2),
                "p99_ms": round(done[int(len(done) * 0.99)] * 1e3, 2),
            }
        )
    )


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))

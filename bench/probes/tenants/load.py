"""Usage: load <port> <noise> <tool> <connections> <seconds>. A quiet owner's calls, alone and beside a noisy one.

The quiet owner makes one call after the other on one connection, with a short pause; the noisy one keeps that many
calls in flight, from a process of its own.
"""

import asyncio
import json
import sys
import time

import uvloop

from bench.probes.mcp.load import load, whole
from bench.probes.tenants.messages import calls

PAUSE_S = 0.002
WARM = 100


async def _quiet(port: int, tool: str, session: str, seconds: float) -> list[float]:
    """How long each call took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times, until = list[float](), None
    for number, (request, right) in enumerate(calls("quiet", session, tool)):
        began = time.perf_counter()
        writer.write(request)
        answer = b""
        while not whole(answer):
            answer += await reader.read(65536)
        took = time.perf_counter() - began
        if right not in answer:
            raise SystemExit(f"a wrong answer: {answer[:500]!r}")
        if until is None and number == WARM:
            until = began + seconds
        elif until is not None:
            times.append(took)
            if began > until:
                break
        await asyncio.sleep(PAUSE_S)
    writer.close()
    return sorted(times)


def _told(times: list[float]) -> dict[str, float]:
    return {
        "calls": len(times),
        "p50_ms": round(times[len(times) // 2] * 1e3, 3),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1e3, 3),
    }


async def _beside(port: int, noise: str, tool: str, connections: int, seconds: float) -> tuple[list[float], float]:
    """The quiet owner's times while another process is noisy, and the calls a second of that one."""
    argv = ("-m", "bench.probes.tenants.load", str(port), noise, str(connections), str(seconds + 2.0))
    noisy = await asyncio.create_subprocess_exec(
        sys.executable, *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert noisy.stdout is not None
    await noisy.stdout.readline()  # it is at work
    times = await _quiet(port, tool, f"quiet-{noise}", seconds)
    out, errors = await noisy.communicate()
    if noisy.returncode:
        raise SystemExit(errors.decode())
    return times, json.loads(out)["calls_s"]


async def _noise(port: int, noise: str, connections: int, seconds: float) -> None:
    works = [calls("noisy", f"noisy-{noise}-{number}", noise) for number in range(connections)]
    work = asyncio.ensure_future(load(port, works, seconds))
    await asyncio.sleep(1.5)
    print("at work", flush=True)
    print(json.dumps(await work))


async def main(port: int, noise: str, tool: str, connections: int, seconds: float) -> None:
    """Measure, tell."""
    alone = await _quiet(port, tool, "quiet-alone", seconds)
    beside, noisy = await _beside(port, noise, tool, connections, seconds)
    print(json.dumps({"alone": _told(alone), "beside": _told(beside), "noisy_calls_s": noisy}))


if __name__ == "__main__":
    port, noise, *more = sys.argv[1:]
    many, seconds = int(more[-2]), float(more[-1])
    uvloop.run(
        main(int(port), noise, more[0], many, seconds) if len(more) == 3 else _noise(int(port), noise, many, seconds)
    )

"""Usage: trips <calls> <turns>. Round trips through pipes: a process that echoes, and a crib, by turns.

The client runs on an event loop, as those of editors and agents do.
"""

import asyncio
import json
import sys
import time
from statistics import median

import uvloop

from bench.probes.mcp.messages import ADD

WARM = 200


class _Process:
    """A process that answers each line with a line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._source, self._target = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, name: str) -> "_Process":
        """Started, and warm."""
        pipe = asyncio.subprocess.PIPE
        argv = [sys.executable, "-m", f"bench.probes.mcp.{name}"]
        made = cls(await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe))
        await made.us(WARM)
        return made

    async def us(self, calls: int) -> float:
        """The middle of the times of so many round trips."""
        times = []
        for _ in range(calls):
            began = time.perf_counter()
            self._source.write(ADD + b"\n")
            await self._target.readline()
            times.append(time.perf_counter() - began)
        return median(times) * 1e6

    async def end(self) -> None:
        """Closes its input."""
        self._source.close()
        await self._process.wait()


async def main(calls: int, turns: int) -> None:
    """By turns, since the machine is not always equally quick."""
    both = {name: await _Process.start(name) for name in ("echo", "pipe")}
    found: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(turns):
        for name, process in both.items():
            found[name].append(await process.us(calls))
    for process in both.values():
        await process.end()
    print(json.dumps({name: round(median(times), 1) for name, times in found.items()}))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))

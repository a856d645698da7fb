"""Usage: load <port> <pid> <work> <connections> <seconds>. Does that work on each connection, again and again."""

import json
import sys

import psutil
import uvloop

from bench.probes.http.messages import WORKS
from bench.probes.mcp.load import load


def _cpu_s(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


async def main(port: int, pid: int, work: str, connections: int, seconds: float) -> None:
    """Measure, tell."""
    works = [WORKS[work](f"{work}-{connections}-{number}") for number in range(connections)]
    print(json.dumps(await load(port, works, seconds, lambda: _cpu_s(pid))))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))

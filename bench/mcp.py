"""`make bench-mcp`: the MCP server beside a bare ASGI application and the servers of its peers, in one run.

All are served by uvicorn with uvloop and httptools and called by the same load generator. Timings never fail anything;
what counts is how far a row is from the bare one beside it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from bench.probe import Failed, probe
from bench.section import Section
from bench.served import FASTMCP, Part, Run, Served, run_parts, served

MODULES = "bench.probes.mcp"
BARE = "bare ASGI"
OURS = "toolcrib (2 tools)"
MANY = "toolcrib (5,000 tools)"
KEPT = "toolcrib (sqlite)"
CONNECTIONS = (16, 64)
SDK = Served("mcp-served", "mcp==2.3.0", f"{MODULES}.peers.sdk")


def _servers(run: Run) -> dict[str, list[str]]:
    """How each row is started."""
    own = sys.executable
    rows = {
        BARE: [own, f"{MODULES}.bare"],
        OURS: [own, f"{MODULES}.crib", "2", "memory"],
        MANY: [own, f"{MODULES}.crib", "5000", "memory"],
        KEPT: [own, f"{MODULES}.crib", "2", "sqlite"],
    }
    run.add_peers(rows, SDK, FASTMCP)
    return rows


def _calls(run: Run) -> Section:
    """Calls a second, by turns: in each turn every row is held against the bare one."""
    seconds, turns = (1.0, 1) if run.quick else (4.0, 3)
    found: dict[str, dict[int, list[dict[str, float]]]] = {}
    rows = _servers(run)
    for turn in range(turns):
        for row, argv in rows.items():
            run.say(f"measuring: {row}, turn {turn + 1} of {turns}")
            try:
                with served(argv) as (port, _):
                    for width in CONNECTIONS:
                        one = probe("mcp.load", port, width, seconds)
                        found.setdefault(row, {}).setdefault(width, []).append(one)
            except Failed as reason:
                run.problems.append(f"{row} does not run: {reason}")
    return Section(
        name="calls",
        title="tools/call over HTTP, calls a second",
        columns=("row", *(f"{width} connections" for width in CONNECTIONS), "share of bare", "p99 at 16", "p99 at 64"),
        cells=tuple(_cells(found)),
        notes=(
            "Median of the turns; the share is that of the same turn. All by uvicorn with uvloop and httptools, one "
            "process, one load generator on the other core.",
            "Goal: at least 1/4 of bare at 16 and 64, p99 at most 10 ms at 16, 2 against 5,000 tools within 10 %.",
            *run.problems,
        ),
        data={row: {str(width): turns for width, turns in widths.items()} for row, widths in found.items()},
    )


def _cells(found: dict[str, dict[int, list[dict[str, float]]]]) -> Iterator[tuple[str, ...]]:
    for row, widths in found.items():
        shares = [
            f"{median(a['calls_s'] / b['calls_s'] for a, b in zip(turns, found[BARE][width], strict=False)):.2f}"
            for width, turns in widths.items()
        ]
        speeds = [f"{median(one['calls_s'] for one in turns):,.0f}" for turns in widths.values()]
        late = [f"{median(one['p99_ms'] for one in turns):.1f} ms" for turns in widths.values()]
        yield (row, *speeds, " and ".join(shares), *late)


def _pipes(run: Run) -> Section:
    """Round trips over standard input and output."""
    run.say("measuring: round trips through a pipe")
    size = (500 if run.quick else 3000, 2 if run.quick else 5)
    idle = probe("mcp.trips", *size)
    with _awake():
        awake = probe("mcp.trips", *size)
    rows = (("", idle), (", processors kept awake", awake))
    return Section(
        name="stdio",
        title="tools/call over stdio, a round trip",
        columns=("row", "time", "times the echo"),
        cells=tuple(
            (f"{name}{how}", f"{found[key]:.0f} us", f"{found[key] / found['echo']:.1f}")
            for how, found in rows
            for name, key in (("echo process", "echo"), ("toolcrib", "pipe"))
        ),
        notes=(
            "Median of single round trips, by turns. Goal: at most 3 times the echo.",
            "Two processes that wait for each other let their processors sleep, and to wake one may take longer than a"
            " call; kept awake, by programs of the lowest priority, what is left is the work.",
        ),
        data={"idle": idle, "awake": awake},
    )


@contextmanager
def _awake() -> Iterator[None]:
    """No processor sleeps meanwhile."""
    idle = [
        subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for process in idle:
            process.kill()
            process.wait()


def _weight(run: Run) -> Section:
    """What clients cost that do nothing, and what is left of those that hang up."""
    sessions, streams, hangups = (500, 200, 1_000) if run.quick else (5_000, 1_000, 10_000)
    run.say(f"measuring: {sessions:,} sessions, {streams:,} streams, {hangups:,} clients that hang up")
    with served([sys.executable, f"{MODULES}.crib", "2", "memory"]) as (port, pid):
        found = probe("mcp.weigh", port, pid, sessions, streams, hangups)
    return Section(
        name="weight",
        title="What clients cost",
        columns=("row", "memory each", "files left"),
        cells=(
            ("idle session, after one call", f"{found['session_bytes'] / 1024:.1f} KB", ""),
            ("open stream", f"{found['stream_bytes'] / 1024:.1f} KB", ""),
            (f"left of {hangups:,} that hung up", f"{found['left_bytes']} B", str(found["left_files"])),
        ),
        notes=("What the process grew by. Goal: 10 KB a session, 25 KB a stream, nothing left.",),
        data=found,
    )


PARTS: dict[str, Part] = {"calls": _calls, "stdio": _pipes, "weight": _weight}


if __name__ == "__main__":
    sys.exit(run_parts("mcp", __doc__, PARTS))

"""`make bench-http`: the HTTP server beside a bare ASGI application and the servers of ADK and FastMCP, in one run.

All are served by uvicorn with uvloop and httptools and called by the same load generator. Timings never fail anything;
what counts is how far a row is from the others beside it.
"""

import sys
from collections.abc import Iterator
from statistics import median

from bench.probe import Failed, probe
from bench.section import Section
from bench.served import FASTMCP, Part, Run, Served, run_parts, served

MODULES = "bench.probes.http"
BARE = "bare ASGI"
MEMORY = "toolcrib (memory)"
SQLITE = "toolcrib (sqlite)"
ADK = Served("google-adk-served", "google-adk==2.13.0", "bench.workers.http_google_adk")
PEERS = (FASTMCP.requirement, ADK.requirement)
CONNECTIONS = 64
TALKING = 16
STREAMS = 1_000
TOGETHER = 64

Rows = dict[str, tuple[list[str], str]]
"""How the server of each row is started, and what is done with it."""

Found = dict[str, list[dict[str, float]]]
"""What was measured of each row in each turn."""


def _ours(store: str) -> list[str]:
    return [sys.executable, f"{MODULES}.crib", store]


def _by_turns(run: Run, rows: Rows, connections: int) -> Found:
    """Every row by turns, each time on a new server."""
    seconds, turns = (1.0, 1) if run.quick else (4.0, 3)
    found: Found = {}
    for turn in range(turns):
        for row, (argv, work) in rows.items():
            run.say(f"measuring: {row}, connections: {connections}, turn {turn + 1} of {turns}")
            try:
                with served(argv) as (port, pid):
                    one = probe("http.load", port, pid, work, connections, seconds)
                found.setdefault(row, []).append(one)
            except Failed as reason:
                run.problems.append(f"{row} does not run: {reason}")
    return found


def _calls(run: Run) -> Section:
    """Calls a second, by turns: in each turn every row is held against those beside it."""
    servers = {BARE: [sys.executable, "bench.probes.mcp.bare"], MEMORY: _ours("memory"), SQLITE: _ours("sqlite")}
    run.add_peers(servers, FASTMCP, ADK)
    works = {MEMORY: "calls", SQLITE: "calls", ADK.requirement: "adk"}
    found = _by_turns(run, {row: (argv, works.get(row, "mcp")) for row, argv in servers.items()}, CONNECTIONS)
    return Section(
        name="calls",
        title=f"Calls over HTTP, {CONNECTIONS} connections",
        columns=("row", "calls a second", "times the better peer", "share of bare", "CPU a call", "p50", "p99"),
        cells=tuple(_cells(found)),
        notes=(
            "Median of the turns; ratios are those of the same turn, CPU is that of the server. All by uvicorn with "
            "uvloop and httptools, one process, connections kept open, one load generator on the other core.",
            "toolcrib: `POST /v1/sessions/{session}/calls` of `add`, a session a connection; each call is decided on "
            "and on the log. fastmcp: `tools/call` of `add` over streamable HTTP, JSON answers, no sessions.",
            "google-adk has no request for a call alone: `POST /run` of its API server, in memory, a new session each, "
            "with a scripted model that calls `add` and does not hear of its result (`skip_summarization`), which is "
            "the least that it can do. A whole turn of both is in the table of turns.",
            "Goal: at least 4 times the better of the two.",
            *run.problems,
        ),
        data=dict(found),
    )


def _cells(found: Found) -> Iterator[tuple[str, ...]]:
    peers = [[one["calls_s"] for one in found[name]] for name in PEERS if name in found]
    better = [max(turn) for turn in zip(*peers, strict=False)]
    bare = [one["calls_s"] for one in found.get(BARE, ())]
    for row, turns in found.items():
        speeds = [one["calls_s"] for one in turns]
        times = (f"{median(one[key] for one in turns):.1f} ms" for key in ("p50_ms", "p99_ms"))
        ratios = _times(speeds, better, ".1f"), _times(speeds, bare, ".2f")
        yield (row, f"{median(speeds):,.0f}", *ratios, f"{median(one['cpu_us'] for one in turns):,.0f} us", *times)


def _times(speeds: list[float], others: list[float], shape: str) -> str:
    """How many times as many, in the middle of the turns."""
    ratios = [one / other for one, other in zip(speeds, others, strict=False)]
    return format(median(ratios), shape) if ratios else "-"


def _streams(run: Run) -> Section:
    """How soon events reach open streams, and what a stream costs."""
    streams, rounds = (200, 3) if run.quick else (STREAMS, 20)
    layouts = {
        "on one session": (1, 1),
        "on a session each, calls one by one": (streams, 1),
        f"on a session each, {TOGETHER} calls at once": (streams, TOGETHER),
    }
    found = {}
    for store in ("memory", "sqlite"):
        for layout, (sessions, together) in layouts.items():
            run.say(f"measuring: {streams:,} streams {layout}, {store}")
            with served(_ours(store)) as (port, pid):
                turns = rounds if sessions == 1 else max(1, rounds // 5)
                found[f"toolcrib ({store}), {layout}"] = probe(
                    "http.streams", port, pid, streams, sessions, turns, together
                )
    return Section(
        name="streams",
        title=f"{streams:,} open streams of events",
        columns=("row", "p50", "p99", "highest", "arrivals", "memory a stream"),
        cells=tuple(
            (
                row,
                *(f"{one[key]:.1f} ms" for key in ("p50_ms", "p99_ms", "highest_ms")),
                f"{one['arrivals']:,.0f}",
                f"{one['stream_bytes'] / 1024:.1f} KB",
            )
            for row, one in found.items()
        ),
        notes=(
            "From the event that ends a call, taken just before its commit, to its arrival at each stream that follows "
            "its session; one reader process, on the other core, takes what all streams get.",
            f"{TOGETHER} calls at once: each caller goes on when it is answered, for a read before its commit; "
            "the time holds what queues for the writer.",
            "Memory is what the server grew by while the streams were opened; their sessions were open before.",
            "Goal: p99 at most 100 ms with 1,000 streams, and less than 50 KB a stream.",
        ),
        data=found,
    )


def _turns(run: Run) -> Section:
    """Whole turns of an agent through the protocols of front ends."""
    servers = {MEMORY: _ours("memory"), SQLITE: _ours("sqlite")}
    run.add_peers(servers, ADK)
    own, theirs = {"/ag-ui": "ag-ui", "/ai-sdk": "ai-sdk"}, {"/run": "adk-turns", "/run_sse": "adk-sse"}
    rows: Rows = {
        f"{server} {path}": (argv, work)
        for server, argv in servers.items()
        for path, work in (theirs if server == ADK.requirement else own).items()
    }
    alone, many = _by_turns(run, rows, 1), _by_turns(run, rows, TALKING)
    return Section(
        name="turns",
        title="A turn of an agent over HTTP",
        columns=("row", "one at a time, p50", "p99", "CPU a turn", f"turns a second, {TALKING} connections"),
        cells=tuple(
            (
                row,
                *(f"{median(one[key] for one in found):.2f} ms" for key in ("p50_ms", "p99_ms")),
                f"{median(one['cpu_us'] for one in found) / 1e3:.2f} ms",
                f"{median(one['calls_s'] for one in many[row]):,.0f}" if row in many else "-",
            )
            for row, found in alone.items()
        ),
        notes=(
            "A message, a model that follows a script and calls `add`, the result, its last words; a new session each. "
            "Median of the turns of the benchmark. google-adk keeps its sessions in memory.",
            *run.problems,
        ),
        data={row: {"1": found, str(TALKING): many.get(row, [])} for row, found in alone.items()},
    )


PARTS: dict[str, Part] = {"calls": _calls, "streams": _streams, "turns": _turns}


if __name__ == "__main__":
    sys.exit(run_parts("http", __doc__, PARTS))

"""`make bench-gateway`: what MCP servers behind Toolcrib cost: added time, calls a second, many servers, many people.

The proxy of FastMCP stands in front of the same server in the same run. Rows take turns call by call, so that what else
the machine does hits all alike; on a busy machine `chrt -f 50` (`chrt -r 50` for the parts with many processes) keeps
the others from being measured too.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from bench.probe import Failed, probe
from bench.section import Section
from bench.served import Part, Run, Served, run_parts, served

MODULES = "bench.probes.mcp"
DIRECT = "the server itself"
FASTMCP_PROXY = Served("fastmcp-served", "fastmcp==4.1.2", f"{MODULES}.peers.fast_proxy")
CONNECTIONS = (1, 16)


def _added(run: Run) -> Section:
    """What a proxy adds to a call, on pipes and over HTTP, by turns."""
    calls = 100 if run.quick else 1000
    proxies = {"toolcrib": [sys.executable, f"{MODULES}.proxy"]}
    run.add_peers(proxies, FASTMCP_PROXY)
    upstream = [sys.executable, "-m", f"{MODULES}.upstream"]
    run.say(f"measuring: {calls:,} calls through each proxy on pipes")
    pipes = {DIRECT: upstream} | {name: [argv[0], "-m", argv[1], "-", *upstream] for name, argv in proxies.items()}
    found = {"stdio": _measured(run, "stdio", calls, pipes)}
    with _behind(run, proxies) as ports:
        run.say(f"measuring: {calls:,} calls through each proxy over HTTP")
        found["http"] = _measured(run, "http", calls, ports)
    return Section(
        name="added",
        title="What a proxy adds to a call",
        columns=("row", "median", "p99", "added to the median", "the same for the first of a turn"),
        cells=tuple(_added_cells(found)),
        notes=(
            f"{calls:,} single calls of each row, 20 of each by turns, so that what else the machine does hits all; "
            "the first of a turn finds the caches of the processor cold. "
            "Clients of 2025-11-25; toolcrib decides on each call and logs it. Goal: at most 1.5 ms added.",
            _load(),
            *run.problems,
        ),
        data=found,
    )


def _measured(run: Run, way: str, calls: int, rows: Mapping[str, object]) -> dict[str, dict[str, float]]:
    """The rows together or, where one does not take part, those that do."""
    try:
        result: dict[str, dict[str, float]] = probe("mcp.added", way, calls, json.dumps(rows))
    except Failed as reason:
        run.problems.append(f"{way}: {reason}")
        own = {name: rows[name] for name in (DIRECT, "toolcrib")}
        result = probe("mcp.added", way, calls, json.dumps(own))
    return result


def _added_cells(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[tuple[str, ...]]:
    for way, rows in found.items():
        for name, one in rows.items():
            added = (one[key] - rows[DIRECT][key] for key in ("median", "first"))
            more = ("", "") if name == DIRECT else (f"{ms:.2f} ms" for ms in added)
            yield f"{way}, {name}", f"{one['median']:.2f} ms", f"{one['p99']:.1f} ms", *more


@contextmanager
def _behind(run: Run, proxies: Mapping[str, list[str]]) -> Iterator[dict[str, int]]:
    """A server and the proxies in front of it, over HTTP; the ports of all."""
    with ExitStack() as stack:
        port, _ = stack.enter_context(served([sys.executable, f"{MODULES}.crib", "2", "memory"]))
        ports = {DIRECT: port}
        for name, argv in proxies.items():
            try:
                ports[name] = stack.enter_context(served([*argv, f"http://127.0.0.1:{port}/mcp"]))[0]
            except Failed as reason:
                run.problems.append(f"{name} does not run: {reason}")
        yield ports


def _calls(run: Run) -> Section:
    """Calls a second through each proxy over HTTP, one row after the other."""
    seconds = 1.0 if run.quick else 4.0
    proxies = {"toolcrib": [sys.executable, f"{MODULES}.proxy"]}
    run.add_peers(proxies, FASTMCP_PROXY)
    found: dict[str, dict[int, dict[str, float]]] = {}
    with _behind(run, proxies) as ports:
        for name, port in ports.items():
            run.say(f"measuring: calls a second, {name}")
            try:
                found[name] = {width: probe("mcp.load", port, width, seconds) for width in CONNECTIONS}
            except Failed as reason:
                run.problems.append(f"{name} does not take part: {reason}")
    return Section(
        name="calls",
        title="tools/call through a proxy over HTTP, calls a second",
        columns=("row", "one connection", "16 connections", "p99 at 16"),
        cells=tuple(
            (
                name,
                *(f"{one['calls_s']:,.0f}" for one in widths.values()),
                f"{widths[CONNECTIONS[-1]]['p99_ms']:.1f} ms",
            )
            for name, widths in found.items()
        ),
        notes=("Clients of 2026-07-28, one process each, on the same two cores as the load.", _load(), *run.problems),
        data=found,
    )


def _load() -> str:
    return f"The load average was {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors."


def _many(run: Run) -> Section:
    """Many servers of which some are dead, and many people on one that keeps state."""
    upstreams, dead, people = (10, 2, 5) if run.quick else (50, 10, 20)
    run.say(f"measuring: {upstreams} servers, {dead} of them dead, and {people} people on one")
    found = probe("mcp.many", upstreams, dead, people)
    memory = (found["after"] - found["before"]) / people / 1024
    listed = f"{found['listed']:.2f} s" if "listed" in found else "not within 300 s"
    return Section(
        name="many",
        title="Many servers, many people",
        columns=("row", "found"),
        cells=(
            ("`toolcrib serve` without servers answers after", f"{found['empty']:.2f} s"),
            (f"with {upstreams} servers, {dead} of them dead", f"{found['listens']:.2f} s"),
            (f"the tools of the {upstreams - dead} living ones are listed after", listed),
            (f"{people} people on one server that keeps state: processes of it", str(found["processes"])),
            ("people who met their own state alone", f"{found['own_state']} of {people}"),
            ("memory of Toolcrib for each", f"{memory:.0f} KB"),
        ),
        notes=("From the start of the process. Goal: it answers within 1 s, whatever its servers do.", _load()),
        data=found,
    )


PARTS: dict[str, Part] = {"added": _added, "calls": _calls, "many": _many}


if __name__ == "__main__":
    sys.exit(run_parts("gateway", __doc__, PARTS))

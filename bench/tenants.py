"""Two owners on one server with keys: what a quiet one notices of another who has 256 calls in flight."""

import os
from statistics import median
from typing import Any

from bench.probe import probe
from bench.section import Section

IN_FLIGHT = 256
ROWS = (("memory", "read", "read"), ("memory", "read", "slow"), ("sqlite", "once", "once"), ("sqlite", "once", "slow"))
"""The store, what the quiet owner calls, and what the noisy one does."""

Found = dict[tuple[str, str, str], list[dict[str, Any]]]


def measure(quick: bool) -> Section:
    """Each row by turns, each time on a new server."""
    turns, calls, found = (1, 100, Found()) if quick else (5, 400, Found())
    for _ in range(turns):
        for row in ROWS:
            store, tool, noise = row
            found.setdefault(row, []).append(probe("tenants.server", store, noise, tool, IN_FLIGHT, calls))
    return Section(
        name="tenants",
        title=f"Two owners over HTTP: a quiet one beside {IN_FLIGHT} calls in flight of another",
        columns=(
            "row",
            "alone: CPU p50",
            "p99",
            "beside: CPU p50",
            "p99",
            "p99 ratio",
            "p99 ratio by the clock",
            "noisy",
        ),
        cells=tuple(_cells(row, turns) for row, turns in found.items()),
        notes=(
            "Median of the turns. A server with keys; the quiet owner makes one call after the other with a pause of "
            "2 ms, the noisy one has as many connections as calls in flight, each of which sends again when answered. "
            "`slow` takes 0 to 200 ms.",
            "Server and clients are one process. CPU is its time while a call of the quiet owner is under way, with "
            "that of both clients and of the store's thread: it does not depend on what else the machine does. Time "
            f"on the clock does: the load average was {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.",
            "Goal: the quiet owner's p99 beside the other at most 3 times that alone.",
        ),
        data={" ".join(row): turns for row, turns in found.items()},
    )


def _cells(row: tuple[str, str, str], turns: list[dict[str, Any]]) -> tuple[str, ...]:
    store, tool, noise = row

    def of(part: str, key: str) -> float:
        return float(median(turn[part][key] for turn in turns))

    def ratio(key: str) -> str:
        return f"{median(turn['beside'][key] / turn['alone'][key] for turn in turns):.1f}"

    times = (f"{of(part, key):.2f} ms" for part in ("alone", "beside") for key in ("cpu_p50_ms", "cpu_p99_ms"))
    name = f"toolcrib ({store}): `{tool}` beside `{noise}`"
    noisy = f"{median(turn['noisy_calls_s'] for turn in turns):,.0f}/s"
    return name, *times, ratio("cpu_p99_ms"), ratio("wall_p99_ms"), noisy

"""Durable calls a second on SQLite, beside what the plain driver reaches with the same rows and batches."""

from typing import Any

from bench.probe import probe
from bench.section import Section

SYNC = ("start", "full")
IN_FLIGHT = (64, 1)

Rows = dict[tuple[str, int], dict[str, Any]]


def measure(quick: bool) -> Section:
    """Calls of a `once` tool, many in flight and one at a time."""
    found: Rows = {(sync, width): _both(sync, width, quick) for sync in SYNC for width in IN_FLIGHT}
    return Section(
        name="durable",
        title="Durable calls a second on SQLite (effect `once`)",
        columns=("row", "toolcrib", "raw sqlite3", "share of the raw limit"),
        cells=tuple(_cells(found)),
        notes=(
            "Wall time, median of the turns. Raw: sqlite3 executemany of the same event and call rows, with the same "
            "pragmas, two commits a call, as many calls a commit as are in flight.",
            "sync=start (the default) waits for the disk before a once call starts; sync=full waits at each commit. "
            "A kill loses nothing with either.",
            "Goal: at least 10,000 with 64 in flight and 2,000 one at a time.",
        ),
        data={f"sync={sync}, {width} in flight": row for (sync, width), row in found.items()},
    )


def _cells(found: Rows) -> list[tuple[str, ...]]:
    return [
        (
            f"sync={sync}, {width} in flight",
            f"{row['calls_s']:,}",
            f"{row['raw_s']:,}",
            f"{row['calls_s'] / row['raw_s']:.2f}",
        )
        for (sync, width), row in found.items()
    ]


def _both(sync: str, width: int, quick: bool) -> dict[str, Any]:
    calls = (2_048 if quick else 20_480) if width > 1 else (300 if quick else 3_000)
    row: dict[str, Any] = probe("durable", sync, width, calls, 2 if quick else 3)
    return row

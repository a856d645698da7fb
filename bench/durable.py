"""Durable calls a second on SQLite, beside what the plain driver reaches with the same rows and batches."""

from typing import Any

from bench.probe import probe
from bench.section import Section

IN_FLIGHT = (64, 1)


def measure(quick: bool) -> Section:
    """Calls of a `once` tool, many in flight and one at a time."""
    found = {width: _both(width, quick) for width in IN_FLIGHT}
    return Section(
        name="durable",
        title="Durable calls a second on SQLite (effect `once`)",
        columns=("row", "toolcrib", "raw sqlite3", "share of the raw limit"),
        cells=tuple(
            (
                f"{width} in flight",
                f"{row['calls_s']:,.0f}",
                f"{row['raw_s']:,.0f}",
                f"{row['calls_s'] / row['raw_s']:.2f}",
            )
            for width, row in found.items()
        ),
        notes=(
            "Wall time, median of the turns. Raw: sqlite3 executemany of as many event and call rows of the same size, "
            "with the same pragmas, committed as often.",
            "Goal: at least 10,000 with 64 in flight and 2,000 one at a time.",
        ),
        data={f"{width} in flight": row for width, row in found.items()},
    )


def _both(width: int, quick: bool) -> dict[str, Any]:
    calls = (2_000 if quick else 20_000) if width > 1 else (300 if quick else 3_000)
    row: dict[str, Any] = probe("durable", width, calls, 2 if quick else 3)
    return row

"""Whether a call costs more in a long session."""

from statistics import median

from bench.probe import probe
from bench.section import Section

SHORT = 10


def measure(quick: bool) -> Section:
    """CPU per call in a session of 10 events and in a long one, by turns."""
    events = 10_000 if quick else 100_000
    found = {store: _both(store, events, 1 if quick else 5) for store in ("memory", "sqlite")}
    return Section(
        name="length",
        title="Cost of a call by the length of its session",
        columns=("row", f"{SHORT} events", f"{events:,} events", "ratio"),
        cells=tuple(
            (f"toolcrib ({store})", f"{row['short_us']:.1f} us", f"{row['long_us']:.1f} us", f"{row['ratio']:.2f}")
            for store, row in found.items()
        ),
        notes=("CPU per call of `add`, garbage collection included. Goal: a ratio within 1.2.",),
        data={"events": events, **found},
    )


def _both(store: str, events: int, turns: int) -> dict[str, float]:
    pairs = [tuple(float(probe("length", store, many)["us"]) for many in (SHORT, events)) for _ in range(turns)]
    return {
        "short_us": median(short for short, _ in pairs),
        "long_us": median(long for _, long in pairs),
        "ratio": round(median(long / short for short, long in pairs), 3),
    }

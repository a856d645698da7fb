"""Whether a call costs more in a long session."""

from bench.probe import probe
from bench.section import Section

SHORT = 10


def measure(quick: bool) -> Section:
    """CPU per call in a session of 10 events and in a long one, turn by turn."""
    events = 10_000 if quick else 100_000
    found = {store: probe("length", store, SHORT, events) for store in ("memory", "sqlite")}
    return Section(
        name="length",
        title="Cost of a call by the length of its session",
        columns=("row", f"{SHORT} events", f"{events:,} events", "ratio"),
        cells=tuple(
            (f"toolcrib ({store})", f"{row['short_us']:.1f} us", f"{row['long_us']:.1f} us", f"{row['ratio']:.2f}")
            for store, row in found.items()
        ),
        notes=("CPU per call of `add`. Goal: a ratio within 1.2.",),
        data={"events": events, **found},
    )

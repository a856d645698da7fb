"""What open sessions cost that do nothing."""

from bench.probe import probe
from bench.section import Section


def measure(quick: bool) -> Section:
    """Memory of many idle sessions on each store."""
    count = 1_000 if quick else 10_000
    found = {store: probe("idle", store, count) for store in ("memory", "sqlite")}
    return Section(
        name="idle",
        title=f"{count:,} open idle sessions",
        columns=("row", "memory", "a session", "to open one"),
        cells=tuple(
            (f"toolcrib ({store})", f"{row['mb']:.1f} MB", f"{row['mb'] * 1e6 / count:,.0f} B", f"{row['us']:.0f} us")
            for store, row in found.items()
        ),
        notes=("Memory is what the process grew by. Goal: 10,000 in under 60 MB.",),
        data={"sessions": count, **found},
    )

"""How long a chunk of a stream takes to its reader."""

from bench.probe import probe
from bench.section import Section


def measure(quick: bool) -> Section:
    """Yield in the tool to event in the reader, 50 streams at once, on SQLite."""
    streams, chunks = 50, 20 if quick else 100
    row = probe("stream", streams, chunks)
    return Section(
        name="stream",
        title=f"Yield to reader, {streams} streams on SQLite",
        columns=("row", "p50", "p95", "highest", "chunks"),
        cells=(("toolcrib", *(f"{row[key]:.2f} ms" for key in ("p50", "p95", "max")), f"{row['chunks']:,}"),),
        notes=("Each chunk is committed before its reader sees it. Each stream makes a chunk every 20 ms.",),
        data=row,
    )

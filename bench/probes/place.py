"""Where a probe keeps its store."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.probe import scratch


@contextmanager
def place(store: str) -> Iterator[str]:
    """The address of a new store of that kind, gone afterwards."""
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        yield "memory:" if store == "memory" else f"sqlite:///{Path(folder) / 'bench.db'}"

"""The demo: an order desk with its console (`python -m toolcrib.demo`), and a tour of it in the terminal (`--tour`).

`--crib toolcrib.demo:crib` names its crib.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import quote

from toolcrib.crib import Crib
from toolcrib.demo import clerk, desk


def crib(folder: Path | None = None) -> Crib:
    """The crib of the order desk, on SQLite in a folder that all runs of the demo share."""
    folder = folder or home()
    store = f"sqlite:///{quote(str(folder.resolve() / 'demo.db'))}"
    shop = desk.Shop(folder)
    return Crib([desk], store=store, deps={"shop": shop}, default_namespaces=("desk",), agents=clerk.agents())


def home() -> Path:
    """Where the demo keeps its files: `TOOLCRIB_DEMO`, else a folder of this user among the temporary ones."""
    folder = Path(os.environ.get("TOOLCRIB_DEMO") or Path(tempfile.gettempdir()) / f"toolcrib-demo-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder

"""The demo: an order desk with its console (`toolcrib demo`), and a tour of it in the terminal (`--tour`).

`--crib toolcrib.demo:crib` names its crib.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import quote

from toolcrib.crib import Crib
from toolcrib.demo import agents, shop


def crib(folder: Path | None = None) -> Crib:
    """The crib of the order desk, on SQLite in a folder that all runs of the demo share."""
    from toolcrib.demo.workspace import policy, toolkits

    folder = (folder or home()).resolve()
    kits = toolkits(folder)
    store = f"sqlite:///{quote(str(folder / 'demo.db'))}"
    open_to_all = ("desk", *(kit.name for kit in kits))
    deps = {"shop": shop.Shop(folder)}
    return Crib(
        [shop, *kits],
        store=store,
        deps=deps,
        policy=policy(),
        workspace=folder / "workspace",
        default_namespaces=open_to_all,
        agents=agents.agents(),
    )


def home() -> Path:
    """Where the demo keeps its files: `TOOLCRIB_DEMO`, else a folder of this user among the temporary ones."""
    folder = Path(os.environ.get("TOOLCRIB_DEMO") or Path(tempfile.gettempdir()) / f"toolcrib-demo-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder

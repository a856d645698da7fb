"""What the general toolkits of the demo work on: a folder of notes, and a database of what was sold.

It is made at the first start and left alone afterwards; nothing of it needs a key or a network.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolcrib.demo import shop

NOTES = {
    "returns.md": """\
# Returns
Money goes back within 30 days, to the card that paid.

# Damaged parcels
Ask for a picture first. A scratch is worth 10 percent, a dent 25.
""",
    "opening-hours.txt": "The desk is open from 8 to 17, on Saturdays until 12.\n",
}
_TABLE = "CREATE TABLE orders (id TEXT PRIMARY KEY, item TEXT NOT NULL, cents INTEGER NOT NULL, city TEXT NOT NULL)"
CHAIN_ID = 31337
RPC = "TOOLCRIB_DEMO_RPC"
"""The variable that names an anvil, where somebody runs one for the demo."""


def policy() -> dict[str, Any]:
    """Notes may be read, and a wallet, where there is one, may be used; everything else that needs a right asks."""
    wallet = ["payments:initiate"] if os.environ.get(RPC) else []
    return {"grants": {"allow": ["fs:read:${workspace}/**", *wallet], "ungranted": "ask"}}


def toolkits(folder: Path) -> list[Any]:
    """The toolkits, over what is in the folder of the demo."""
    from toolcrib.toolkits import files, sql, time

    notes, database = _notes(folder / "workspace"), _database(folder / "orders.db")
    made: list[Any] = [time.tools(), files.tools(root=notes), sql.tools(databases={"orders": database})]
    if find_spec("httpx") is not None:
        from toolcrib.toolkits import search

        made.append(search.tools(docs=notes))
    return made + _chain(os.environ.get(RPC))


def _chain(rpc: str | None) -> list[Any]:
    """The chain toolkits, where somebody runs an anvil for the demo."""
    if not rpc:
        return []
    from toolcrib.chain import Chain, Chains, account, cast, ethereum, forge, wallet

    chains = Chains([Chain(CHAIN_ID, "anvil", rpc, local=True, propose=True)])
    return [kit.tools(chains) for kit in (ethereum, account, cast, wallet, forge)]


def _notes(folder: Path, notes: Mapping[str, str] = NOTES) -> Path:
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        for name, text in notes.items():
            (folder / name).write_text(text, "utf-8")
    return folder


def _database(path: Path) -> Path:
    """Made beside and put in place whole, since several processes may start at once."""
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        part.unlink(missing_ok=True)
        with closing(sqlite3.connect(part)) as database:
            database.execute(_TABLE)
            rows = [(one.id, one.item, one.cents, one.city) for one in shop.ORDERS.values()]
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)
            database.commit()
        part.replace(path)
    return path

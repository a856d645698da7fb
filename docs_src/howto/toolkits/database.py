import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from toolcrib import Crib
from toolcrib.toolkits import sql


async def main(path: Path) -> None:
    async with Crib([sql.tools({"shop": path})]) as crib:
        session = await crib.open(owner="ada", namespaces=["sql"])
        query = {"database": "shop", "sql": "SELECT id FROM orders WHERE status = ?", "params": ["open"]}
        print((await session.call("sql_query", query)).data)
        print((await session.call("sql_query", {"database": "shop", "sql": "DELETE FROM orders"})).text)


with tempfile.TemporaryDirectory() as made:
    with closing(sqlite3.connect(Path(made, "shop.db"))) as database:
        database.executescript("CREATE TABLE orders (id, status); INSERT INTO orders VALUES (1, 'open'), (2, 'paid');")
    asyncio.run(main(Path(made, "shop.db")))

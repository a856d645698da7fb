"""A second process on the same file. Usage: python -m tests.store.second <url> <worker> <how many>

It says `ready`, writes that many events into session `s`, says `done`, and then stays until its input ends.
"""

import asyncio
import sys

from toolcrib.store import Write
from toolcrib.store.sqlite.store import SqliteStore
from toolcrib.testing.stores.fixture import line


async def main(url: str, worker: str, count: int) -> None:
    store = SqliteStore(url)
    await store.start(worker)
    await store.open("s", "ada", 0.0)
    print("ready", flush=True)
    for number in range(count):
        write = Write("s", [line(f"{worker} {number}")])
        if number % 3:
            store.put(write)
        else:
            await store.commit(write)
    await store.flush()
    print("done", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

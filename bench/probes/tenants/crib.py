"""Usage: crib <port> <store>. A crib with keys for two owners, served as users serve it."""

import asyncio
import hashlib
import signal
import sys

import uvloop

from bench.probes.place import place
from bench.probes.tenants.messages import KEYS
from toolcrib import Crib, tool
from toolcrib.serve.http import Site, server, settle
from toolcrib.serve.keys import ApiKeys
from toolcrib.serve.principal import Principal

SLOW_S = 0.1


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def pay(a: int, b: int) -> int:
    """Add two numbers, once."""
    return a + b


@tool(read_only=True)
async def slow(a: int, b: int) -> int:
    """Add two numbers slowly."""
    await asyncio.sleep(SLOW_S)
    return a + b


async def main(port: int, store: str) -> None:
    """Serves until it is told to stop."""
    known = {hashlib.sha256(key.encode()).hexdigest(): Principal(name, auth="key") for name, key in KEYS.items()}
    site = Site(Crib([add, pay, slow], store=store, policy={"default": "allow"}), guard=ApiKeys(known))
    settle()
    serving = server(site, lambda: print("ready", flush=True), port=port, timeout_keep_alive=60)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.handle_exit, signal.SIGTERM, None)
    await serving.serve()


if __name__ == "__main__":
    with place(sys.argv[2]) as url:
        uvloop.run(main(int(sys.argv[1]), url))

"""A server that is killed: `python -m tests.client.node PORT STORE [ENGINE]`. It says when it listens."""

from __future__ import annotations

import sys

from tests.client.tools import crib
from toolcrib.serve.http import Site, server


def main() -> None:
    port, store, *engine = sys.argv[1:]
    made = crib(store=store, engine=engine[0] if engine else None, default_namespaces=("shop",))
    server(Site(made), lambda: print("ready", flush=True), host="127.0.0.1", port=int(port), log_level="error").run()


main()

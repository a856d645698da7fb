"""Runs the official suites through Toolcrib as a proxy: `make conformance-proxy`.

The server in front is `toolcrib serve --mcp` with one entry in its `crib.yaml`, the fixture server behind it, which
passes all scenarios by itself. The breaker is off, as it is for tools of the fixture that fail on purpose. The table
shows both, and every scenario that passes directly and not through the proxy.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.conformance.run import ROOT, ROWS, START_S, Row, await_port, fixture, free_port, install, run

CRIB = """\
sources:
  - mcp: {url}
    name: reference
    prefix: ""
    trusted: true
    required: true
    breaker: false
serve:
  mcp: {{task_after_s: 0.5, stream_s: 1.5}}
"""


def main() -> int:
    """Installs, runs and prints; 1 where something passes directly and not through the proxy."""
    options = argparse.ArgumentParser(prog="make conformance-proxy", description=__doc__)
    options.add_argument("--log", type=Path, help="a folder for what the suites print")
    log = options.parse_args().log
    install()
    print(f"{'suite':<32} {'direct':>10} {'through':>10}")
    with fixture() as direct, proxy(direct) as through:
        return max(compare(row, direct, through, log) for row in ROWS)


def compare(row: Row, direct: str, through: str, log: Path | None) -> int:
    """One row of the table; 1 where the proxy loses something."""
    alone = run(row, direct, None if log is None else log / "direct")
    behind = run(row, through, None if log is None else log / "through")
    every = alone.passed + alone.beside + len(alone.failed)
    shown = (f"{count.passed + count.beside}/{every}" for count in (alone, behind))
    print(f"{row.name:<32}", *(f"{one:>10}" for one in shown))
    lost = [name for name in behind.failed if name not in alone.failed]
    for name in lost:
        print(f"  lost: {name}")
    return 1 if lost else 0


@contextmanager
def proxy(url: str) -> Iterator[str]:
    """`toolcrib serve` in front of a server; its address."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "crib.yaml").write_text(CRIB.format(url=url))
        argv = [sys.executable, "-m", "toolcrib", "serve", "--mcp", "--no-token", "--port", str(port)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TOOLCRIB_ALLOW_ROOT": "1"}
        with subprocess.Popen(
            argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        ) as process:
            try:
                await_port(process, port)
                address = f"http://127.0.0.1:{port}/mcp"
                _await_tools(address)
                yield address
            finally:
                process.terminate()


def _await_tools(address: str) -> None:
    """Returns when the proxy is greeted: it starts with its source, which is required."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            answer = httpx.post(address, json=message, headers={"Accept": "application/json, text/event-stream"})
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        if answer.status_code == 200:
            return
        time.sleep(0.05)
    raise SystemExit("the proxy did not start")


if __name__ == "__main__":
    sys.exit(main())

"""Runs the official conformance suites against the fixture server: `make conformance`.

The suites and their Node are installed at pinned versions into `.venv/conformance`. Each row of the table has a mark;
the run fails where a row is below its mark, or the suite has fewer scenarios than there were.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".venv" / "conformance"
NODE = "node@22.23.3"
SUITE = "@modelcontextprotocol/conformance"
STABLE, NEXT = "0.1.16", "0.2.0-alpha.12"
START_S = 60.0
_LINE = re.compile(r"^([✓✗]) ([\w-]+): \d+ passed, \d+ failed", re.MULTILINE)
_UNSCORED = re.compile(r"^  ([✓✗]) ([\w-]+) \(", re.MULTILINE)


class Row(NamedTuple):
    """One run of a suite, and how many scenarios have to pass: scored, and run beside them."""

    name: str
    version: str
    options: tuple[str, ...]
    mark: int
    beside: int = 0


ROWS = (
    Row("0.1.16, all", STABLE, ("--suite", "all"), 32),
    Row("0.2.0, required by 2025-11-25", NEXT, ("--requirements", "2025-11-25"), 30, 3),
    Row("0.2.0, required by 2026-07-28", NEXT, ("--requirements", "2026-07-28"), 37, 13),
    Row("0.2.0, all", NEXT, ("--suite", "all"), 65),
)


class Count(NamedTuple):
    """What a run found: the scenarios that passed, and the names of those that did not."""

    passed: int
    beside: int
    failed: tuple[str, ...]


def main() -> int:
    """Installs, runs and prints; 1 where a mark is missed."""
    options = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    options.add_argument("--url", help="an MCP server that runs already, instead of the fixture server")
    options.add_argument("--log", type=Path, help="a folder for what the suites print")
    given = options.parse_args()
    install()
    if given.url:
        return report(given.url, given.log)
    with fixture() as url:
        return report(url, given.log)


def report(url: str, log: Path | None) -> int:
    """Runs every row and prints its counts."""
    print(f"{'suite':<32} {'passed':>8} {'beside':>8}")
    missed = False
    for row in ROWS:
        count = run(row, url, log)
        below = count.passed < row.mark or count.beside < row.beside or bool(count.failed)
        missed = missed or below
        beside = f"{count.beside}/{row.beside}" if row.beside else ""
        told = "BELOW ITS MARK" if below else ""
        print(f"{row.name:<32} {f'{count.passed}/{row.mark}':>8} {beside:>8}  {told}".rstrip())
        for name in count.failed:
            print(f"  failed: {name}")
    return 1 if missed else 0


def run(row: Row, url: str, log: Path | None) -> Count:
    """What one run of a suite found."""
    command = [
        str(PLACE / "node" / "node_modules" / "node" / "bin" / "node"),
        str(_suite(row.version) / "dist/index.js"),
    ]
    done = subprocess.run(
        [*command, "server", "--url", url, *row.options],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=PLACE,
        check=False,
    )
    if log is not None:
        log.mkdir(parents=True, exist_ok=True)
        (log / f"{row.name.replace(', ', '-').replace(' ', '-')}.txt").write_text(done.stdout + done.stderr)
    summary = done.stdout.partition("=== SUMMARY ===")[2]
    if not summary:
        raise SystemExit(
            f"{row.name}: the suite did not get to its summary\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    beside = {name: mark == "✓" for mark, name in _UNSCORED.findall(summary)}
    scored = {name: mark == "✓" for mark, name in _LINE.findall(summary) if name not in beside}
    failed = tuple(name for name, passed in (*scored.items(), *beside.items()) if not passed)
    return Count(sum(scored.values()), sum(beside.values()), failed)


def install() -> None:
    """Puts Node and both suites where they are used, once."""
    _npm("node", NODE)
    for version in (STABLE, NEXT):
        _npm(version, f"{SUITE}@{version}")


def _suite(version: str) -> Path:
    return PLACE / version / "node_modules" / SUITE


def _npm(folder: str, package: str) -> None:
    place = PLACE / folder
    stamp = place / ".installed"
    if stamp.exists() and stamp.read_text() == package:
        return
    place.mkdir(parents=True, exist_ok=True)
    print(f"installing {package}", file=sys.stderr)
    argv = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(place), package]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"npm could not install {package}:\n{done.stderr or done.stdout}")
    stamp.write_text(package)


@contextmanager
def fixture() -> Iterator[str]:
    """The fixture server in a process of its own; its address."""
    port = free_port()
    argv = [sys.executable, "-m", "tests.conformance.server", str(port)]
    with subprocess.Popen(
        argv, cwd=ROOT, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as process:
        try:
            await_port(process, port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def await_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Returns when a server that was started listens."""
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("a server did not start")


if __name__ == "__main__":
    sys.exit(main())

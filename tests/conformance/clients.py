"""Runs the official conformance suite against the client: the second half of `make conformance`.

The suite plays the servers, and starts `tests.sources.mcp.conformance_client`, an ordinary program with a crib, once
for each of its scenarios. What it runs beside those that a revision requires are extensions of authorization; they are
counted and not asked for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.conformance.run import NEXT, PLACE, ROOT, _suite, install

MARKS = {"2025-11-25": 18, "2026-07-28": 32}
SCENARIO_MS = 150_000  # all start at once
_LINE = re.compile(r"^([✓✗]) ([\w/-]+): \d+ passed, \d+ failed", re.MULTILINE)
_BESIDE = re.compile(r"^  ([✓✗]) ([\w/-]+) \(", re.MULTILINE)


def main() -> int:
    """Runs and prints; 1 where a mark is missed."""
    install()
    print(f"{'client, required by':<32} {'passed':>8} {'beside':>8}")
    return max(report(revision, mark) for revision, mark in MARKS.items())


def report(revision: str, mark: int) -> int:
    """One revision: its counts, and the names of what failed."""
    summary = run(revision)
    beside = {name: sign == "✓" for sign, name in _BESIDE.findall(summary)}
    scored = {name: sign == "✓" for sign, name in _LINE.findall(summary) if name not in beside}
    failed = [name for name, passed in scored.items() if not passed]
    below = bool(failed) or len(scored) < mark
    counts = f"{f'{len(scored) - len(failed)}/{mark}':>8} {f'{sum(beside.values())}/{len(beside)}':>8}"
    print(f"{revision:<32} {counts}  {'BELOW ITS MARK' if below else ''}".rstrip())
    for name in failed:
        print(f"  failed: {name}")
    return 1 if below else 0


def run(revision: str) -> str:
    """What the suite says at its end."""
    node = PLACE / "node" / "node_modules" / "node" / "bin" / "node"
    client = f"{sys.executable} -m tests.sources.mcp.conformance_client"
    words = ["client", "--command", client, "--requirements", revision, "--timeout", str(SCENARIO_MS)]
    done = subprocess.run(
        [str(node), str(_suite(NEXT) / "dist/index.js"), *words],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    summary = done.stdout.partition("=== SUITE SUMMARY ===")[2]
    if not summary:
        raise SystemExit(
            f"{revision}: the suite did not get to its summary\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return summary


if __name__ == "__main__":
    sys.exit(main())

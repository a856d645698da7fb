"""Runs the official conformance suite against the client: the second half of `make conformance`.

The suite plays the servers, and starts `tests.sources.mcp.conformance_client`, an ordinary program with a crib, once
for each of its scenarios. What it runs beside those that a revision requires are extensions of authorization; they are
counted and not asked for. The scenarios of the skills extension, which no revision requires, follow one by one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.conformance.run import NEXT, PLACE, ROOT, _suite, install

MARKS = {"2025-11-25": 18, "2026-07-28": 32}
SKILLS = tuple(
    f"sep-2640-client-{name}" for name in ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")
)
SCENARIO_MS = 150_000  # all start at once
_LINE = re.compile(r"^([✓✗]) ([\w/-]+): \d+ passed, \d+ failed", re.MULTILINE)
_BESIDE = re.compile(r"^  ([✓✗]) ([\w/-]+) \(", re.MULTILINE)


def main() -> int:
    """Runs and prints; 1 where a mark is missed."""
    install()
    print(f"{'client, required by':<32} {'passed':>8} {'beside':>8}")
    return max(*(report(revision, mark) for revision, mark in MARKS.items()), report_skills())


def report(revision: str, mark: int) -> int:
    """One revision: its counts, and the names of what failed."""
    output = run("--requirements", revision)
    summary = output.partition("=== SUITE SUMMARY ===")[2]
    if not summary:
        raise SystemExit(f"{revision}: the suite did not get to its summary\n{output[-4000:]}")
    beside = {name: sign == "✓" for sign, name in _BESIDE.findall(summary)}
    scored = {name: sign == "✓" for sign, name in _LINE.findall(summary) if name not in beside}
    failed = [name for name, passed in scored.items() if not passed]
    below = bool(failed) or len(scored) < mark
    counts = f"{f'{len(scored) - len(failed)}/{mark}':>8} {f'{sum(beside.values())}/{len(beside)}':>8}"
    print(f"{revision:<32} {counts}  {'BELOW ITS MARK' if below else ''}".rstrip())
    for name in failed:
        print(f"  failed: {name}")
    return 1 if below else 0


def report_skills() -> int:
    """The scenarios of the skills extension; one that the suite skips counts as failed."""
    failed = [name for name in SKILLS if "Passed: 1/1, 0 failed" not in run("--scenario", name)]
    print(f"{'skills extension':<32} {f'{len(SKILLS) - len(failed)}/{len(SKILLS)}':>8}".rstrip())
    for name in failed:
        print(f"  failed: {name}")
    return 1 if failed else 0


def run(*options: str) -> str:
    """What the suite prints."""
    node = PLACE / "node" / "node_modules" / "node" / "bin" / "node"
    client = f"{sys.executable} -m tests.sources.mcp.conformance_client"
    words = ["client", "--command", client, "--timeout", str(SCENARIO_MS), *options]
    return subprocess.run(
        [str(node), str(_suite(NEXT) / "dist/index.js"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    ).stdout


if __name__ == "__main__":
    sys.exit(main())

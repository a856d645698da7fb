"""The official suites of MCP, as `make conformance` runs them, server and client."""

import re
import subprocess
import sys

from bench.peers import ROOT
from bench.score.suite import Score, SuiteUnavailable

NAME = "MCP conformance (npm `@modelcontextprotocol/conformance`)"
LINE = re.compile(r"^(\S.*?\S)\s{2,}(\d+/\d+)(?:\s+(\d+/\d+))?", re.MULTILINE)


def run() -> Score:
    """Run both halves.

    Raises:
        SuiteUnavailable: a half did not come to its table.
    """
    rows: list[tuple[str, str]] = []
    failed: list[str] = []
    for half, module in (("server", "tests.conformance.run"), ("client", "tests.conformance.clients")):
        done = subprocess.run([sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True, check=False)
        lines = LINE.findall(done.stdout)
        if not lines:
            raise SuiteUnavailable((done.stderr or done.stdout).strip().splitlines()[-1])
        rows += [
            (f"{half}: {name}", f"{passed}{f', beside {beside}' if beside else ''}") for name, passed, beside in lines
        ]
        failed += [f"{half}: {name}" for name in re.findall(r"^  failed: (\S+)", done.stdout, re.MULTILINE)]
    return Score(
        NAME, tuple(rows), tuple(failed), "Scenarios that passed, of those that have to; extensions run beside them."
    )

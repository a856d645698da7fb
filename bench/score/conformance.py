"""The official suites of MCP, as `make conformance` and `make conformance-proxy` run them."""

import re
import subprocess
import sys

from bench.peers import ROOT
from bench.score.suite import Score, SuiteUnavailable

NAME = "MCP conformance (npm `@modelcontextprotocol/conformance`)"
LINE = re.compile(r"^(\S.*?\S)\s{2,}(\d+/\d+)(?:\s+(\d+/\d+))?", re.MULTILINE)
FAILED = re.compile(r"^  (?:failed|lost): (\S+)", re.MULTILINE)


def run() -> Score:
    """Run server and client.

    Raises:
        SuiteUnavailable: a half did not come to its table.
    """
    rows: list[tuple[str, ...]] = []
    failed: list[str] = []
    for half, module in (("server", "tests.conformance.run"), ("client", "tests.conformance.clients")):
        lines, names = _table(module)
        rows += [
            (f"{half}: {name}", f"{passed}{f', beside {beside}' if beside else ''}") for name, passed, beside in lines
        ]
        failed += [f"{half}: {name}" for name in names]
    note = "Scenarios that passed, of those that have to; extensions run beside them."
    return Score(NAME, tuple(rows), tuple(failed), note)


def run_through_proxy() -> Score:
    """Run the suites of servers against a server, and against `toolcrib serve` in front of it.

    Raises:
        SuiteUnavailable: it did not come to its table.
    """
    lines, failed = _table("tests.conformance.proxy")
    rows = tuple((name, through, direct) for name, direct, through in lines)
    note = (
        "The same server twice: as it is, and as a source of a crib that `toolcrib serve` shows. "
        "What passes directly and not through the proxy is listed as failed."
    )
    columns = ("through Toolcrib", "the same server, directly")
    return Score("MCP conformance through Toolcrib as a proxy", rows, tuple(failed), note, columns)


def _table(module: str) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return the rows of a program of the suite, and the names of what failed."""
    done = subprocess.run([sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = LINE.findall(done.stdout)
    if not lines:
        raise SuiteUnavailable((done.stderr or done.stdout).strip().splitlines()[-1])
    return lines, FAILED.findall(done.stdout)

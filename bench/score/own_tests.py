"""Tests of this project that drive the published clients of others: they are run, and counted."""

import re
import subprocess
import sys

from bench.peers import ROOT
from bench.score.suite import Score, SuiteUnavailable

FRONT_ENDS = {
    "A2A, `@a2a-js/sdk`": "tests/serve/frontends/test_a2a.py",
    "AG-UI, `@ag-ui/client`, which checks the order of events": "tests/serve/frontends/test_agui.py",
    "AI SDK, `ai`": "tests/serve/frontends/test_aisdk.py",
}
_LINE = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED) (\S+::\S+)", re.MULTILINE)


def outcomes(*tests: str) -> dict[str, str]:
    """Run tests and return how each ended.

    Raises:
        SuiteUnavailable: none of them could run.
    """
    argv = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--capture=no", *tests]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    seen = {name: state for state, name in _LINE.findall(done.stdout.rpartition("short test summary info")[2])}
    if not seen:
        raise SuiteUnavailable(f"pytest ended with {done.returncode}: {done.stdout.strip().splitlines()[-1]}")
    return seen


def front_ends() -> Score:
    """Run the tests with the clients of A2A, AG-UI and the AI SDK.

    Raises:
        SuiteUnavailable: none of them could run.
    """
    seen = outcomes(*FRONT_ENDS.values())
    rows = []
    for title, path in FRONT_ENDS.items():
        states = [state for name, state in seen.items() if name.startswith(path)]
        rows.append((title, f"{states.count('PASSED')} of {len(states)}"))
    failed = tuple(name for name, state in seen.items() if state != "PASSED")
    note = (
        "Features that the clients of npm find at a server of ours: text, calls, approvals, cancellation, "
        "reconnection, refusals."
    )
    return Score("A2A, AG-UI and AI SDK: their published clients", tuple(rows), failed, note)

"""What is tested by published clients and generators already: the tests are run, and counted."""

import re
import subprocess
import sys
from typing import NamedTuple

from bench.peers import ROOT
from bench.score.suite import Score, SuiteUnavailable

SUMMARY = re.compile(r"(\d+) (passed|failed|skipped|error)")


class Tests(NamedTuple):
    """Tests that stand for a suite."""

    name: str
    paths: tuple[str, ...]
    unit: str
    note: str


FRONT_ENDS = Tests(
    "A2A, AG-UI and AI SDK: their published clients",
    ("tests/serve/frontends/test_a2a.py", "tests/serve/frontends/test_agui.py", "tests/serve/frontends/test_aisdk.py"),
    "tests with the clients of npm and PyPI",
    "`@a2a-js/sdk`, `@ag-ui/client` and `ai` talk to a server of ours.",
)
FUZZ = Tests(
    "schemathesis over `/v1/openapi.json`",
    ("tests/serve/api/test_fuzz.py",),
    "operations and checks",
    "Random requests made from the description; every answer has to fit it.",
)


def run(tests: Tests) -> Score:
    """Run the tests.

    Raises:
        SuiteUnavailable: none of them could run.
    """
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests.paths]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    counts = {word: int(number) for number, word in SUMMARY.findall(done.stdout.splitlines()[-1])}
    if not counts.get("passed"):
        raise SuiteUnavailable(f"pytest ended with {done.returncode}: {done.stdout.splitlines()[-1]}")
    total = sum(number for word, number in counts.items() if word != "skipped")
    rows = [(tests.unit, f"{counts['passed']:,} of {total:,}")]
    if counts.get("skipped"):
        rows.append(("skipped here", f"{counts['skipped']:,}"))
    failed = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    return Score(tests.name, tuple(rows), tuple(failed), tests.note)

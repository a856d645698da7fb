"""The lists of OWASP, whose lines stand on the page of security with the tests that hold them."""

import re

from bench.peers import ROOT
from bench.score.own_tests import outcomes
from bench.score.suite import Score

NAME = "OWASP: MCP Top 10 and Agentic Applications Top 10"
_LINE = re.compile(r"^\| ((?:MCP|ASI)\d\d [^|]+) \| [^|]+ \| ([^|]*) \|", re.MULTILINE)


def lines() -> dict[str, tuple[str, ...]]:
    """Return the tests of each line of the lists."""
    text = (ROOT / "docs/security.md").read_text("utf-8")
    return {name: tuple(re.findall(r"`(\S+::\w+)`", tests)) for name, tests in _LINE.findall(text)}


def run() -> Score:
    """Run the tests that the lines name.

    Raises:
        SuiteUnavailable: pytest did not come to its end.
    """
    named = lines()
    seen = outcomes(*sorted({f"tests/{test}" for tests in named.values() for test in tests}))
    failed = [name for name, tests in named.items() if not tests or not all(_passed(test, seen) for test in tests)]
    rows = (
        ("lines whose tests pass", f"{len(named) - len(failed)} of {len(named)}"),
        ("tests run for them", f"{len(seen)}"),
    )
    note = (
        "A line counts where it names a test that fails once the protection is gone, and that test passes. "
        "Line by line in [Security](security.md#owasp-mcp-top-10), with what is not covered."
    )
    return Score(NAME, rows, tuple(failed), note)


def _passed(test: str, seen: dict[str, str]) -> bool:
    """Whether a test passed, with all its parameters."""
    of_it = [state for name, state in seen.items() if name.partition("[")[0] == f"tests/{test}"]
    return bool(of_it) and all(state == "PASSED" for state in of_it)

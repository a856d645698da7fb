"""`python -m bench.score [SUITE]... [--write-docs]`: runs suites and prints, or writes docs/score.md."""

import argparse
import datetime
import platform
import sys
import time
from collections.abc import Callable
from functools import partial

from bench.peers import ROOT
from bench.score import bfcl, conformance, json_schema, openapi, own_tests, published
from bench.score.suite import Score, SuiteUnavailable
from toolcrib import __version__

SUITES: dict[str, Callable[[], Score]] = {
    "conformance": conformance.run,
    "json-schema": json_schema.run,
    "openapi": openapi.run,
    "bfcl": bfcl.run,
    "agentdojo": published.agentdojo,
    "front-ends": partial(own_tests.run, own_tests.FRONT_ENDS),
    "schemathesis": partial(own_tests.run, own_tests.FUZZ),
    "owasp": published.owasp,
}
PAGE = ROOT / "docs" / "score.md"
HEAD = """\
# Score

Public suites, carried out by one command: `make score`. Suites come from registries once, and nothing else is fetched.
A suite that is partly failed is shown with its failures; nothing is tuned to a suite. What Toolcrib costs beside others
is on [Benchmarks](benchmarks.md); what holds under faults on [Reliability](reliability.md).
"""


def main() -> int:
    """Run what is named, or all; 1 where a suite could not run."""
    options = argparse.ArgumentParser(prog="make score", description=__doc__)
    options.add_argument("suites", nargs="*", choices=[*SUITES, []], help="which (default: all)")
    options.add_argument("--write-docs", action="store_true", help=f"write {PAGE.name}")
    given = options.parse_args()
    parts, missing = [], False
    for name in given.suites or SUITES:
        began = time.monotonic()
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            score = SUITES[name]()
        except SuiteUnavailable as error:
            score, missing = Score(name, (("could not run here", str(error)),)), True
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        parts.append(markdown(score))
    today = datetime.datetime.now(datetime.UTC).date()
    measured = f"Toolcrib {__version__}, {today}, Python {platform.python_version()} on {platform.system()}."
    text = "\n".join([HEAD, measured, "", *parts])
    if given.write_docs:
        PAGE.write_text(text, "utf-8")
    else:
        print(text)
    return int(missing)


def markdown(score: Score) -> str:
    """Return a suite as a part of the page."""
    lines = [
        f"## {score.suite}",
        "",
        "| counted | |",
        "|---|---:|",
        *(f"| {what} | {count} |" for what, count in score.rows),
    ]
    if score.note:
        lines += ["", score.note]
    if score.failures:
        lines += ["", "Failed:", "", *(f"- {' '.join(name.replace('<', '&lt;').split())}" for name in score.failures)]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())

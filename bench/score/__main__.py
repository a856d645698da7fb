"""`python -m bench.score [SUITE]... [--write-docs]`: runs suites and prints, or writes their parts of docs/score.md."""

import argparse
import datetime
import platform
import sys
import time
from collections.abc import Callable

from bench.peers import ROOT
from bench.score import agentdojo, bfcl, conformance, fuzz, json_schema, openapi, owasp, own_tests, probes
from bench.score.page import Part, parts, text_of
from bench.score.suite import Score, SuiteUnavailable
from toolcrib import __version__

SUITES: dict[str, Callable[[], Score]] = {
    "conformance": conformance.run,
    "proxy": conformance.run_through_proxy,
    "json-schema": json_schema.run,
    "openapi": openapi.run,
    "bfcl": bfcl.run,
    "agentdojo": agentdojo.run,
    "front-ends": own_tests.front_ends,
    "schemathesis": fuzz.run,
    "owasp": owasp.run,
    "probes": probes.run,
}
PAGE = ROOT / "docs" / "score.md"


def main() -> int:
    """Run what is named, or all; 1 where a suite could not run."""
    options = argparse.ArgumentParser(prog="make score", description=__doc__)
    options.add_argument("suites", nargs="*", choices=[*SUITES, []], help="which (default: all)")
    options.add_argument(
        "--write-docs", action="store_true", help=f"write {PAGE.name}; suites not named stay as they are"
    )
    chosen = options.parse_args()
    missing, fresh = False, dict[str, str]()
    for name in chosen.suites or SUITES:
        began = time.monotonic()
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            fresh[name] = Part(name, SUITES[name](), measured()).markdown()
        except SuiteUnavailable as error:
            missing = True
            print(f"{name} could not run here: {error}", file=sys.stderr, flush=True)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    if chosen.write_docs:
        kept = parts(PAGE.read_text("utf-8")) | fresh
        PAGE.write_text(text_of([kept[name] for name in SUITES if name in kept]), "utf-8")
    else:
        print("\n".join(fresh.values()))
    return int(missing)


def measured() -> str:
    """Return when and on what a suite ran."""
    today = datetime.datetime.now(datetime.UTC).date()
    return f"Toolcrib {__version__}, {today}, Python {platform.python_version()} on {platform.system()}"


if __name__ == "__main__":
    sys.exit(main())

"""Suites whose rows stand on another page, written by the program that measured them."""

import re

from bench.peers import ROOT
from bench.score.suite import Score, SuiteUnavailable


def agentdojo() -> Score:
    """Return the rows of AgentDojo; `python -m bench.agentdojo --write-docs` measures and writes them.

    Raises:
        SuiteUnavailable: the page has none.
    """
    text = (ROOT / "docs/benchmarks.md").read_text("utf-8").partition("<!-- bench-agentdojo: begin -->")[2]
    lines = re.findall(r"^\| (none|toolcrib[^|]*|ask always) \| ([^|]+) \| ([^|]+) \|", text, re.MULTILINE)
    if not lines:
        raise SuiteUnavailable("docs/benchmarks.md has no row of AgentDojo")
    rows = tuple(
        (f"guard: {guard.strip()}", f"{reached} attacks reached, {asked} honest calls asked")
        for guard, reached, asked in lines
    )
    return Score(
        "AgentDojo v1.2.2, a model that obeys everybody", rows, (), "From [Benchmarks](benchmarks.md#prompt-injection)."
    )


def owasp() -> Score:
    """Return how many lines of the lists of OWASP name a test; tests hold that each exists."""
    text = (ROOT / "docs/security.md").read_text("utf-8")
    lines = re.findall(r"^\| ((?:MCP|ASI)\d\d [^|]+) \| [^|]+ \| ([^|]*) \|", text, re.MULTILINE)
    tested = [name for name, test in lines if "::" in test]
    failed = tuple(name for name, test in lines if "::" not in test)
    rows = (("lines with a test that fails if the protection is gone", f"{len(tested)} of {len(lines)}"),)
    note = "Line by line in [Security](security.md#owasp-mcp-top-10), with what is not covered."
    return Score("OWASP: MCP Top 10 and Agentic Applications Top 10", rows, failed, note)

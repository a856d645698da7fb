"""The table of probes on the page of frameworks."""

import re

from bench.probes.frameworks.__main__ import PROBES
from tests.requirements import requirement
from tests.shared import ROOT

PAGE = (ROOT / "docs/frameworks.md").read_text("utf-8")
ROWS = [
    [field.strip() for field in line.strip("|").split("|")]
    for line in PAGE.partition("<!-- probes -->")[2].partition("<!-- /probes -->")[0].splitlines()
    if line.startswith("|")
]


@requirement("adapters.probes.1")
def test_every_field_with_toolcrib_is_right() -> None:
    head, _, *rows, rights = ROWS
    assert [row[0] for row in rows] == list(PROBES)
    columns = [number for number, title in enumerate(head) if title.endswith("with Toolcrib")]
    assert len(columns) >= 3
    assert [(row[0], head[n]) for row in rows for n in columns if "✗" in row[n] or not row[n]] == []
    assert {rights[n] for n in columns} == {"12 of 12"}


@requirement("adapters.probes.1")
def test_the_page_says_how_each_probe_is_judged() -> None:
    judged = re.findall(r"^\| ([^|]+) \|", PAGE.partition("How each is judged")[2].partition("\n## ")[0], re.MULTILINE)
    assert judged == ["probe", *PROBES]

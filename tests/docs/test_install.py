"""The page about installing: every extra is on it, and every page with an install line leads to it."""

import re
import tomllib

from tests.requirements import requirement
from tests.shared import ROOT, nonempty

PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in ("install.md", "decisions.md")]


@requirement("adoption.install.2")
def test_the_table_has_every_extra_and_no_other() -> None:
    table = (ROOT / "docs/install.md").read_text("utf-8").partition("## Extras")[2].partition("\n## ")[0]
    listed = re.findall(r"`([\w-]+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert sorted({*listed, "cluster"}) == sorted(extras)
    assert "`cluster` is both" in table


@requirement("adoption.install.2")
def test_an_extra_that_a_page_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    texts = {page: page.read_text("utf-8") for page in (ROOT / "README.md", *PAGES)}
    named = [
        one
        for text in texts.values()
        for group in re.findall(r"toolcrib\[([\w,-]+)\]", text)
        for one in group.split(",")
    ]
    assert [one for one in nonempty(named) if one not in extras] == []


@requirement("adoption.install.2")
def test_every_page_with_an_install_line_leads_there() -> None:
    pages = [page for page in PAGES if "pip install" in page.read_text("utf-8")]
    assert [str(page) for page in nonempty(pages) if "install.md" not in page.read_text("utf-8")] == []

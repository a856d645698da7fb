"""The documentation as a site: it is built without a warning, asks no other host, and has what programs read."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import toolcrib
from tests.requirements import requirement
from tests.shared import ROOT, nonempty

LOADED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the extra toolcrib[site] is not installed")
    target = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    argv += ["--config-file", str(ROOT / "website/mkdocs.yml"), "--site-dir", str(target)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return target


@requirement("adoption.site.1")
@pytest.mark.process
def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {name for name in pages if not (site / name).with_suffix(".html").is_file()} == set()
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", (site / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert set(listed) == pages
    assert {name for name in listed if not (site / name).is_file()} == set()


@requirement("adoption.site.1")
@pytest.mark.process
def test_the_site_asks_no_other_host(site: Path) -> None:
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    assert [str(path.relative_to(site)) for path, text in nonempty(pages.items()) if LOADED.search(text)] == []
    styles = [path.read_text("utf-8") for path in site.rglob("*.css")]
    assert [style for style in nonempty(styles) if re.search(r"url\(['\"]?https?:", style)] == []


@requirement("adoption.site.1")
@pytest.mark.process
def test_every_public_name_is_described(site: Path) -> None:
    page = (site / "reference/api.html").read_text("utf-8")
    assert [name for name in nonempty(toolcrib.__all__) if f'id="toolcrib.{name}"' not in page] == []
    assert (site / "search/search_index.json").is_file()


@requirement("adoption.site.1")
@pytest.mark.process
def test_a_search_finds_how_something_is_done_before_why_it_was_decided(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text("utf-8"))
    boosts = {entry["location"].partition("#")[0]: entry.get("boost", 1) for entry in index["docs"]}
    assert boosts["howto/approve-and-audit.html"] > boosts["reference/cli.html"] > boosts["decisions.html"]


def test_the_menu_has_every_page_that_stands_alone() -> None:
    menu = (ROOT / "website/mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    pages = [page.name for page in (ROOT / "docs").glob("*.md")]
    assert [name for name in nonempty(pages) if not re.search(rf"[\[ ]{re.escape(name)}[,\]]", menu)] == []

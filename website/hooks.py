"""What the site has beside the pages: the interface from docstrings, `llms.txt`, and links that stay inside."""

import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")
ICON = "src/toolcrib/console/page/icon.svg"
API = "reference/api.md"
LATER = {"decisions.md": 0.01, "score.md": 0.01, "glossary.md": 0.1, "benchmarks.md": 0.1}
"""Pages that mention everything: in a search they come after those that say how something is done."""
HEAD = "# Python interface\n\nEvery name that `toolcrib` offers, from its docstrings.\n\n"
_pages: list[tuple[str, str, str]] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of folders that the navigation names by a star, and say of which version they are."""
    sys.path.insert(0, str(ROOT / "src"))
    import toolcrib

    config.copyright = f"Toolcrib {toolcrib.__version__}"
    config.nav = [{title: _expanded(entries) for title, entries in part.items()} for part in config.nav or []]
    return config


def _expanded(entries: list[str]) -> list[str]:
    named: list[str] = []
    for entry in entries:
        if entry.endswith("/*"):
            folder = ROOT / "docs" / entry[:-2]
            named += [f"{entry[:-1]}{path.name}" for path in sorted(folder.glob("*.md")) if path.name != "index.md"]
        elif entry == API or (ROOT / "docs" / entry).is_file():
            named.append(entry)
    return named


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of the interface, and the picture in the tab."""
    import toolcrib

    names = "".join(f"::: toolcrib.{name}\n\n" for name in sorted(toolcrib.__all__))
    files.append(File.generated(config, API, content=HEAD + names))
    files.append(File.generated(config, "icon.svg", content=(ROOT / ICON).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep links within the site: one to a file of the repository becomes its name."""
    folder = PurePosixPath(page.file.src_uri).parent
    page.meta["search"] = {"boost": LATER.get(page.file.src_uri, 2 if str(folder) == "howto" else 1)}

    def inside(link: re.Match[str]) -> str:
        target = link[2].partition("#")[0]
        path = (ROOT / "docs" / folder / target).resolve()
        return link[0] if path.is_relative_to(ROOT / "docs") else f"{link[1]} (`{path.relative_to(ROOT)}`)"

    text = LINK.sub(inside, markdown)
    if page.file.src_uri != API:
        paragraphs = [part for part in markdown.split("\n\n") if part and part[0] not in "#`|<-!"]
        _pages.append((page.file.src_uri, _title(markdown), " ".join(paragraphs[0].split()) if paragraphs else ""))
    return text


def _title(markdown: str) -> str:
    first = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    return first[1] if first else ""


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Write what programs read: `llms.txt`, and each page as Markdown beside its HTML."""
    lines = ["# Toolcrib", "", f"> {config.site_description}", ""]
    for name, title, what in sorted(_pages):
        lines.append(f"- [{title}]({name}): {LINK.sub(lambda link: link[1], what)[:200]}")
        target = Path(config.site_dir) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / "docs" / name).read_bytes())
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Forget the pages of the build before, where a server builds again."""
    _pages.clear()
    return nav

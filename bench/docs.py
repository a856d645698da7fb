"""Writes the tables between two markers of docs/benchmarks.md; the text around them belongs to people."""

from pathlib import Path

BEGIN = "<!-- bench: begin (written by `make bench ARGS=--write-docs`) -->"
END = "<!-- bench: end -->"
PAGE = f"# Benchmarks\n\n`make bench` measures; only ratios within one run count.\n\n{BEGIN}\n{END}\n"


def write(path: Path, text: str) -> None:
    """Put `text` between the markers; a page without them gets them at its end."""
    page = path.read_text() if path.exists() else PAGE
    if BEGIN not in page or END not in page:
        page = f"{page.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")

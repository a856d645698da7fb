"""Writes tables between two markers of docs/benchmarks.md; the text around them belongs to people."""

from pathlib import Path

MARKERS = ("<!-- bench: begin (written by `make bench ARGS=--write-docs`) -->", "<!-- bench: end -->")
DURABLE = ("<!-- bench-durable: begin -->", "<!-- bench-durable: end -->")
PAGE = "# Benchmarks\n\n`make bench` measures; only ratios within one run count.\n"


def write(path: Path, text: str, markers: tuple[str, str] = MARKERS) -> None:
    """Put `text` between the markers; a page without them gets them at its end."""
    begin, end = markers
    page = path.read_text() if path.exists() else PAGE
    if begin not in page or end not in page:
        page = f"{page.rstrip()}\n\n{begin}\n{end}\n"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")

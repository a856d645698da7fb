"""The command line of the benchmarks."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import docs, durable, idle, imports, length, ratios, streams
from bench.peers import ROOT
from bench.probe import RESULTS, Failed
from bench.section import Section

SECTIONS: dict[str, Callable[[bool], Section]] = {
    "durable": durable.measure,
    "idle": idle.measure,
    "import": imports.measure,
    "length": length.measure,
    "stream": streams.measure,
}
NAMES = (*ratios.WORKLOADS, *SECTIONS)
PIPE_WIDTH = 140


def main() -> int:
    """Measure, show, keep."""
    options = _parser().parse_args()
    told = Console(stderr=True)
    RESULTS.mkdir(exist_ok=True)
    sections = list(_measured(options, told))
    report = _report(options, sections)
    text = json.dumps(report, indent=2)
    (RESULTS / "latest.json").write_text(text + "\n")
    if options.json:
        print(text)
    else:
        _draw(sections)
    if options.write_docs:
        docs.write(options.write_docs, _markdown(report, sections))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__)
    parser.add_argument("--only", type=_names, default=NAMES, metavar="NAMES", help=f"some of {','.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few rounds, small numbers")
    parser.add_argument("--rounds", type=int, help="how often each row has its turn (7, or 2 with --quick)")
    parser.add_argument("--no-peers", action="store_true", help="only the limit and our own rows")
    parser.add_argument("--json", action="store_true", help="print the report as JSON instead of tables")
    page = ROOT / "docs" / "benchmarks.md"
    parser.add_argument(
        "--write-docs", type=Path, nargs="?", const=page, metavar="PAGE", help="put the tables into docs/benchmarks.md"
    )
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if unknown := [name for name in names if name not in NAMES]:
        raise argparse.ArgumentTypeError(f"no section {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return names


def _measured(options: argparse.Namespace, told: Console) -> Iterator[Section]:
    if workloads := tuple(name for name in ratios.WORKLOADS if name in options.only):
        yield ratios.measure(_plan(options, workloads), told)
    for name, measure in SECTIONS.items():
        if name in options.only:
            told.print(f"measuring: {name}", style="dim", highlight=False, soft_wrap=True)
            yield _safely(name, measure, options.quick, told)


def _plan(options: argparse.Namespace, workloads: tuple[str, ...]) -> ratios.Plan:
    rounds = options.rounds or (2 if options.quick else 7)
    slice_s = 0.03 if options.quick else 0.12
    return ratios.Plan(workloads=workloads, rounds=rounds, slice_s=slice_s, peers=not options.no_peers)


def _safely(name: str, measure: Callable[[bool], Section], quick: bool, told: Console) -> Section:
    """One section that does not run leaves the others alone."""
    try:
        return measure(quick)
    except Failed as reason:
        told.print(f"{name} does not run: {reason}", style="red", highlight=False, soft_wrap=True)
        return Section(name, name, ("row", "result"), (("toolcrib", "does not run"),), (str(reason),))


def _report(options: argparse.Namespace, sections: list[Section]) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "machine": {
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "sections": [section.as_json() for section in sections],
    }


def _draw(sections: list[Section]) -> None:
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    for section in sections:
        section.draw(console)


def _markdown(report: dict[str, Any], sections: list[Section]) -> str:
    machine = report["machine"]
    head = f"Measured {report['at'][:10]} on {machine['cores']} cores with Python {machine['python']}."
    smoke = " A smoke run: the numbers are rough." if report["quick"] else ""
    return "\n\n".join([head + smoke, *(section.as_markdown() for section in sections)])

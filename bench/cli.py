"""The command line of the benchmarks."""

import argparse
import json
from collections.abc import Callable, Iterator

from rich.console import Console

from bench import docs, durable, files, idle, imports, judging, length, ratios, sandbox, streams, tenants, turns
from bench.probe import RESULTS, Failed
from bench.report import draw, markdown, parser, report
from bench.section import Section

SECTIONS: dict[str, Callable[[bool], Section]] = {
    "durable": durable.measure,
    "files": files.measure,
    "idle": idle.measure,
    "import": imports.measure,
    "judging": judging.measure,
    "length": length.measure,
    "sandbox": sandbox.measure,
    "stream": streams.measure,
    "tenants": tenants.measure,
    "turns": turns.measure,
}
NAMES = (*ratios.WORKLOADS, *SECTIONS)


def main() -> int:
    """Measure, show, keep."""
    options = _parser().parse_args()
    told = Console(stderr=True)
    RESULTS.mkdir(exist_ok=True)
    sections = list(_measured(options, told))
    made = report(sections, quick=options.quick)
    text = json.dumps(made, indent=2)
    (RESULTS / "latest.json").write_text(text + "\n")
    if options.json:
        print(text)
    else:
        draw(sections)
    if options.write_docs:
        docs.write(options.write_docs, markdown(made, sections))
    return 0


def _parser() -> argparse.ArgumentParser:
    made = parser("bench/run.py", __doc__, NAMES)
    made.add_argument("--rounds", type=int, help="how often each row has its turn (7, or 2 with --quick)")
    return made


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

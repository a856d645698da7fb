"""What the benchmarks of servers share: how one is started beside its peers, and how a run of parts is told."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console

from bench import docs
from bench.environments import NotInstalled, ensure
from bench.peers import ROOT, Peer
from bench.probe import RESULTS, Failed
from bench.report import draw, markdown, parser, report
from bench.section import Section
from bench.servers import started


class Served(Peer):
    """A peer that is served as we are; its worker is a module that takes a port."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """What is installed."""
        return (*super().requirements, "uvicorn", "uvloop", "httptools")


FASTMCP = Served("fastmcp-served", "fastmcp==4.1.2", "bench.probes.mcp.peers.fast")


@dataclass(slots=True)
class Run:
    """How much is measured, and by whom."""

    told: Console
    quick: bool = False
    peers: bool = True
    problems: list[str] = field(default_factory=list)

    def say(self, text: str, style: str = "dim") -> None:
        """A line of progress."""
        self.told.print(text, style=style, highlight=False, soft_wrap=True)

    def add_peers(self, rows: dict[str, list[str]], *peers: Peer) -> None:
        """Adds how each peer is started, where peers are wanted; one that cannot be installed is told of."""
        for peer in peers if self.peers else ():
            try:
                rows[peer.requirement] = [str(ensure(peer, self.told)), peer.worker]
            except NotInstalled as reason:
                self.problems.append(f"{peer.requirement} cannot be installed: {reason}")


Part = Callable[[Run], Section]


def run_parts(name: str, description: str | None, parts: Mapping[str, Part]) -> int:
    """The command of a benchmark: measures its parts, shows and keeps them."""
    options = parser(f"python -m bench.{name}", description, tuple(parts)).parse_args()
    run = Run(Console(stderr=True), options.quick, not options.no_peers)
    RESULTS.mkdir(exist_ok=True)
    sections = list(_measured(run, {part: parts[part] for part in parts if part in options.only}))
    made = report(sections, quick=options.quick)
    text = json.dumps(made, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    if options.json:
        print(text)
    else:
        draw(sections)
    if options.write_docs:
        markers = (f"<!-- bench-{name}: begin -->", f"<!-- bench-{name}: end -->")
        docs.write(options.write_docs, markdown(made, sections), markers)
    return 0


def _measured(run: Run, parts: Mapping[str, Part]) -> Iterator[Section]:
    """One part that does not run leaves the others alone."""
    for name, part in parts.items():
        try:
            yield part(run)
        except Failed as reason:
            run.say(f"{name} does not run: {reason}", "red")
            yield Section(name, name, ("row", "result"), (("toolcrib", "does not run"),), (str(reason),))
        run.problems.clear()


@contextmanager
def served(argv: list[str]) -> Iterator[tuple[int, int]]:
    """A server that runs, of the Python and the module that `argv` begins with; its port and its process.

    Raises:
        Failed: it did not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with started([argv[0], "-m", argv[1], str(port), *argv[2:]], {"PYTHONPATH": str(ROOT)}) as pid:
        yield port, pid

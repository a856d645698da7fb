"""`make bench-durable`: durable calls over Postgres and NATS, beside the raw drivers and DBOS in the same run.

Timings never fail anything; what counts is how far a row is from the raw limit beside it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.console import Console

from bench import cluster_tables as tables
from bench import docs
from bench.environments import NotInstalled, ensure
from bench.peers import WORKERS, Peer
from bench.probe import RESULTS, Failed
from bench.report import draw, markdown, parser, report
from bench.section import Section
from bench.servers import Servers, servers, started
from toolcrib.testing.services import ServiceError

DBOS = Peer("dbos", "dbos==3.3.0", "dbos_worker.py")
POLLING_S = (1.0, 0.01)
"""How often DBOS looks at its queue: its default, and as often as helps it."""

LIKELY_CALLS_S = 2_000.0
PATIENCE_S = 240.0


@dataclass(slots=True)
class Run:
    """How much is measured, and what came of it so far."""

    servers: Servers
    told: Console
    quick: bool = False
    peers: bool = True
    found: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def say(self, text: str, style: str = "dim") -> None:
        """A line of progress."""
        self.told.print(text, style=style, highlight=False, soft_wrap=True)


def main() -> int:
    """Measure, show, keep."""
    options = parser("python -m bench.cluster", __doc__, tuple(PARTS)).parse_args()
    told = Console(stderr=True)
    RESULTS.mkdir(exist_ok=True)
    try:
        with servers() as both:
            sections = list(_measured(Run(both, told, options.quick, not options.no_peers), options.only))
    except ServiceError as error:
        sys.exit(f"Error: {error}")
    made = report(sections, quick=options.quick)
    text = json.dumps(made, indent=2)
    (RESULTS / "durable.json").write_text(text + "\n")
    if options.json:
        print(text)
    else:
        draw(sections)
    if options.write_docs:
        docs.write(options.write_docs, markdown(made, sections), docs.DURABLE)
    return 0


def _measured(run: Run, only: tuple[str, ...]) -> Iterator[Section]:
    """One part that does not run leaves the others alone."""
    for name in PARTS:
        if name not in only:
            continue
        measure, show = PARTS[name]
        try:
            run.found[name] = measure(run)
        except Failed as reason:
            run.say(f"{name} does not run: {reason}", "red")
            yield Section(name, name, ("row", "result"), (("toolcrib", "does not run"),), (str(reason),))
        else:
            yield from show(run.found[name], tuple(run.problems))
            run.problems.clear()


def _calls(run: Run) -> dict[str, Any]:
    """Ours and the raw limit by turns, then what needs one look."""
    seconds, turns = (2.0, 1) if run.quick else (5.0, 3)
    ours, raw = [], []
    for turn in range(turns):
        run.say(f"measuring: calls, 256 in flight, turn {turn + 1} of {turns}")
        with run.servers.cluster(f"calls_{turn}") as place:
            ours.append(place.probe("calls", 256, seconds, "apart"))
        raw.append(run.servers.alone("rawpg", 256, seconds / 2, 0))
    run.say("measuring: calls, 64 in flight, and in one process")
    with run.servers.cluster("calls_64") as place:
        fewer = place.probe("calls", 64, seconds, "apart")
    return {
        "toolcrib 256": _middle(ours),
        "toolcrib 64": fewer,
        "toolcrib together 256": run.servers.alone("calls", 256, seconds, "together"),
        "raw postgres 256": _middle(raw),
        "raw postgres 64": run.servers.alone("rawpg", 64, seconds / 2, 0),
        "raw nats 256": run.servers.alone("rawnats", 256, seconds / 2, 50),
        "dbos": {str(polling): row for polling, row in _dbos(run)},
    }


def _middle(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The turn with the median, and the numbers of all."""
    rates = [turn["calls_s"] for turn in turns]
    nearest = min(turns, key=lambda turn: abs(turn["calls_s"] - median(rates)))
    return nearest | {"turns": rates}


def _dbos(run: Run) -> Iterator[tuple[float, dict[str, Any]]]:
    """One worker process of DBOS for each polling interval; what does not run is told below the table."""
    if not run.peers:
        return
    try:
        python = ensure(DBOS, run.told)
        for polling in (POLLING_S[-1],) if run.quick else POLLING_S:
            run.say(f"measuring: calls, DBOS polling every {polling:g} s")
            yield polling, _one_dbos(run, str(python), polling)
    except (NotInstalled, Failed) as reason:
        run.problems.append(f"DBOS does not run: {reason}")
        run.say(run.problems[-1], "red")


def _one_dbos(run: Run, python: str, polling: float) -> dict[str, Any]:
    script = (python, "-W", "ignore", str(WORKERS / DBOS.worker))
    counts = ("256", "2", "6", "2") if run.quick else ("256", "5", "12", "4")
    with run.servers.database("dbos") as url, started([*script, "work", str(polling)], {"BENCH_DBOS": url}):
        argv, env = [*script, "measure", *counts, str(polling)], {**os.environ, "BENCH_DBOS": url}
        try:
            done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"it was not through after {PATIENCE_S:g} s") from None
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _lags(run: Run) -> dict[str, Any]:
    """One at a time, without and with other calls beside."""
    many = 50 if run.quick else 300
    known = run.found.get("calls", {}).get("toolcrib 256", {}).get("calls_s", LIKELY_CALLS_S)
    run.say("measuring: latencies")
    with run.servers.cluster("lags") as place:
        found = {
            "start": place.probe("starts", many, 0),
            "start, loaded": place.probe("starts", many, known / 2) | {"load": round(known / 2)},
            "chunk, 1 stream": place.probe("chunks", 1, many),
            "chunk, 20 streams": place.probe("chunks", 20, many // 3),
            "cancel": place.probe("cancels", many // 3),
        }
    found["raw postgres"] = run.servers.alone("rawpg", 64, 0.5, many)
    found["raw nats"] = run.servers.alone("rawnats", 64, 0.5, many)
    found["dbos"] = run.found.get("calls", {}).get("dbos", {})
    return found


def _waiting(run: Run) -> dict[str, Any]:
    """Many waiting calls: what they cost, and how one of them goes on."""
    calls, answers, seconds = (5_000, 30, 5) if run.quick else (100_000, 200, 20)
    run.say(f"measuring: {calls:,} waiting calls")
    with run.servers.cluster("waiting") as place:
        found: dict[str, Any] = place.probe("waiting", calls, answers, seconds)
    found["raw postgres"] = run.servers.alone("rawpg", 64, 0.5, answers)
    found["raw nats"] = run.servers.alone("rawnats", 64, 0.5, answers)
    return found


PARTS: dict[str, tuple[Callable[[Run], dict[str, Any]], Callable[..., list[Section]]]] = {
    "calls": (_calls, tables.calls),
    "lags": (_lags, tables.lags),
    "waiting": (_waiting, tables.waiting),
}


if __name__ == "__main__":
    sys.exit(main())

"""What one turn of an agent costs with a scripted model: ten calls, and one call more, beside the peers."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median

from rich.console import Console

from bench.environments import NotInstalled, ensure
from bench.peers import TURNS, WORKERS, Command
from bench.rows import Broken, Row
from bench.section import Section

OWN = "toolcrib"
FEW, MANY = 10, 60

Found = dict[str, dict[str, float]]


def measure(quick: bool) -> Section:
    """Every row by turns, round by round."""
    console, problems = Console(stderr=True), dict[str, str]()
    rounds = 2 if quick else 7
    seconds: dict[str, dict[int, list[float]]] = {}
    with ExitStack() as stack:
        rows = list(_started(stack, console, problems))
        for _ in range(rounds):
            for row in rows:
                _guarded(row, problems, lambda row=row: _round(row, seconds))  # type: ignore[misc]
    return _section({name: _found(times) for name, times in seconds.items() if name not in problems}, problems, rounds)


def _started(stack: ExitStack, console: Console, problems: dict[str, str]) -> Iterator[Row]:
    for command in _commands(console, problems):
        row = stack.enter_context(Row(command))
        if _guarded(row, problems, row.start):
            yield row


def _commands(console: Console, problems: dict[str, str]) -> Iterator[Command]:
    yield Command(OWN, (sys.executable, str(WORKERS / "turns_toolcrib.py")))
    for peer in TURNS:
        try:
            yield Command(peer.name, (str(ensure(peer, console)), "-W", "ignore", str(WORKERS / peer.worker)))
        except NotInstalled as reason:
            problems[peer.name] = f"not installed: {reason}"


def _guarded(row: Row, problems: dict[str, str], work: Callable[[], None]) -> bool:
    if row.name in problems:
        return False
    try:
        work()
    except Broken as reason:
        problems[row.name] = f"does not run: {reason}"
        return False
    return True


def _round(row: Row, seconds: dict[str, dict[int, list[float]]]) -> None:
    times = seconds.setdefault(row.name, {FEW: [], MANY: []})
    for calls in (FEW, MANY):
        times[calls].append(row.run(f"turn{calls}", 1, 40))


def _found(times: dict[int, list[float]]) -> dict[str, float]:
    few, many = median(times[FEW]), median(times[MANY])
    return {"ten_ms": few * 1e3, "best_ms": min(times[FEW]) * 1e3, "more_us": (many - few) / (MANY - FEW) * 1e6}


def _section(found: Found, problems: dict[str, str], rounds: int) -> Section:
    own = found.get(OWN, {}).get("ten_ms")
    return Section(
        name="turns",
        title="One turn of an agent with a scripted model, CPU",
        columns=("row", "ten calls", "the best round", "against toolcrib", "one call more"),
        cells=tuple(
            (
                name,
                f"{row['ten_ms']:.2f} ms",
                f"{row['best_ms']:.2f} ms",
                "-" if own is None else f"{row['ten_ms'] / own:.1f}",
                f"{row['more_us']:.0f} us",
            )
            for name, row in found.items()
        ),
        notes=(
            f"In memory, a new session a turn, 40 turns a round; the median of {rounds} rounds by turns. The row of "
            "toolcrib also decides on each call and keeps the whole turn on its log.",
            "Goal: at most 1 ms for ten calls, and 60 us for one more.",
            *(f"{name}: {problem}" for name, problem in problems.items()),
        ),
        data=found,
    )

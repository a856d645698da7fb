"""CPU per call from JSON arguments to JSON result, as a multiple of the limit measured in the same round."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.environments import NotInstalled, ensure
from bench.peers import LIMIT, MEMORY, OWN, PEERS, SQLITE, WORKERS, Command
from bench.rows import Broken, Row
from bench.section import Section

WORKLOADS = ("add", "order")
LEAST_CALLS_A_TASK = 4

Mode = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    workloads: tuple[str, ...] = WORKLOADS
    tasks: tuple[int, ...] = (1, 100, 1000)
    rounds: int = 7
    slice_s: float = 0.12
    peers: bool = True

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Each workload at each number of tasks."""
        return tuple((workload, tasks) for workload in self.workloads for tasks in self.tasks)


@dataclass(slots=True)
class Measured:
    """What came of one row: CPU seconds per call for each mode and round, or why there is nothing."""

    versions: dict[str, str] = field(default_factory=dict)
    problem: str | None = None
    seconds: dict[Mode, list[float]] = field(default_factory=dict)


Board = dict[str, Measured]


def measure(plan: Plan, console: Console) -> Section:
    """Run every row in turn, round by round."""
    board: Board = {}
    with ExitStack() as stack:
        rows = list(_started(_commands(plan, board, console), board, stack, console))
        _rounds(rows, plan, board, console)
    return _section(plan, board)


def _commands(plan: Plan, board: Board, console: Console) -> Iterator[Command]:
    yield from OWN
    for peer in PEERS if plan.peers else ():
        try:
            python = ensure(peer, console)
        except NotInstalled as reason:
            board[peer.name] = Measured(problem=f"not installed: {reason}")
            console.print(f"{peer.name} could not be installed: {reason}", style="red", highlight=False, soft_wrap=True)
            continue
        yield Command(peer.name, (str(python), "-W", "ignore", str(WORKERS / peer.worker)))


def _started(commands: Iterable[Command], board: Board, stack: ExitStack, console: Console) -> Iterator[Row]:
    for command in commands:
        row = stack.enter_context(Row(command))
        board[row.name] = Measured()
        try:
            with console.status(f"starting {row.name}"):
                row.start()
        except Broken as reason:
            _give_up(row.name, str(reason), board, console)
            continue
        board[row.name].versions = row.versions
        yield row


def _give_up(name: str, reason: str, board: Board, console: Console) -> None:
    if name == LIMIT:
        raise SystemExit(f"the limit cannot be measured: {reason}")
    board[name].problem = f"does not run: {reason}"
    console.print(f"{name} does not run: {reason}", style="red", highlight=False, soft_wrap=True)


def _rounds(rows: list[Row], plan: Plan, board: Board, console: Console) -> None:
    calls: dict[tuple[str, Mode], int] = {}
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("", total=(plan.rounds + 1) * len(plan.modes) * len(rows))
        for number in range(plan.rounds + 1):
            for mode in plan.modes:
                for row in rows:
                    told = f"round {number} of {plan.rounds}" if number else "finding the size of a slice"
                    progress.update(bar, advance=1, description=f"{told}: {mode[0]}, {mode[1]} tasks, {row.name}")
                    _turn(row, mode, plan, calls, board, console)


def _turn(row: Row, mode: Mode, plan: Plan, calls: dict[tuple[str, Mode], int], board: Board, console: Console) -> None:
    """The first turn of a row in a mode only warms up and finds how many calls fill a slice."""
    measured = board[row.name]
    if measured.problem:
        return
    try:
        if (row.name, mode) not in calls:
            calls[row.name, mode] = _size(row, mode, plan.slice_s)
        else:
            measured.seconds.setdefault(mode, []).append(row.run(*mode, calls[row.name, mode]))
    except Broken as reason:
        _give_up(row.name, str(reason), board, console)


def _size(row: Row, mode: Mode, slice_s: float) -> int:
    workload, tasks = mode
    row.run(workload, 1, 50)
    cost = row.run(workload, 1, 200)
    return tasks * max(math.ceil(slice_s / cost / tasks), LEAST_CALLS_A_TASK)


def _ratios(row: Measured, limit: Measured, mode: Mode) -> list[float]:
    return [ours / best for ours, best in zip(row.seconds[mode], limit.seconds[mode], strict=True)]


def _section(plan: Plan, board: Board) -> Section:
    limit = board[LIMIT]
    heads = tuple(f"{workload} x{tasks:,}" for workload, tasks in plan.modes)
    return Section(
        name="calls",
        title="CPU per call, as a multiple of the limit",
        columns=("row", *heads),
        cells=tuple((_label(name, row), *_cells(name, row, limit, plan.modes)) for name, row in board.items()),
        notes=(
            "limit: pydantic-core validate_json + function + to_json. x100: 100 tasks at once. Median of "
            f"{plan.rounds} interleaved rounds; each ratio is taken against the limit of its own round.",
            "A peer's row is a validated function call; a row of toolcrib is also authorized, decided on and recorded.",
            *_against_memory(board, plan.modes),
            *(f"{name}: {row.problem}" for name, row in board.items() if row.problem),
        ),
        data={name: _data(row, limit, plan.modes) for name, row in board.items()},
    )


def _against_memory(board: Board, modes: Sequence[Mode]) -> Iterator[str]:
    yield f"Goal: {MEMORY} at most 14 on add and 1.8 on order; {SQLITE} at most 3 times {MEMORY}."
    memory, sqlite = board[MEMORY], board[SQLITE]
    if not (memory.problem or sqlite.problem):
        times = [f"{median(_ratios(sqlite, memory, mode)):.2f} ({mode[0]} x{mode[1]:,})" for mode in modes]
        yield f"{SQLITE} costs so many times {MEMORY}: {', '.join(times)}."


def _label(name: str, row: Measured) -> str:
    package = next((version for package, version in row.versions.items() if package.startswith(name)), "")
    return f"{name} {package}".strip()


def _cells(name: str, row: Measured, limit: Measured, modes: Sequence[Mode]) -> Iterator[str]:
    for mode in modes:
        if row.problem:
            yield "-"
        elif name == LIMIT:
            yield f"1 ({median(row.seconds[mode]) * 1e6:.2f} us)"
        else:
            yield _shown(median(_ratios(row, limit, mode)))


def _shown(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _data(row: Measured, limit: Measured, modes: Sequence[Mode]) -> dict[str, Any]:
    if row.problem:
        return {"problem": row.problem, "versions": row.versions}
    found = {}
    for workload, tasks in modes:
        ratios = _ratios(row, limit, (workload, tasks))
        seconds = row.seconds[workload, tasks]
        found[f"{workload} x{tasks}"] = {
            "ratio": round(median(ratios), 3),
            "lowest": round(min(ratios), 3),
            "highest": round(max(ratios), 3),
            "us_per_call": round(median(seconds) * 1e6, 3),
        }
    return {"versions": row.versions, "modes": found}

"""`toolcrib stats`: how much, how slow, how often wrong and what it costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from toolcrib.cli.display.event_lines import span
from toolcrib.cli.terminal import Cell, Terminal

if TYPE_CHECKING:
    from toolcrib._session.statistics import CallNumbers, CountedStats, ModelNumbers, NumbersOf

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24
"""Signs of a sparkline; more steps are put together."""

Span = Literal["hour", "day", "week"]
Group = Literal["tool", "agent", "owner", "code", "rule"]


async def stats(
    terminal: Terminal,
    over: Annotated[Span, typer.Argument(metavar="[hour|day|week]", help="The last hour, day or week.")] = "day",
    by: Annotated[Group, typer.Option("--by", help="What the rows are: tool, agent, owner, code or rule.")] = "tool",
    tool: Annotated[str | None, typer.Option("--tool", "-t", help="Only calls of this tool, by its id.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only what this agent did.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", "-o", help="Only what is of this owner.")] = None,
) -> None:
    """Show calls, failures, times, waits, tokens and cost lately."""
    from toolcrib._session.statistics import SPANS, StatsFilter, statistics
    from toolcrib.cli.store_choice import reading_store

    now = time.time()
    where = StatsFilter(now - SPANS[over], now, by, owner, agent, None if tool is None else (tool,))
    async with reading_store(terminal.crib) as store:
        while await store.roll_up(1.0):  # an older store is counted once
            pass
        counted, waiting = await statistics(store, where, {}), await store.open_calls(owner)
    if terminal.json:
        terminal.data({**msgspec.to_builtins(counted), "now": waiting})
    elif not counted.total.calls and not counted.total.turns:
        terminal.say(f"Nothing ended in the last {over}. `toolcrib call TOOL` makes a call.")
    else:
        _show(terminal, counted, over, waiting["waiting"])


def _show(terminal: Terminal, counted: CountedStats, over: str, waiting: int) -> None:
    total = counted.total
    terminal.text(f"Last {over}: {_told(total)}, {waiting} waiting now")
    columns = (counted.by.capitalize(), "Calls", *(("Over time",) if terminal.drawn else ()), "Failed", "Why")
    times = ("p50", "p95", "p99", "Waited (p95)")
    rows = [_row(one, drawn=terminal.drawn) for one in counted.groups if one.calls or one.waits or one.turns]
    more = ("Tokens", "Cost") if counted.by in ("agent", "owner") else ()
    terminal.table((*columns, *times, *more), [row[: len(columns) + len(times) + len(more)] for row in rows])
    if counted.models:
        shown = [(one.model or "unnamed", _number(one.turns), _tokens(one), _cost(one.cost)) for one in counted.models]
        terminal.table(("Model", "Turns", "Tokens", "Cost"), shown)


def _told(total: CallNumbers) -> str:
    failed = sum(total.failures.values())
    parts = [f"{total.calls:,} calls", f"{failed:,} failed"]
    if total.p95_ms is not None:
        parts.append(f"95 of 100 within {span(total.p95_ms / 1000)}")
    if total.turns:
        parts.append(f"{total.input_tokens + total.output_tokens:,} tokens")
    if total.cost:
        parts.append(_cost(total.cost))
    return ", ".join(parts)


def _row(one: NumbersOf, *, drawn: bool) -> Sequence[Cell]:
    failed = sum(one.failures.values())
    why = ", ".join(f"{code} {number}" for code, number in one.failures.items())
    line: tuple[Cell, ...] = ((sparkline(one.points), "cyan"),) if drawn else ()
    return (
        one.name or "none",
        _number(one.calls),
        *line,
        (_number(failed), "red" if failed else ""),
        why,
        *(_time(value) for value in (one.p50_ms, one.p95_ms, one.p99_ms, one.waited_p95_ms)),
        _tokens(one),
        _cost(one.cost),
    )


def sparkline(values: Sequence[int], width: int = WIDTH) -> str:
    """Return one sign for each step, or for several that stand together where there are many."""
    size = -(-len(values) // width) or 1
    sums = [sum(values[start : start + size]) for start in range(0, len(values), size)]
    most = max(sums, default=0)
    return "".join(" " if not one else BARS[(one * len(BARS) - 1) // most] for one in sums)


def _number(value: int) -> str:
    return f"{value:,}"


def _time(milliseconds: float | None) -> str:
    return "" if milliseconds is None else span(milliseconds / 1000)


def _tokens(one: CallNumbers | ModelNumbers) -> str:
    total = one.input_tokens + one.output_tokens
    return _number(total) if total else ""


def _cost(dollars: float) -> str:
    return "" if not dollars else f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}"

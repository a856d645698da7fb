"""The tools that a server lists, as far as they are taken: each is a stranger's text, and so is their number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from toolcrib.schema import SchemaError
from toolcrib.schema.limits import SchemaBudget
from toolcrib.sources.mcp.results import OfferedTool

LONGEST_TEXT = 64 * 1024
MOST_TOLD = 3


class ToolListing(NamedTuple):
    """The tools of a server that are taken, why others are not, one line each, and what it has beside tools."""

    tools: list[OfferedTool]
    left_out: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()


def vet(offered: Iterable[OfferedTool], most: int, truncated: bool) -> ToolListing:
    """Leave out the tools that are too large; `truncated` says that there were more than `most` of them."""
    tools: list[OfferedTool] = []
    left_out = [f"it lists more than {most} tools"] if truncated else []
    budget = SchemaBudget()
    for tool in offered:
        problem = _problem(tool, budget)
        if problem is None:
            tools.append(tool)
        else:
            left_out.append(f"{tool.legal_name}: {problem}")
    return ToolListing(tools, tuple(left_out))


def _problem(tool: OfferedTool, budget: SchemaBudget) -> str | None:
    if len(tool.description) > LONGEST_TEXT:
        return f"its description has more than {LONGEST_TEXT // 1024} KB"
    try:
        for schema in (tool.input_schema, tool.output_schema):
            if schema is not None:
                budget.spend(schema)
    except SchemaError as error:
        return str(error)
    return None


def describe(left_out: tuple[str, ...]) -> str:
    """Say what is left out, the first lines where they are many."""
    more = len(left_out) - MOST_TOLD
    names = "; ".join(left_out[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
    return f"not all of its tools are taken: {names}"

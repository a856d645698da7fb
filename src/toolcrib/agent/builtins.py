"""Built-in tools of agents: ordinary tools in namespace `builtin` that use `ctx.run`. Anybody may add more.

@builtin
async def recap(ctx: Context) -> str:
    \"\"\"Tell what was said last.\"\"\"
    return ctx.run.messages[-1].text
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Unpack, overload

from toolcrib.errors import Refused
from toolcrib.keywords import ToolKeywords
from toolcrib.sources.functions import as_tool
from toolcrib.tool import Tool

NAMESPACE = "builtin"
_known: dict[str, Tool] = {}


def register(tool: Tool) -> Tool:
    """Makes a tool known to all agents, in namespace `builtin`.

    Raises:
        Refused: `conflict`, there is one of that name.
    """
    _ship()
    return _add(tool)


def _add(tool: Tool) -> Tool:
    if tool.name in _known:
        raise Refused("conflict", f"There is already a built-in tool '{tool.name}'", "give it another name")
    _known[tool.name] = tool if tool.namespace == NAMESPACE else tool.but(namespace=NAMESPACE)
    return _known[tool.name]


@overload
def builtin(function: Callable[..., Any], /) -> Tool: ...
@overload
def builtin(**fields: Unpack[ToolKeywords]) -> Callable[[Callable[..., Any]], Tool]: ...
def builtin(function: Callable[..., Any] | None = None, /, **fields: Any) -> Any:
    """Makes a built-in tool of a function; fields are those of `tool`."""
    if function is None:
        return functools.partial(_made, register, fields)
    return _made(register, fields, function)


def _made(add: Callable[[Tool], Tool], fields: dict[str, Any], function: Callable[..., Any]) -> Tool:
    return add(as_tool(function, **{"namespace": NAMESPACE, "source": NAMESPACE, "repeat": None, **fields}))


def unregister(name: str) -> None:
    """Takes a tool out again; one that is not known is out already."""
    _known.pop(name, None)


def get(name: str) -> Tool | None:
    """The built-in tool of that name or id."""
    _ship()
    return _known.get(name.removeprefix(f"{NAMESPACE}."))


def names() -> list[str]:
    """The names of all, sorted."""
    _ship()
    return sorted(_known)


def all_tools() -> list[Tool]:
    """All of them, sorted by name."""
    return [_known[name] for name in names()]


def definitions() -> list[dict[str, Any]]:
    """What each is called, says of itself and takes."""
    return [{"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in all_tools()]


@functools.cache
def _ship() -> None:
    """Makes those known that come with Toolcrib; once, and when they are needed first."""
    from toolcrib.agent.standard_tools import SHIPPED

    for function, fields in SHIPPED:
        _made(_add, fields, function)

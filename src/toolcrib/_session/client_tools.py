"""Tools that the client of a session runs itself: checked when they are offered, kept in the log, and recalled."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib.errors import BadTool, Refused
from toolcrib.schema import SchemaError
from toolcrib.schema.limits import SchemaBudget
from toolcrib.schema.parser import LateParser
from toolcrib.tool import EMPTY_SCHEMA, Tool
from toolcrib.types import Annotations, Limits

MOST = 1000

_SHOWN = (
    "name",
    "description",
    "title",
    "category",
    "tags",
    "input_schema",
    "output_schema",
    "capabilities",
    "effect",
    "annotations",
    "limits",
    "metadata",
)

log = logging.getLogger("toolcrib")


async def offered(tools: Iterable[Tool | Mapping[str, Any]]) -> tuple[Tool, ...]:
    """All tools that a client offers, made in a thread: their schemas are a stranger's.

    Raises:
        BadTool: one does not hold, or they are too many or too large together.
        Refused: `conflict`, two have one name.
    """
    return await asyncio.to_thread(_offered, list(tools))


def _offered(offers: list[Tool | Mapping[str, Any]]) -> tuple[Tool, ...]:
    if len(offers) > MOST:
        raise BadTool("?", "tools", f"a session takes {MOST} tools of its client at the most", "client")
    tools: dict[str, Tool] = {}
    budget = SchemaBudget()
    for one in offers:
        fields = _fields(one)
        _spend(budget, fields)
        tool: Tool = Tool(**fields)
        if tool.id in tools:
            raise Refused("conflict", f"Tool '{tool.name}' is already registered in namespace 'client'", "rename one")
        tools[tool.id] = tool
    return tuple(tools.values())


def _spend(budget: SchemaBudget, fields: Mapping[str, Any]) -> None:
    for name in ("input_schema", "output_schema"):
        if isinstance(fields.get(name), dict):
            try:
                budget.spend(fields[name])
            except SchemaError as error:
                raise BadTool(str(fields.get("name", "?")), name, str(error), "client") from None


def _fields(tool: Tool | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a tool that the client runs: in the namespace `client`, whatever it says of itself.

    Raises:
        BadTool: it brings something to run, or a field does not hold.
    """
    if isinstance(tool, Tool):
        if tool.run is not None:
            raise BadTool(tool.name, "run", "a client tool is run by the client", "client")
        tool = {name: getattr(tool, name) for name in _SHOWN}
    for name in tool:
        if name not in (*_SHOWN, "namespace"):
            raise BadTool(str(tool.get("name", "?")), name, "is not for a client to say", "client")
    fields = {**tool, "namespace": "client", "source": "client", "trusted": False}
    for name, kind in (("annotations", Annotations), ("limits", Limits)):
        if isinstance(tool.get(name), Mapping):
            try:
                fields[name] = kind(**tool[name])
            except (TypeError, ValueError) as error:
                raise BadTool(str(tool.get("name", "?")), name, str(error), "client") from None
    return fields


def recalled(client: Iterable[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """The tools of a log. They were checked when they were offered; each is compiled when its first call comes.

    One that would not be taken today is left out, and the session goes on without it.
    """
    tools = []
    for definition in client:
        try:
            fields = _fields(definition)
            tools.append(Tool(**fields, parser=LateParser(fields.get("input_schema", EMPTY_SCHEMA))))
        except (BadTool, SchemaError) as error:
            log.warning("a tool that a client offered is left out: %s", error)
    return tuple(tools)


def definition(tool: Tool) -> dict[str, Any]:
    """What the log keeps of a client's tool."""
    shown = {name: getattr(tool, name) for name in _SHOWN}
    for name in ("annotations", "limits"):
        if shown[name] is not None:
            shown[name] = dataclasses.asdict(shown[name])
    return {
        name: value for name, value in shown.items() if value not in (None, ()) and (name, value) != ("metadata", {})
    }

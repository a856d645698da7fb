"""For any framework that takes Python functions: tools as functions, and functions that pass through a crib."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Unpack

from toolcrib.adapters.calls import FrameworkCall, WaitingCall, make, new_key
from toolcrib.keywords import ToolKeywords
from toolcrib.session import Session
from toolcrib.sources.functions import as_tool
from toolcrib.tool import Tool
from toolcrib.types import Result

FRAMEWORK = "functions"

_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def tools_as_functions(session: Session, *, agent: str | None = None) -> list[Callable[..., Awaitable[Any]]]:
    """Return the tools of a session as async functions with name, signature and docstring.

    They return what the tool returned, and a text for the model where it failed or waits for somebody.
    """
    return [_function(session, name, tool, agent) for name, tool in session.model_tools().items()]


def _function(session: Session, name: str, tool: Tool, agent: str | None) -> Callable[..., Awaitable[Any]]:
    signature = _signature(tool.input_schema)

    async def call(*args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        result = await make(session, FrameworkCall(FRAMEWORK, tool.id, arguments, (), agent), key=new_key())
        return shown(result)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _docstring(tool)
    call.__signature__ = signature  # type: ignore[attr-defined]  # `inspect.signature` looks there first
    call.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()} | {"return": Any}
    return call


def shown(outcome: Result | WaitingCall) -> Any:
    """Return what a framework without words for failures gets: data, or text for the model."""
    if isinstance(outcome, WaitingCall):
        return str(outcome)
    if outcome.failure is not None or outcome.content or outcome.metadata.get("edited"):
        return outcome.text
    return outcome.data


def guard(session: Session, **fields: Unpack[ToolKeywords]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make every call of a plain function pass through the crib of the session; its body stays as it is.

    Fields are those of `tool`. The function becomes a tool of the crib. The guarded one is async, and returns what the
    function returned as JSON data, or a text where the call failed or waits. A second call with the same `crib_key`
    finds the first.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        tool = _registered(session, as_tool(function, **fields))
        signature = inspect.signature(function)

        @functools.wraps(function)
        async def call(*args: Any, crib_key: str | None = None, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            arguments = dict(bound.arguments)
            for name, parameter in signature.parameters.items():
                if parameter.kind is parameter.VAR_KEYWORD:
                    arguments |= arguments.pop(name, {})
            wanted = FrameworkCall(FRAMEWORK, tool.id, arguments, (crib_key,))
            return shown(await make(session, wanted, key=None if crib_key else new_key()))

        return call

    return decorate


def _registered(session: Session, tool: Tool) -> Tool:
    """The tool as the crib has it; one of the same function may have been given to it before."""
    known = session.tool(tool.id)
    if known is not None and known.function is tool.function:
        return known
    session.crib.add(tool)
    if session.tool(tool.id) is None:
        session.crib.remove(tool.id)
        opened = ", ".join(session.namespaces)
        raise ValueError(
            f"Session {session.id} does not see {tool.id}: give guard(...) one of its namespaces, {opened}"
        )
    return tool


def _signature(schema: Mapping[str, Any]) -> inspect.Signature:
    required = set(schema.get("required", ()))
    properties: Mapping[str, Any] = schema.get("properties", {})
    ordered = sorted(properties, key=lambda name: name not in required)
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if name in required else properties[name].get("default"),
            annotation=_annotation(properties[name], optional=name not in required),
        )
        for name in ordered
        if name.isidentifier()
    ]
    return inspect.Signature(parameters, return_annotation=Any)


def _annotation(schema: Any, *, optional: bool) -> Any:
    """The Python type of a parameter, as far as frameworks look at it; the crib checks by the schema itself."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        annotation: Any = list[_annotation(schema["items"], optional=False)]  # type: ignore[misc]  # made at run time
    else:
        annotation = _TYPES.get(kind, Any) if isinstance(kind, str) else Any
    return annotation | None if optional and annotation is not Any and "default" not in schema else annotation


def _docstring(tool: Tool) -> str:
    lines = [tool.description.strip()]
    descriptions = {
        name: schema["description"]
        for name, schema in tool.input_schema.get("properties", {}).items()
        if isinstance(schema, Mapping) and schema.get("description")
    }
    if descriptions:
        lines += ["", "Args:", *(f"    {name}: {text}" for name, text in descriptions.items())]
    return "\n".join(lines)

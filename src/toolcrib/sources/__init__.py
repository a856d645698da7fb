"""Where tools come from. A source has a name and gives tools, which may change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from toolcrib.errors import BadTool
from toolcrib.sources.functions import as_tool
from toolcrib.tool import Tool


class Health(NamedTuple):
    """How a tool is, and why: `ok`, `degraded` where it may work all the same, or `unavailable`."""

    status: Literal["ok", "degraded", "unavailable"] = "ok"
    reason: str = ""


OK = Health()


@runtime_checkable
class Source(Protocol):
    """A place that tools come from. One that knows how its tools are has `health_of` too; nobody is asked for that."""

    name: str

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Its tools now; `changed` is called with all of them whenever they change."""

    async def stop(self) -> None:
        """Lets go of what it holds."""


def health_of(source: Source, tool: Tool | None = None) -> Health:
    """How a source says that one of its tools is, or it is itself; one that does not say is well."""
    told: Callable[[Tool | None], Health] | None = getattr(source, "health_of", None)
    return OK if told is None else told(tool)


class Fixed:
    """A source whose tools do not change."""

    def __init__(self, name: str, tools: Iterable[Tool]) -> None:
        self.name = name
        self.tools = list(tools)

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Its tools."""
        return self.tools

    async def stop(self) -> None:
        """There is nothing to let go of."""


def _check_path(path: Path) -> None:
    """Refuses a path at which no definition files can be."""
    shown = str(path)
    if path.suffix == ".py":
        raise BadTool(shown, "source", f"is Python: `import {path.stem}` and give the module, or its functions")
    if not path.exists():
        raise BadTool(shown, "source", "there is no such file or folder")
    if path.is_file() and path.suffix not in (".yaml", ".yml"):
        raise BadTool(shown, "source", "is no definition file: their names end in .yaml")


def as_source(given: Any, workspace: str | PathLike[str] | None = None) -> Source:
    """A function, a `Tool`, a module, a path to definition files or a `Source`, as a source.

    Programs of definition files start in the `workspace`.

    Raises:
        BadTool: it is none of these.
    """
    if isinstance(given, Tool):
        return Fixed(given.source, [given])
    if isinstance(given, ModuleType):
        tools = [value for value in vars(given).values() if isinstance(value, Tool)]
        if not tools:
            raise BadTool(given.__name__, "source", "the module has no tools; mark functions with @tool")
        return Fixed(given.__name__, tools)
    if isinstance(given, str | PathLike):
        from toolcrib.definitions.source import FileSource

        _check_path(Path(given))
        return FileSource([Path(given)], project=Path.cwd(), workspace=None if workspace is None else Path(workspace))
    if isinstance(given, Source):
        return given
    if callable(given):
        return Fixed("functions", [as_tool(given)])
    raise BadTool(
        repr(given), "source", "a source is a function, a Tool, a module, a path to definition files or a Source"
    )

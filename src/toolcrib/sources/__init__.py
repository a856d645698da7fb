"""Where tools come from. A source has a name and gives tools, which may change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

from toolcrib.errors import BadTool
from toolcrib.findings import Finding
from toolcrib.sources.functions import as_tool
from toolcrib.tool import Tool


class Health(NamedTuple):
    """How a tool is, and why: `ok`, `degraded` where it may work all the same, or `unavailable`."""

    status: Literal["ok", "degraded", "unavailable"] = "ok"
    reason: str = ""


OK = Health()


class Source(ABC):
    """A place that tools come from. Only `name` and `start` have to be written."""

    name: str

    namespaces: Sequence[str] = ()
    """The namespaces that may be opened before the tools in them are known."""

    required: bool = False
    """Whether the crib cannot start without it."""

    background: bool = False
    """Whether a server that has just started takes requests while this source is still starting."""

    pinned: bool = False
    """Whether its tools may change between two starts, so that a change has to be accepted."""

    @property
    def prefix(self) -> str | None:
        """What the names of its tools begin with, where that is not a namespace."""
        return None

    @abstractmethod
    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Return its tools; `changed` is called with all of them whenever they change."""

    async def stop(self) -> None:  # noqa: B027 - most sources hold nothing
        """Let go of what it holds."""

    def freshen(self) -> None:  # noqa: B027 - most sources tell of changes by themselves
        """List its tools again in the background where they were listed long ago."""

    async def refresh(self) -> None:  # noqa: B027 - most sources tell of changes by themselves
        """List its tools anew, and return when they are known.

        Raises:
            ToolFailure: `unavailable`, it cannot be asked.
        """

    def health_of(self, tool: Tool | None) -> Health:
        """Return how one of its tools is, or it is itself."""
        return OK

    async def findings(self) -> Sequence[Finding]:
        """Return what is wrong with the files that its tools come from."""
        return ()


class Fixed(Source):
    """A source whose tools do not change."""

    def __init__(self, name: str, tools: Iterable[Tool]) -> None:
        self.name = name
        self.tools = list(tools)

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Its tools."""
        return self.tools


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

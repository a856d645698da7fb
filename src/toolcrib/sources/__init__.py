"""Where tools come from. A source has a name and gives tools, which may change."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
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


class SourceReference(NamedTuple):
    """A tool (or all of a namespace) or an account of the crib that a file of a source names, and where."""

    kind: Literal["tool", "account"]
    name: str
    file: str | None = None
    line: int | None = None


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

    account: Mapping[str, Any] | None = None
    """The settings of the account that owners connect to use it, where it needs one."""

    @property
    def prefix(self) -> str | None:
        """What the names of its tools begin with, where that is not a namespace."""
        return None

    @abstractmethod
    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Return its tools; `changed` is called with all of them whenever they change."""

    async def stop(self) -> None:  # noqa: B027 - most sources hold nothing
        """Let go of what it holds."""

    def use_accounts(self, accounts: Any) -> None:  # noqa: B027 - most sources need none
        """Take the accounts of the crib, where the source has an `account`."""

    def prepare(self, owner: str) -> asyncio.Future[None] | None:
        """Begin to list tools that an owner alone is shown, where they are not known; what to wait for, if anything."""
        return None

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
        """Return what is wrong with the files that its tools come from, and with its settings."""
        return ()

    async def references(self) -> Sequence[SourceReference]:
        """Return what its files name that only the crib can have."""
        return ()


def left_out(source: Source, reasons: Iterable[str]) -> list[Finding]:
    """Return what a source was given and does not offer, each with the reason."""
    return [
        Finding("LEFT_OUT", "warning", f"{source.name}: left out: {reason}", "config", setting=()) for reason in reasons
    ]


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


def as_source(source: Any, workspace: str | PathLike[str] | None = None) -> Source:
    """A function, a `Tool`, a module, a path to definition files or a `Source`, as a source.

    Programs of definition files start in the `workspace`.

    Raises:
        BadTool: it is none of these.
    """
    if isinstance(source, Tool):
        return Fixed(source.source, [source])
    if isinstance(source, ModuleType):
        tools = [value for value in vars(source).values() if isinstance(value, Tool)]
        if not tools:
            raise BadTool(source.__name__, "source", "the module has no tools; mark functions with @tool")
        return Fixed(source.__name__, tools)
    if isinstance(source, str | PathLike):
        from toolcrib.definitions.source import FileSource

        _check_path(Path(source))
        return FileSource([Path(source)], project=Path.cwd(), workspace=None if workspace is None else Path(workspace))
    if isinstance(source, Source):
        return source
    if callable(source):
        return Fixed("functions", [as_tool(source)])
    raise BadTool(
        repr(source), "source", "a source is a function, a Tool, a module, a path to definition files or a Source"
    )

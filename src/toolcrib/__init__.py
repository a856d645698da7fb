"""Toolcrib: the tool runtime for AI agents. What stands here is loaded when it is first used."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

TYPE_CHECKING = False  # type checkers take it as true; to import `typing` for it takes as long as the rest of a hook
if TYPE_CHECKING:
    from toolcrib.context import Context, ThreadContext
    from toolcrib.crib import Crib
    from toolcrib.errors import (
        BadTool,
        DuplicateQuestion,
        DuplicateStep,
        EngineUnavailable,
        Refused,
        StoreError,
        StoreTooNew,
        StoreUnavailable,
        StreamClosed,
        ToolcribError,
        ToolFailure,
    )
    from toolcrib.events import Event
    from toolcrib.policy import Policy, Verdict
    from toolcrib.session import Session
    from toolcrib.sources import Source
    from toolcrib.sources.functions import tool
    from toolcrib.tool import Tool
    from toolcrib.types import (
        Annotations,
        Answer,
        AntiPattern,
        Block,
        By,
        Call,
        Change,
        CribLimits,
        Example,
        Failure,
        Handover,
        Knowledge,
        Limits,
        Question,
        Result,
        Schedule,
        ScheduleEntry,
        SideEffect,
        block,
    )

__version__ = "0.1.0"

__all__ = [
    "Annotations",
    "Answer",
    "AntiPattern",
    "BadTool",
    "Block",
    "By",
    "Call",
    "Change",
    "Context",
    "Crib",
    "CribLimits",
    "DuplicateQuestion",
    "DuplicateStep",
    "EngineUnavailable",
    "Event",
    "Example",
    "Failure",
    "Handover",
    "Knowledge",
    "Limits",
    "Policy",
    "Question",
    "Refused",
    "Result",
    "Schedule",
    "ScheduleEntry",
    "Session",
    "SideEffect",
    "Source",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "StreamClosed",
    "ThreadContext",
    "Tool",
    "ToolFailure",
    "ToolcribError",
    "Verdict",
    "block",
    "tool",
]

_MODULES = {
    "toolcrib.context": ("Context", "ThreadContext"),
    "toolcrib.crib": ("Crib",),
    "toolcrib.errors": (
        "BadTool",
        "DuplicateQuestion",
        "DuplicateStep",
        "EngineUnavailable",
        "Refused",
        "StoreError",
        "StoreTooNew",
        "StoreUnavailable",
        "StreamClosed",
        "ToolcribError",
        "ToolFailure",
    ),
    "toolcrib.events": ("Event",),
    "toolcrib.policy": ("Policy", "Verdict"),
    "toolcrib.session": ("Session",),
    "toolcrib.sources": ("Source",),
    "toolcrib.sources.functions": ("tool",),
    "toolcrib.tool": ("Tool",),
    "toolcrib.types": (
        "Annotations",
        "Answer",
        "AntiPattern",
        "Block",
        "By",
        "Call",
        "Change",
        "CribLimits",
        "Example",
        "Failure",
        "Handover",
        "Knowledge",
        "Limits",
        "Question",
        "Result",
        "Schedule",
        "ScheduleEntry",
        "SideEffect",
        "block",
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # else any name of the package would pass as one that it has

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The package as a module whose `tool` is always the decorator.

    Importing the module `toolcrib.tool` sets the attribute of that name, which would hide the decorator.
    """

    @property
    def tool(self) -> object:
        return importlib.import_module(_HOMES["tool"]).tool

    @tool.setter
    def tool(self, module: ModuleType) -> None:
        """Leaves the attribute as it is."""


sys.modules[__name__].__class__ = _Package

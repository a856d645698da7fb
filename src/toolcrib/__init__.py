"""Toolcrib: the tool runtime for AI agents."""

from __future__ import annotations

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

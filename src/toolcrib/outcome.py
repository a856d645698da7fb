"""From what a body gave back to the one `Result` of its call."""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from toolcrib.errors import ToolFailure
from toolcrib.live import LiveCall
from toolcrib.state import Problem
from toolcrib.store.codec import decode
from toolcrib.types import Block, Failure, Result

PREVIEW = 2000
_PLAIN = frozenset({int, str, dict, float, bool, type(None)})


def to_result(live: LiveCall, value: Any) -> Result:
    """A plain value, a dataclass, blocks, a `Result`, a `Failure`: one `Result` of either."""
    if type(value) in _PLAIN:
        return _checked(live, None, value)
    if isinstance(value, Result):
        result = value if value.failure is None else Result(failure=value.failure, metadata=value.metadata)
        value = value.data
    elif isinstance(value, ToolFailure | Failure):
        result = Result(
            failure=live.failure(value.code, getattr(value, "message", ""), retryable=value.retryable, hint=value.hint)
        )
    elif isinstance(value, Block):
        result, value = Result(content=[value]), None
    elif isinstance(value, list) and value and all(isinstance(item, Block) for item in value):
        result, value = Result(content=value), None
    else:
        return _checked(live, None, value)
    return result if result.failure is not None else _checked(live, result, value)


def _checked(live: LiveCall, given: Result | None, value: Any) -> Result:
    """The result as JSON that keeps the tool's promises: its schema and its size."""
    tool = live.tool
    assert tool is not None
    try:
        json = to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        live.pipeline.note(live, error)
        return Result(failure=Failure("internal", "The tool ran, but its output can not be written as JSON"))
    if tool.check_output is not None:
        problem = tool.check_output(decode(json))
        if problem is not None:
            live.pipeline.note(live, ValueError(f"rejected output: {json[:PREVIEW]!r}"))
            return Result(
                failure=Failure("internal", f"The tool ran, but its output does not match its schema: {problem}")
            )
    metadata: dict[str, Any] = {} if given is None else dict(given.metadata)
    if live.edited:
        metadata["edited"] = live.edited
    if len(json) > live.output_bytes:
        if len(json) > live.pipeline.limits.largest_output:
            return Result(failure=live.failure("too_large", f"The output has {len(json)} bytes, more than can be kept"))
        return _spilled(live, json, metadata)
    if given is None:
        return Result(json=json, metadata=metadata)
    return Result(None, given.content, None, given.changes, given.handover, metadata, json=json)


def _spilled(live: LiveCall, json: bytes, metadata: dict[str, Any]) -> Result:
    """Output over its limit is kept beside the log; the result says where, and shows how it begins."""
    id = hashlib.sha256(json).hexdigest()
    live.spill = (id, json)
    where = {"output": id, "bytes": len(json), "preview": json[:PREVIEW].decode("utf-8", "ignore")}
    return Result({"spilled": where}, metadata={**metadata, "spilled": {"output": id, "bytes": len(json)}})


def conflicting(live: LiveCall, result: Result, problem: Problem, base: int) -> Result:
    """The result of a call whose state changes can not be committed: its data is not lost."""
    metadata: dict[str, Any] = {**result.metadata, "unsaved": result.data}
    if problem.problem == "conflict":
        metadata["conflict"] = {"key": problem.key, "base": base, "by": problem.by}
    return Result(failure=live.failure("failed", problem.message()), metadata=metadata)

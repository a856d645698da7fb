"""From what a body gave back to the one `Result` of its call."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_json

from toolcrib._call.failures import masked
from toolcrib.errors import ToolFailure
from toolcrib.media import media_of, reference
from toolcrib.schema.redaction import without
from toolcrib.state import StateProblem
from toolcrib.store.codec import decode, encode
from toolcrib.types import (
    Block,
    Change,
    Failure,
    Result,
    SideEffect,
    changes_of,
    content_of,
    effects_of,
    schedules_of,
)

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall

PREVIEW = 2000
BESIDE = 16 * 1024


def to_result(live: LiveCall, value: Any) -> Result:
    """A plain value, a dataclass, blocks, a `Result`, a `Failure`: one `Result` of either."""
    if isinstance(value, Result):
        if value.failure is not None:
            return on_purpose(live, value.failure, value.metadata, value)
        return _written(live, plain(value), value.data)
    if isinstance(value, ToolFailure | Failure):
        return on_purpose(live, value, getattr(value, "metadata", {}))
    if isinstance(value, bytes):
        value = content_of(value)
    if isinstance(value, Block):
        value = [value]
    if isinstance(value, list | tuple) and value and all(isinstance(item, Block) for item in value):
        return _written(live, plain(Result(content=list(value))), None)
    return _written(live, Result(), value)


def on_purpose(
    live: LiveCall, error: ToolFailure | Failure, metadata: Mapping[str, Any], result: Result | None = None
) -> Result:
    """The result of a tool that says itself that it failed; a `given` result may change the state all the same."""
    failure = live.failure(
        error.code,
        error.message,
        retryable=error.retryable,
        hint=error.hint,
        metadata=metadata,
        reason=error.reason,
    )
    made = Result(failure=failure, metadata=decode(to_json(dict(metadata), fallback=str)) if metadata else {})
    if result is None or not (result.changes or result.effects or result.schedules):
        return made
    return made.but(changes=_changes(result), effects=_effects(result), schedules=schedules_of(result))


def plain(result: Result) -> Result:
    """What stands beside the data, as JSON of this moment; changes may be given as plain objects."""
    content, metadata = decode(to_json([list(result.content), dict(result.metadata or {})]))
    made = Result(None, content, None, _changes(result), result.handover, metadata)
    if result.message is None and not result.effects and not result.schedules:
        return made
    message = None if result.message is None else str(result.message)
    return made.but(message=message, effects=_effects(result), schedules=schedules_of(result))


def _changes(result: Result) -> list[Change]:
    return [replace(change, value=decode(to_json(change.value))) for change in changes_of(result)]


def _effects(result: Result) -> tuple[SideEffect, ...]:
    return tuple(SideEffect(str(effect.type), decode(to_json(effect.data))) for effect in effects_of(result))


def _written(live: LiveCall, result: Result, value: Any) -> Result:
    """The result with a value as its data."""
    try:
        json = to_json(value, inf_nan_mode="null")
    except UNWRITABLE as error:
        return unwritable(live, error)
    return checked(live, json, result)


UNWRITABLE = (PydanticSerializationError, ValueError, RecursionError)
"""What is raised where a value is nothing that JSON could hold."""


def unwritable(live: LiveCall, error: BaseException) -> Result:
    """The result of a tool whose output cannot be written; what its values raise themselves is a fault of its own."""
    if not isinstance(error, UNWRITABLE):
        return Result(failure=live.unexpected(error))
    live.note(error)
    return Result(failure=Failure("internal", "The tool ran, but its output cannot be written as JSON"))


def checked(live: LiveCall, json: bytes, result: Result) -> Result:
    """The result with that JSON as its data, if it keeps the tool's promises: its schema and its size."""
    tool, limits = live.admission.tool, live.pipeline.limits
    assert tool is not None
    if tool.check_output is not None:
        problem = tool.check_output(decode(json))
        if problem is not None:
            live.note(ValueError(f"rejected output: {json[:PREVIEW].decode('utf-8', 'replace')}"))
            return Result(
                failure=Failure("internal", f"The tool ran, but its output does not match its schema: {problem}")
            )
    content = to_json(result.content) if result.content else b""
    size, most = len(json) + len(content), tool.limits.output_bytes or limits.output_bytes
    if result.content and size > most:
        result = _without_files(live, result, size, most)
        content = to_json(result.content)
        size = len(json) + len(content)
    if size > most:
        if size > limits.largest_output:
            return Result(failure=live.failure("too_large", f"The output has {size} bytes, more than can be kept"))
        if len(json) >= len(content):
            return _spilled(live, json, result, {"content": content} if content else {})
        return _spilled(live, content, result, {"data": json}, part="content")
    return result.but(data=decode(json), encoded=json)


def _without_files(live: LiveCall, result: Result, size: int, most: int) -> Result:
    """The same result, with the largest of its files kept beside the log until the rest is within the limit."""
    blocks = list(result.content)
    files = [(media.size, number, media) for number, one in enumerate(blocks) if (media := media_of(one)) is not None]
    for _, number, media in sorted(files, key=lambda item: -item[0]):
        if size <= most or size > live.pipeline.limits.largest_output:
            break
        try:
            data = media.content()
        except ValueError:
            continue
        id = hashlib.sha256(data).hexdigest()
        live.attach(id, data)
        size -= len(to_json(blocks[number]))
        blocks[number] = reference(blocks[number], id, len(data))
        size += len(to_json(blocks[number]))
    return result.but(data=None, content=blocks)


def _spilled(live: LiveCall, json: bytes, result: Result, beside: Mapping[str, bytes], **more: str) -> Result:
    """Output over its limit is kept beside the log; the result says where, and shows how it begins.

    What is small of the other part, its data or its content, stands `beside` it in the metadata.
    """
    small = {name: decode(concealed(live, part)) for name, part in beside.items() if len(part) <= BESIDE}
    json = concealed(live, json)
    id = hashlib.sha256(json).hexdigest()
    live.attach(id, json)
    where = {"output": id, "bytes": len(json), "preview": json[:PREVIEW].decode("utf-8", "ignore")}
    metadata = {**result.metadata, "spilled": {"output": id, "bytes": len(json), **more, **small}}
    return result.but(data={"spilled": where}, content=(), metadata=metadata)


def concealed(live: LiveCall, json: bytes) -> bytes:
    """A JSON text without the values of secret arguments."""
    return encode(without(live.secrets, decode(json))) if live.secrets else json


def presentable(live: LiveCall, result: Result) -> Result:
    """A result as it may be shown: it says what an approver changed, and tells no secret."""
    metadata = {**result.metadata, "edited": live.edited} if live.edited else dict(result.metadata)
    content, changes, effects, message = result.content, result.changes, result.effects, result.message
    if live.secrets:
        copied = decode(encode([metadata, content, changes, effects, message]))
        metadata, content, state, made, message = without(live.secrets, copied)
        changes, effects = [Change(**change) for change in state], tuple(SideEffect(**effect) for effect in made)
    failure = result.failure
    if failure is not None:
        failure = masked(failure, live.secrets)
        return result.but(failure=failure, changes=changes, metadata=metadata, effects=effects)
    json = concealed(live, result.json)
    result = result.but(data=decode(json), encoded=json)
    return result.but(content=content, changes=changes, metadata=metadata, effects=effects, message=message)


def conflicting(live: LiveCall, result: Result, problem: StateProblem, base: int) -> Result:
    """The result of a call whose state changes cannot be committed: its data is not lost."""
    metadata: dict[str, Any] = {**result.metadata, "unsaved": result.data}
    if problem.problem == "conflict":
        metadata["conflict"] = {"key": problem.key, "base": base, "by": problem.by}
    return Result(failure=result.failure or live.failure("failed", problem.message()), metadata=metadata)

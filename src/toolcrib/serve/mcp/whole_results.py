"""Results as clients get them: what was kept beside the log since it is large stands in its place again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.media import encoded, media_of
from toolcrib.serve.mcp.wire import decode
from toolcrib.session import Session
from toolcrib.types import Failure, Result

LARGEST = 32 * 1024 * 1024
"""How many bytes are put back into one result."""


def is_partial(result: Result) -> bool:
    """Whether something of a result is kept beside the log."""
    return (bool(result.metadata) and _spilled(result) is not None) or any("output" in one for one in result.content)


async def make_whole(session: Session, result: Result) -> Result:
    """The result with all that is kept beside the log, as far as a client takes it."""
    spilled = _spilled(result)
    if spilled is not None:
        if spilled["bytes"] > LARGEST:
            return _too_large(spilled)
        kept = await session.crib.store.kept(session.id, spilled["output"])
        if kept is None:
            return result
        result = _with(result, spilled, decode(kept))
    room, content = LARGEST, list(result.content)
    for number, one in enumerate(content):
        media = media_of(one)
        if media is not None and media.output is not None and media.size <= room:
            data = await session.crib.store.kept(session.id, media.output)
            room -= media.size
            content[number] = one if data is None else _filled(one, data)
    return result.but(content=content)


def _spilled(result: Result) -> Mapping[str, Any] | None:
    """Where all of a result is kept; a tool that kept a part of it by itself says more than that."""
    spilled = result.metadata.get("spilled")
    if not isinstance(spilled, Mapping) or result.json[:12] != b'{"spilled":{':
        return None
    return spilled if result.data.keys() == {"spilled"} else None


def _with(result: Result, spilled: Mapping[str, Any], kept: Any) -> Result:
    metadata = {name: value for name, value in result.metadata.items() if name != "spilled"}
    if spilled.get("part") == "content":
        return result.but(data=spilled.get("data"), content=kept, metadata=metadata)
    return result.but(data=kept, content=spilled.get("content", ()), metadata=metadata)


def _filled(block: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    rest = {name: value for name, value in block.items() if name not in ("output", "bytes")}
    return {**rest, "blob" if block["type"] == "resource" else "data": encoded(data)}


def _too_large(spilled: Mapping[str, Any]) -> Result:
    message = f"The result has {spilled['bytes']} bytes, more than are sent at once"
    return Result(
        failure=Failure("too_large", message, hint=f"read_output reads output {spilled['output']} piece by piece")
    )

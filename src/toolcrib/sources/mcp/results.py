"""From what a server says to what a tool gives: results, errors, and the tools themselves. Plain JSON, no protocol."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.errors import StreamClosed, ToolFailure
from toolcrib.types import Annotations, Block, Result, block

# Codes of our own for what the connection met, far from those of JSON-RPC. A server that sends one only fails its call.
UNREACHABLE = -990001
BROKEN = -990002
TOO_LARGE = -990003
REFUSED = -990004
THROTTLED = -990005
FORGOTTEN = -990006
_OURS = {UNREACHABLE: "unavailable", TOO_LARGE: "too_large", REFUSED: "denied", THROTTLED: "rate_limited"}
_WRAPPED = re.compile(r"\[(-99000\d)\]")
PARSE_ERROR = -32700
INVALID_PARAMS = -32602
CONNECTION_CLOSED = -32000
_OVERSIZED = "byte limit"
_LOST = ("Connection closed", "SSE stream ended", "SSE stream failed")
_TOOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_MENDED_BY = {TOO_LARGE: "The settings `message_bytes` and `message_parts` of the source say how much is taken."}
_FIELDS = {"mimeType": "mime_type", "_meta": "meta"}
REASON = "toolcrib/reason"
_LEFT_OUT = ("annotations", "audience", "output")  # the last names what is kept here, which no server does
_RESERVED = "io.modelcontextprotocol/"
URL_ELICITATION = -32042
LARGEST_ERROR = 64 * 1024


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as its server describes it; every word of it is a stranger's."""

    name: str
    description: str = ""
    title: str | None = None
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    annotations: Annotations = field(default_factory=Annotations)
    shown: Mapping[str, Any] = field(default_factory=dict)
    """What it says that is only passed on: `annotations` as they came, `icons` and `_meta`."""
    owners: frozenset[str] | None = None
    """Who alone has it, since only their processes or credentials list it; None where all have."""

    @property
    def legal_name(self) -> str:
        """Its name here: its own where that is allowed, else the nearest one with a digest, so that no two collide."""
        if _TOOL.fullmatch(self.name):
            return self.name
        fit = re.sub(r"[^A-Za-z0-9_.-]", "_", self.name)[:119].lstrip(".-") or "tool"
        return f"{fit}_{hashlib.sha256(self.name.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """A server as it describes itself, every word of it a stranger's; a number is None where it does not say."""

    name: str
    version: str
    revision: str
    title: str | None
    instructions: str | None
    tools: tuple[OfferedTool, ...]
    prompts: int | None
    resources: int | None


class ConnectionForgotten(ToolFailure):
    """The server no longer knows the connection, and refused a request for that alone."""

    def __init__(self) -> None:
        super().__init__("unavailable", "The server has forgotten the connection")


def offered(data: Mapping[str, Any]) -> OfferedTool:
    """A tool of a listing. What it does not say of itself is not said, whatever the protocol would assume."""
    hints = data.get("annotations") or {}
    return OfferedTool(
        name=data["name"],
        description=data.get("description") or "",
        title=data.get("title") or hints.get("title"),
        input_schema=data["inputSchema"],
        output_schema=data.get("outputSchema"),
        annotations=Annotations(
            read_only=hints.get("readOnlyHint") is True,
            destructive=hints.get("destructiveHint") is True,
            idempotent=hints.get("idempotentHint") is True,
            open_world=hints.get("openWorldHint") is True,
        ),
        shown={name: data[name] for name in ("annotations", "icons", "_meta") if data.get(name)},
    )


def to_result(raw: Mapping[str, Any]) -> Result:
    """The result of a call that is complete.

    Raises:
        ToolFailure: the tool says that it failed, or the result is none.
    """
    content = raw.get("content") or []
    if not isinstance(content, list):
        raise ToolFailure("failed", "The content in the result of the server is none")
    blocks = [_block(block) for block in content]
    texts = [str(block["text"]) for block in blocks if block["type"] == "text"]
    meta = own_meta(raw.get("_meta"))
    metadata: dict[str, Any] = {"mcp": {"_meta": meta}} if meta else {}
    if raw.get("isError"):
        kept = {name: raw[name] for name in ("content", "structuredContent") if name in raw} | metadata.get("mcp", {})
        metadata = {"mcp": kept} if len(_json(kept)) <= LARGEST_ERROR else metadata
        text = "\n".join(texts) or _json(raw.get("structuredContent")) or "The tool failed"
        raise ToolFailure("failed", text, reason=_reason(raw.get("_meta")), metadata=metadata)
    data = raw.get("structuredContent")
    if "structuredContent" not in raw and texts and len(texts) == len(blocks):
        data = "\n".join(texts)
    return Result(data, blocks, metadata=metadata)


def own_meta(meta: Any) -> dict[str, Any]:
    """What a server says in `_meta`, without what the protocol itself puts there for one connection."""
    return {name: value for name, value in _mapping(meta).items() if not str(name).startswith(_RESERVED)}


def _reason(meta: Any) -> str | None:
    """The tool's own code of a failure, as another Toolcrib tells it."""
    reason = meta.get(REASON) if isinstance(meta, Mapping) else None
    return reason if isinstance(reason, str) else None


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _block(value: Any) -> Block:
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise ToolFailure("failed", "The result of the server holds something that is no content")
    fields = _fields(value)
    kind = fields.pop("type")
    inner = fields.pop("resource", None)
    annotations = {name: one for name, one in _mapping(value.get("annotations")).items() if name != "audience"}
    if annotations:
        fields["annotations"] = annotations
    if kind == "resource" and isinstance(inner, Mapping):
        inside = _fields(inner)
        if "meta" in inside:
            inside["resource_meta"] = inside.pop("meta")
        fields |= inside
    elif kind == "resource_link":
        kind = "link"
    return block(kind, _audience(value.get("annotations")), **fields)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _fields(data: Mapping[str, Any]) -> dict[str, Any]:
    return {_FIELDS.get(name, name): data[name] for name in data if name not in _LEFT_OUT}


def _audience(annotations: Any) -> tuple[str, ...] | None:
    """A server speaks of user and assistant; here they are user and model."""
    audience = annotations.get("audience") if isinstance(annotations, Mapping) else None
    if not isinstance(audience, list) or not audience:
        return None
    return tuple("model" if who == "assistant" else str(who) for who in audience)


def failure(code: int, message: str, *, lost: bool = False, data: Any = None) -> ToolFailure:
    """An error of the protocol or the connection; `lost` says that the connection is gone.

    A request that may have reached a server which is gone may have run: how the call ends is then for its effect to
    say, and `StreamClosed` leaves it to that.
    """
    wrapped = _WRAPPED.search(message) if code == PARSE_ERROR else None
    if wrapped is not None:
        code, message = int(wrapped[1]), message[wrapped.end() :].strip()
    if code == CONNECTION_CLOSED and message.startswith(_LOST) and _OVERSIZED in message:
        code = TOO_LARGE
    if code == BROKEN or (code == CONNECTION_CLOSED and (lost or message.startswith(_LOST))):
        return StreamClosed()
    if code == URL_ELICITATION:
        error = {"code": code, "message": message, "data": data}
        return ToolFailure("failed", message, hint=_visits(data), metadata={"mcp": {"error": error}})
    if code in _OURS:
        return ToolFailure(_OURS[code], message, hint=_MENDED_BY.get(code))
    error = {"code": code, "message": message, "data": data}
    metadata = {"mcp": {"protocol_error": error}} if len(_json(error)) <= LARGEST_ERROR else None
    if code == INVALID_PARAMS:
        return ToolFailure("invalid_arguments", message, metadata=metadata)
    return ToolFailure("failed", message or f"The server answered with error {code}", metadata=metadata)


def _visits(data: Any) -> str | None:
    """The addresses that have to be visited first, as an error of the protocol names them."""
    listed = data.get("elicitations") if isinstance(data, Mapping) else None
    visits = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    lines = [f"{one.get('message') or 'Visit'}: {one['url']}" for one in visits if isinstance(one.get("url"), str)]
    return "; ".join(lines) or None

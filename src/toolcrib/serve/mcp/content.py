"""From what a tool gave to what a client is shown: content blocks, structured content, descriptions of tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.serve.mcp.wire import encode
from toolcrib.tool import Tool
from toolcrib.types import Result

_FIELDS = {"mime_type": "mimeType"}
_OWN = ("type", "audience")
_INSIDE = ("uri", "mime_type", "text", "blob")
REASON = "toolcrib/reason"
"""The field of `_meta` with the tool's own code of a failure."""

_TEXT = b'{"content":[{"type":"text","text":%b}]'


def tool_result(result: Result, tool: Tool | None, *, modern: bool) -> bytes:
    """The result of a call, as JSON."""
    if (failure := result.failure) is not None:
        meta = b"" if failure.reason is None else b',"_meta":%b' % encode({REASON: failure.reason})
        return _TEXT % encode(result.text) + meta + b',"isError":true}'
    if not result.content and not result.metadata and result.message is None:
        head = _TEXT % _text(result.json)
    else:
        head = b'{"content":%b' % encode(_content(result))
    if structured(tool, modern=modern) or (result.json[:1] == b"{" and not result.content):
        return b'%b,"structuredContent":%b}' % (head, result.json)
    return head + b"}"


def _text(data: bytes) -> bytes:
    """The JSON of the text that a model reads in place of data, which is JSON already."""
    if data[:1] == b'"':
        return data
    return b'"(no output)"' if data == b"null" else encode(data.decode())


def structured(tool: Tool | None, *, modern: bool) -> bool:
    """True if a tool promises data of a shape that the revision can carry: before the newest, an object."""
    schema = None if tool is None else tool.output_schema
    return schema is not None and (modern or schema.get("type") == "object")


def _content(result: Result) -> list[dict[str, Any]]:
    blocks = [block(one) for one in result.content] or [{"type": "text", "text": result.text}]
    if result.content and result.metadata.get("edited"):  # the model is told what really ran
        blocks.insert(0, {"type": "text", "text": result.text.partition("\n")[0]})
    if result.content and result.message is not None:
        blocks.insert(0, {"type": "text", "text": result.message})
    return blocks


def block(data: Mapping[str, Any]) -> dict[str, Any]:
    """A block in the words of the protocol; what it has no word for is told as JSON."""
    fields = {_FIELDS.get(name, name): value for name, value in data.items() if name not in _OWN}
    match data.get("type"):
        case "text" if isinstance(data.get("text"), str):
            made = {"type": "text", "text": data["text"]}
        case "image" | "audio" as kind if {"data", "mimeType"} <= fields.keys():
            made = {"type": kind, "data": fields["data"], "mimeType": fields["mimeType"]}
        case "resource" if "uri" in fields and ("text" in fields or "blob" in fields):
            inside = {_FIELDS.get(name, name): data[name] for name in _INSIDE if name in data}
            made = {"type": "resource", "resource": inside}
        case "link" | "resource" if "uri" in fields:
            made = {"type": "resource_link", "name": fields["uri"], **fields}
        case "json" if "value" in data:
            made = {"type": "text", "text": encode(data["value"]).decode()}
        case _:
            made = {"type": "text", "text": encode(dict(data)).decode()}
    audience = data.get("audience")
    if audience:
        made["annotations"] = {"audience": ["assistant" if who == "model" else who for who in audience]}
    return made


def description(name: str, tool: Tool, *, modern: bool) -> dict[str, Any]:
    """A tool as a list shows it."""
    made: dict[str, Any] = {"name": name, "description": tool.description, "inputSchema": tool.input_schema}
    if tool.title:
        made["title"] = tool.title
    if structured(tool, modern=modern):
        made["outputSchema"] = tool.output_schema
    said = tool.annotations
    if said is not None:
        made["annotations"] = {
            "readOnlyHint": said.read_only,
            "destructiveHint": said.destructive or said.requires_confirmation,
            "idempotentHint": said.idempotent,
            "openWorldHint": said.open_world,
        }
    return made

"""From what a tool gave to what a client is shown: content blocks, structured content, descriptions of tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from toolcrib.serve.mcp.wire import MISSING_CAPABILITY, ProtocolError, encode
from toolcrib.tool import Tool
from toolcrib.types import Result

_FIELDS = {"mime_type": "mimeType"}
_OWN = ("type", "audience", "meta", "resource_meta", "annotations")
_INSIDE = ("uri", "mime_type", "text", "blob")
REASON = "toolcrib/reason"
"""The field of `_meta` with the tool's own code of a failure."""

_TEXT = b'"content":[{"type":"text","text":%b}]'


def tool_result(result: Result, tool: Tool | None, *, modern: bool) -> bytes:
    """The result of a call, as JSON; a server's own words for a failure are passed on as they are.

    Raises:
        ProtocolError: a server answered with an error that its client has to see as one.
    """
    upstream = told_by_server(result)
    meta = dict(upstream.get("_meta", {}))
    if (failure := result.failure) is not None:
        if failure.reason is not None:
            meta[REASON] = failure.reason
        if "error" in upstream and not modern:
            raise ProtocolError(upstream["error"]["code"], upstream["error"]["message"], upstream["error"]["data"])
        if (error := upstream.get("protocol_error")) is not None and error["code"] == MISSING_CAPABILITY:
            raise ProtocolError(error["code"], error["message"], error["data"])
        if "content" in upstream or "structuredContent" in upstream:
            content = {name: upstream[name] for name in ("content", "structuredContent") if name in upstream}
            return _opened(meta) + encode({"content": [], **content, "isError": True})[1:]
        return _opened(meta) + _TEXT % encode(result.text) + b',"isError":true}'
    if not result.content and not result.metadata and result.message is None:
        head = _opened(meta) + _TEXT % _text(result.json)
    else:
        head = _opened(meta) + b'"content":%b' % encode(_content(result))
    if structured(tool, modern=modern) or result.json[:1] == b"{":
        return b'%b,"structuredContent":%b}' % (head, result.json)
    return head + b"}"


def told_by_server(result: Result) -> Mapping[str, Any]:
    """What the server said whose tool it was, beside data and content."""
    upstream = result.metadata.get("mcp") if result.metadata else None
    return upstream if isinstance(upstream, Mapping) else {}


def _opened(meta: Mapping[str, Any]) -> bytes:
    """The beginning of a result. What it says of itself stands first, where the newest revision adds to it."""
    return b'{"_meta":%b,' % encode(meta) if meta else b"{"


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
    made = _worded(data)
    audience = data.get("audience")
    annotations = dict(data["annotations"]) if isinstance(data.get("annotations"), Mapping) else {}
    if audience:
        annotations["audience"] = ["assistant" if who == "model" else who for who in audience]
    if annotations:
        made["annotations"] = annotations
    if isinstance(data.get("meta"), Mapping):
        made["_meta"] = data["meta"]
    return made


def _worded(data: Mapping[str, Any]) -> dict[str, Any]:
    fields = {_FIELDS.get(name, name): value for name, value in data.items() if name not in _OWN}
    match data.get("type"):
        case "text" if isinstance(data.get("text"), str):
            return {"type": "text", "text": data["text"]}
        case "image" | "audio" as kind if {"data", "mimeType"} <= fields.keys():
            return {"type": kind, "data": fields["data"], "mimeType": fields["mimeType"]}
        case "video" | "file" if isinstance(data.get("data"), str):  # the protocol has resources alone for them
            inside = {"uri": f"attachment:{quote(str(data.get('name') or 'file'))}", "blob": data["data"]}
            inside |= {"mimeType": fields["mimeType"]} if "mimeType" in fields else {}
            return {"type": "resource", "resource": inside}
        case "resource" if "uri" in fields and ("text" in fields or "blob" in fields):
            inside = {_FIELDS.get(name, name): data[name] for name in _INSIDE if name in data}
            inside |= {"_meta": data["resource_meta"]} if "resource_meta" in data else {}
            return {"type": "resource", "resource": inside}
        case "link" | "resource" if "uri" in fields:
            return {"type": "resource_link", "name": fields["uri"], **fields}
        case "json" if "value" in data:
            return {"type": "text", "text": encode(data["value"]).decode()}
    return {"type": "text", "text": encode(dict(data)).decode()}


def description(name: str, tool: Tool, *, modern: bool) -> dict[str, Any]:
    """A tool as a list shows it."""
    made: dict[str, Any] = {"name": name, "description": tool.description, "inputSchema": tool.input_schema}
    if tool.title:
        made["title"] = tool.title
    if structured(tool, modern=modern):
        made["outputSchema"] = tool.output_schema
    upstream = tool.metadata.get("mcp") if tool.upstream is not None else None
    if isinstance(upstream, Mapping):
        made |= {name: upstream[name] for name in ("icons", "_meta") if name in upstream}
    hints = _hints(tool) if upstream is None or tool.vouched else upstream.get("annotations")
    if hints:
        made["annotations"] = hints
    return made


def _hints(tool: Tool) -> dict[str, bool] | None:
    annotations = tool.annotations
    if annotations is None:
        return None
    return {
        "readOnlyHint": annotations.read_only,
        "destructiveHint": annotations.destructive or annotations.requires_confirmation,
        "idempotentHint": annotations.idempotent,
        "openWorldHint": annotations.open_world,
    }

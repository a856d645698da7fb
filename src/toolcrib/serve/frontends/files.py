"""Images and files as front ends send and show them, each protocol in its own words, and as blocks here.

A link to a file stays a link: nothing here fetches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from toolcrib.media import UNKNOWN, Media, block_type, encoded, media_of
from toolcrib.serve.api.errors import ApiError
from toolcrib.types import Block, Result, block

Said = str | list[str | Mapping[str, Any]]
"""A message: a text, or texts and blocks where files are among them."""

ReadPart = Callable[[Mapping[str, Any]], Block | None]
"""Reads the file of a part in the words of a protocol; None where it has none."""


def message_of(parts: Iterable[Any], read: ReadPart) -> Said:
    """The message of parts of a protocol; those of other kinds are passed over.

    Raises:
        ApiError: a part has a file that cannot be read.
    """
    content: list[str | Mapping[str, Any]] = []
    for part in parts:
        if not isinstance(part, dict):
            continue
        if (file := read(part)) is not None:
            content.append(file)
        elif part.get("type", "text") == "text" and isinstance(part.get("text"), str) and part["text"]:
            content.append(part["text"])
    texts = [one for one in content if isinstance(one, str)]
    return content if len(texts) < len(content) else "\n".join(texts)


# In


def aisdk_file(part: Mapping[str, Any]) -> Block | None:
    """A part `file` of the AI SDK: a data URL, or a link."""
    if part.get("type") != "file":
        return None
    return _at(part.get("url"), part.get("mediaType"), part.get("filename"))


def agui_file(part: Mapping[str, Any]) -> Block | None:
    """A part of AG-UI with a source; also `binary`, as it was before 1.0."""
    if part.get("type") == "binary":
        where, data = part.get("url"), part.get("data")
        kind, name = part.get("mimeType"), part.get("filename")
        return _at(where, kind, name) if data is None else _block(data, kind, name)
    source = part.get("source")
    if part.get("type") not in ("image", "audio", "video", "document"):
        return None
    if not isinstance(source, Mapping) or source.get("type") not in ("data", "url"):
        raise ApiError("invalid_arguments", "A file of a message has no data", "send a source of type 'data' or 'url'")
    value, kind = source.get("value"), source.get("mimeType")
    return _block(value, kind, None) if source["type"] == "data" else _at(value, kind, None)


def a2a_file(part: Mapping[str, Any]) -> Block | None:
    """A part of A2A with `raw` bytes or a `url`."""
    if part.get("raw"):
        return _block(part["raw"], part.get("mediaType"), part.get("filename"))
    return _at(part["url"], part.get("mediaType"), part.get("filename")) if part.get("url") else None


def _at(url: Any, mime_type: Any, name: Any) -> Block:
    """A file at an address: the data of a data URL, else a link.

    Raises:
        ApiError: it is no address.
    """
    if not isinstance(url, str) or not url:
        raise ApiError("invalid_arguments", "A file of a message has no address", "send a data URL, or a link")
    if not url.startswith("data:"):
        return block("link", uri=url, mime_type=_text(mime_type), name=_text(name))
    head, comma, data = url[5:].partition(",")
    if not comma:
        raise ApiError("invalid_arguments", "A data URL in the message has no data", "send data:image/png;base64,...")
    declared = head.removesuffix(";base64")
    plain = data if head.endswith(";base64") else encoded(unquote_to_bytes(data))
    return _block(plain, mime_type or declared, name)


def _block(data: Any, mime_type: Any, name: Any) -> Block:
    if not isinstance(data, str):
        raise ApiError("invalid_arguments", "A file of a message has no data", "send it as base64")
    kind = _text(mime_type) or UNKNOWN
    return block(block_type(kind), data=data, mime_type=kind, name=_text(name))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# Out


class ShownFile(NamedTuple):
    """A file of a result, as a front end gets it: its base64 data, or a path at this server."""

    media: Media
    data: str | None
    path: str

    @property
    def url(self) -> str:
        """Where a page finds it: a data URL, or the path."""
        return self.path if self.data is None else f"data:{self.media.mime_type};base64,{self.data}"


def shown(session: str, content: Iterable[Mapping[str, Any]] | None) -> list[str | ShownFile]:
    """The content of a result that people are shown, where files are among it; nothing where there is none."""
    blocks = [one for one in content or () if "user" in (one.get("audience") or ("user",))]
    made = [_shown(session, one) for one in blocks]
    return made if any(isinstance(one, ShownFile) for one in made) else []


def _shown(session: str, one: Mapping[str, Any]) -> str | ShownFile:
    media = media_of(one)
    if media is None:
        return Result(content=[{name: value for name, value in one.items() if name != "audience"}]).text
    path = f"/v1/sessions/{quote(session, safe='')}/files/{media.output}"
    return ShownFile(media, media.data if isinstance(media.data, str) else None, path)

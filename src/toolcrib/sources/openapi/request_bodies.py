"""What is sent with a request: JSON, forms, parts, texts and files."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from toolcrib.errors import ToolFailure
from toolcrib.sources.openapi.plan import Body, FormField
from toolcrib.sources.openapi.styles import as_text, encoded, in_query

LARGEST_FILE = 64 * 1024 * 1024
_MEDIA = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+")
_WAYS = ("text", "base64", "path")


class Content(NamedTuple):
    """The bytes of a body and what they are."""

    data: bytes
    media: str


def content(body: Body, values: Mapping[str, Any], uploads: Path | None) -> Content | None:
    """The body that these arguments make; None where they make none. Files are read inside of `uploads` alone.

    Raises:
        ToolFailure: `invalid_arguments`, a file is none.
    """
    value = values.get(body.whole) if body.whole is not None else _given(body, values)
    if (body.whole is not None and body.whole not in values) or (body.whole is None and not value):
        return None
    match body.kind:
        case "json":
            return Content(msgspec.json.encode(value), body.media)
        case "text":
            return Content(as_text(value).encode(), body.media)
        case "file":
            file = _file(value, "body", uploads)
            return Content(file.data, file.media or body.media)
        case "form":
            return Content("&".join(_pairs(body, value)).encode(), body.media)
        case _:
            return _parts(body, value, uploads)


def _given(body: Body, values: Mapping[str, Any]) -> dict[str, Any]:
    fields = (field.parameter for field in body.fields)
    return {field.wire: values[field.name] for field in fields if field.name in values}


def _pairs(body: Body, fields: Any) -> Iterator[str]:
    known = {field.parameter.wire: field for field in body.fields}
    for name, value in fields.items() if isinstance(fields, dict) else ():
        field = known.get(name)
        if field is not None and field.media is None:
            yield from in_query(field.parameter, value)
        else:
            yield from (f"{encoded(name)}={encoded(one)}" for one in (value if isinstance(value, list) else [value]))


def _parts(body: Body, fields: Any, uploads: Path | None) -> Content:
    import httpx

    known = {field.parameter.wire: field for field in body.fields}
    parts: list[Any] = [
        (name, _part(known.get(name), name, one, uploads))
        for name, value in (fields.items() if isinstance(fields, dict) else ())
        for one in (value if isinstance(value, list) else [value])
    ]
    # The encoder of httpx escapes what could end a name or begin a part.
    made = httpx.Request("POST", "http://nowhere.invalid", files=parts)
    return Content(made.read(), made.headers["content-type"])


def _part(field: FormField | None, name: str, value: Any, uploads: Path | None) -> tuple[Any, ...]:
    if field is not None and field.file:
        file = _file(value, field.parameter.name, uploads)
        return (file.name or name, file.data, file.media or field.media or "application/octet-stream")
    media = "" if field is None else field.media or ""
    if isinstance(value, dict | list):
        return (None, msgspec.json.encode(value), media or "application/json")
    return (None, as_text(value).encode(), media) if media else (None, as_text(value).encode())


class _FormFile(NamedTuple):
    data: bytes
    name: str = ""
    media: str = ""


def _file(value: Any, argument: str, uploads: Path | None) -> _FormFile:
    """A file as an argument gives it."""
    value = value if isinstance(value, dict) else {}
    ways = [way for way in _WAYS if way in value]
    if len(ways) != 1:
        raise ToolFailure("invalid_arguments", f"{argument}: give one of {', '.join(_WAYS[: 3 if uploads else 2])}")
    media = value.get("media_type") or ""
    if media and not _MEDIA.fullmatch(media):
        raise ToolFailure("invalid_arguments", f"{argument}.media_type: expected a type such as image/png")
    name = re.split(r"[/\\]", as_text(value.get("name")))[-1]
    if ways == ["path"]:
        path = _inside(value["path"], argument, uploads)
        return _FormFile(_read(path, argument), name or path.name, media)
    if ways == ["text"]:
        return _FormFile(as_text(value["text"]).encode(), name, media or "text/plain")
    try:
        return _FormFile(base64.b64decode(value["base64"], validate=True), name, media)
    except (binascii.Error, ValueError):
        raise ToolFailure("invalid_arguments", f"{argument}.base64: this is no base 64") from None


def _inside(text: str, argument: str, uploads: Path | None) -> Path:
    """A file in the folder for uploads; links are followed before it is looked where it lies."""
    folder = None if uploads is None else uploads.resolve()
    try:
        path = None if folder is None else (folder / text).resolve()
        if folder is None or path is None or not path.is_relative_to(folder) or not path.is_file():
            raise ValueError
    except (OSError, ValueError):
        raise ToolFailure("invalid_arguments", f"{argument}.path: there is no such file for uploads") from None
    return path


def _read(path: Path, argument: str) -> bytes:
    if path.stat().st_size > LARGEST_FILE:
        raise ToolFailure("too_large", f"{argument}.path: the file has more than {LARGEST_FILE} bytes")
    return path.read_bytes()

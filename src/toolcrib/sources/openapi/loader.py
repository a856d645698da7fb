"""Documents from where they lie: a file, an address or data. References to others are read with them, where allowed."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from toolcrib.errors import ToolFailure
from toolcrib.http import Request
from toolcrib.policy import urls
from toolcrib.policy.errors import UnfitArgument
from toolcrib.schema import SchemaError
from toolcrib.schema.validator import plain_schema
from toolcrib.sources.openapi.connections import Connections
from toolcrib.sources.openapi.document import NOWHERE, OpenApiDocument
from toolcrib.sources.openapi.parser import MOST_BYTES, BadDocument, read, shown

MOST_PARTS = 100
_REFERENCE = re.compile(rb"""\$ref["']?\s*:\s*["']?([^#"'\s,}][^"'\s,}]*)""")


class DocumentUnavailable(Exception):
    """The document cannot be had now, and may be later."""


@dataclass(slots=True)
class LoadedResource:
    """The text of a resource, and how to tell whether it changed."""

    text: bytes
    mark: Any


class DocumentLoader:
    """Reads one document; `refs` are origins of others that it may refer to."""

    def __init__(self, place: str | Path | Mapping[str, Any], connections: Connections, refs: Sequence[str]) -> None:
        self.place, self.refs = place, tuple(refs)
        self._connections = connections
        self._marks: dict[str, Any] = {}
        self._referred: frozenset[str] = frozenset()
        self._left = MOST_BYTES
        if isinstance(place, Mapping):
            info = place.get("info")
            self.address, self.name = (
                NOWHERE,
                str((info.get("title") if isinstance(info, Mapping) else "") or "document"),
            )
        elif is_address(str(place)):
            self.address, self.name = str(place), shown(str(place))
        else:
            self.address, self.name = Path(place).absolute().as_uri(), str(place)
        self._origins = {_origin(one) for one in (self.address, *refs)} - {None}

    def is_idle(self, ref: str) -> bool:
        """True if the document that was read last refers to nothing at an origin of `refs`."""
        origin = _origin(ref)
        return origin is None or all(_origin(address) != origin for address in self._referred)

    async def load(self) -> OpenApiDocument:
        """The document and what it refers to.

        Raises:
            BadDocument: it does not hold.
            Away: it cannot be had now.
        """
        if isinstance(self.place, Mapping):
            return self._given(self.place)
        self._marks, self._left = {}, MOST_BYTES
        parts: dict[str, Any] = {}
        refused: dict[str, str] = {}
        others: list[str] = []
        waiting = [self.address]
        while waiting:
            address = waiting.pop()
            if address in parts or address in refused:
                continue
            why = self._refusal(address, len(parts))
            try:
                if not why:
                    parts[address], others = await asyncio.to_thread(_parsed, await self._text(address), address)
            except (BadDocument, DocumentUnavailable) as error:
                if address == self.address:
                    raise self._own(error) from None
                why = str(error)
            if why:
                parts.pop(address, None)
                refused[address] = why
            else:
                waiting += others
        self._referred = frozenset({*parts, *refused} - {self.address})
        return OpenApiDocument(self.name, self.address, parts, refused)

    def _own(self, error: Exception) -> Exception:
        """The same error in the words of who named the document."""
        return BadDocument(self.name, error.field, error.problem) if isinstance(error, BadDocument) else error

    def _given(self, data: Mapping[str, Any]) -> OpenApiDocument:
        try:
            return OpenApiDocument(self.name, self.address, {self.address: plain_schema(data)})
        except SchemaError as error:
            raise BadDocument(self.name, "", str(error)) from None

    async def changed(self) -> bool:
        """True if one of the files, or the answer of the server, is another than it was, or none was read.

        Raises:
            Away: it cannot be looked at now.
        """
        self._left = MOST_BYTES
        try:
            return not self._marks or any([await self._mark(address) != mark for address, mark in self._marks.items()])
        except BadDocument as error:
            raise DocumentUnavailable(str(error)) from None

    # One resource

    def _refusal(self, address: str, known: int) -> str:
        """Why nothing is read from there; empty where it is."""
        if address == self.address:
            return ""
        if known >= MOST_PARTS:
            return f"it refers to more than {MOST_PARTS} others"
        if address.startswith("file:") and self.address.startswith("file:"):
            folder = _path(self.address).resolve().parent
            inside = _path(address).resolve().is_relative_to(folder)
            return "" if inside else "it lies outside of the folder of the document"
        if is_address(address) and _origin(address) in self._origins:
            return ""
        return "it lies at another place; name its origin in `refs` to read it from there"

    async def _text(self, address: str) -> bytes:
        if address.startswith("file:"):
            self._marks[address] = await self._mark(address)
            text = await asyncio.to_thread(self._file, _path(address))
        else:
            fetched = await self._fetch(address)
            text, self._marks[address] = fetched.text, fetched.mark
        self._left -= len(text)
        return text

    def _file(self, path: Path) -> bytes:
        try:
            if path.stat().st_size > self._left:
                raise BadDocument(self.name, "", f"it has more than {MOST_BYTES // 1024 // 1024} MB, which is not read")
            return path.read_bytes()
        except OSError as error:
            raise BadDocument(self.name, "", f"it cannot be read: {error.strerror}") from None

    async def _mark(self, address: str) -> Any:
        if address.startswith("file:"):
            path = _path(address)
            try:
                status = await asyncio.to_thread(path.stat)
            except OSError:
                return None
            return (status.st_mtime_ns, status.st_size)
        return (await self._fetch(address, self._marks.get(address))).mark

    async def _fetch(self, address: str, known: Any = None) -> LoadedResource:
        """What a server answers; it is told what was answered before, so that it need not say it again."""
        target = urls.canonical(address)
        if is_address(self.address) and target.host == urls.canonical(self.address).host:
            self._connections.inner_hosts.add(target.host)
        headers = {"Accept": "application/json, application/yaml, */*;q=0.5"}
        if isinstance(known, tuple) and known[0]:
            headers["If-None-Match"] = known[0]
        request = Request(address, target, "GET", headers)
        try:
            answer = await self._connections.send(request, self._left)
        except ToolFailure as error:
            if error.code == "unavailable":
                raise DocumentUnavailable(f"{shown(address)}: {error.message}") from None
            raise BadDocument(self.name, "", error.message) from None
        if answer.status == 304:
            return LoadedResource(b"", known)
        if answer.status >= 500 or answer.status in (408, 429):
            raise DocumentUnavailable(f"{shown(address)}: HTTP {answer.status}")
        if answer.status >= 300:
            raise BadDocument(self.name, "", f"it cannot be read: HTTP {answer.status}")
        return LoadedResource(answer.body, (answer.headers.get("etag"), hashlib.sha256(answer.body).hexdigest()))


def _parsed(text: bytes, address: str) -> tuple[dict[str, Any], list[str]]:
    """The data of a resource, and the addresses that it refers to, of which no more are looked at than are read."""
    names: set[str] = set()
    for match in _REFERENCE.finditer(text):
        names.add(urldefrag(match[1].decode(errors="replace"))[0])
        if len(names) > 2 * MOST_PARTS:
            break
    return read(text, shown(address)), [urljoin(address, other) for other in sorted(names)]


def is_address(text: str) -> bool:
    """True if it is an address on the web."""
    return text.startswith(("http://", "https://"))


def _path(address: str) -> Path:
    return Path(url2pathname(urlsplit(address).path))


def _origin(address: str) -> str | None:
    try:
        return urls.canonical(address).text
    except UnfitArgument:
        return None

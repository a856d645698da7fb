"""Images and other files within content: what a block holds of one, and what stands for it where only text is read."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

MediaKind = Literal["image", "audio", "video", "document"]

BLOCKS = frozenset({"image", "audio", "video", "file"})
"""The types of blocks that are files."""

UNKNOWN = "application/octet-stream"
_FIELDS = ("data", "blob")
_OUTPUT = re.compile(r"[0-9a-f]{64}")
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/x-yaml", "image/svg+xml"})
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


@dataclass(frozen=True, slots=True)
class Media:
    """A file of a message or result.

    `data` are its bytes, or their base64 text; None where they are kept beside the log under the id `output`.
    """

    mime_type: str
    size: int
    data: bytes | str | None = None
    output: str | None = None
    name: str | None = None

    @property
    def kind(self) -> MediaKind:
        """What sort of file it is, by its media type."""
        head = self.mime_type.partition("/")[0]
        return head if head in ("image", "audio", "video") else "document"  # type: ignore[return-value]

    @property
    def is_text(self) -> bool:
        """True if its bytes are text."""
        return self.mime_type.startswith("text/") or self.mime_type in _TEXTS or self.mime_type.endswith("+json")

    def content(self) -> bytes:
        """Its bytes.

        Raises:
            ValueError: they are kept elsewhere, or are no base64.
        """
        if self.data is None:
            raise ValueError("the bytes are kept beside the log")
        return self.data if isinstance(self.data, bytes) else decoded(self.data)

    def placeholder(self, reason: str = "") -> str:
        """What stands for it in a text, such as `[image, image/png, 34 KB]`; `reason` says why it does."""
        kind = "file" if self.kind == "document" else self.kind
        shown = f"{kind} {self.name}" if self.name else kind
        return f"[{shown}, {self.mime_type}, {size_text(self.size)}{f': {reason}' if reason else ''}]"

    def with_data(self, data: bytes) -> Media:
        """The same, with its bytes."""
        return replace(self, data=data, size=len(data))


def size_text(size: int) -> str:
    """A number of bytes as people read it."""
    if size < 1024:
        return f"{size} bytes"
    if size < 1024 * 1024:
        return f"{round(size / 1024)} KB"
    return f"{size / (1024 * 1024):.1f} MB"


def media_of(block: Mapping[str, Any]) -> Media | None:
    """The file that a block holds; None where it holds none."""
    type = block.get("type")
    if type not in BLOCKS and (type != "resource" or "text" in block):
        return None
    data = next((block[field] for field in _FIELDS if isinstance(block.get(field), str | bytes)), None)
    output = block.get("output") if data is None else None
    if data is None and not (isinstance(output, str) and is_digest(output)):
        return None
    name = block.get("name") or (block.get("uri") if type == "resource" else None)
    mime_type = str(block.get("mime_type") or UNKNOWN).partition(";")[0].strip().lower()
    size = block.get("bytes") if data is None else _size(data)
    return Media(mime_type, size if isinstance(size, int) else 0, data, output, _line(name))


def is_digest(id: str) -> bool:
    """True if an id is the digest under which the bytes of a file or of an output are kept."""
    return _OUTPUT.fullmatch(id) is not None


def block_type(mime_type: str) -> str:
    """The type of the block that a file of that media type is."""
    head = mime_type.partition("/")[0]
    return head if head in BLOCKS else "file"


def reference(block: Mapping[str, Any], id: str, size: int) -> dict[str, Any]:
    """A block whose file is kept beside the log under that id."""
    return {**{name: value for name, value in block.items() if name not in _FIELDS}, "output": id, "bytes": size}


def joined(parts: Iterable[str | Media]) -> str:
    """Parts as one text, with placeholders for files."""
    return "\n".join(part if isinstance(part, str) else part.placeholder() for part in parts)


def encoded(data: bytes) -> str:
    """The base64 text of bytes."""
    return base64.b64encode(data).decode("ascii")


def decoded(text: str) -> bytes:
    """The bytes of a base64 text.

    Raises:
        ValueError: it is none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"no base64: {error}") from None


def guessed_type(data: bytes) -> str:
    """The media type that the first bytes of a file tell."""
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12], UNKNOWN)
    return next((type for signature, type in _SIGNATURES if data.startswith(signature)), UNKNOWN)


def _line(name: Any) -> str | None:
    """A name on one line, as it fits into a placeholder."""
    return " ".join(str(name).split())[:100] or None if name is not None else None


def _size(data: str | bytes) -> int:
    """How many bytes a file has, without decoding it."""
    return len(data) if isinstance(data, bytes) else len(data) * 3 // 4 - data[-2:].count("=")

"""What the log keeps of a request to a model: the instructions and tools beside it, and a digest of the messages."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toolcrib.agent.models import CompletionRequest, MediaIntake, Message, ToolView
from toolcrib.events import ModelRequestRecord
from toolcrib.media import Media

if TYPE_CHECKING:
    from toolcrib.agent.replies import ReplyStream
    from toolcrib.agent.run_log import RunLog

DIGITS = 32


class KeptPrompt(NamedTuple):
    """Instructions and tools that are kept beside a log, with their digests."""

    system: str
    shown: tuple[ToolView, ...]
    instructions: str
    tools: str


def kept_id(digest: str) -> str:
    """The id under which instructions or tools are kept."""
    return f"prompt:{digest}"


async def kept(log: RunLog, request: CompletionRequest) -> KeptPrompt:
    """Keep the instructions and tools of a request beside the log."""
    system = request.messages[0].text
    digests = []
    for data in (system.encode("utf-8", "replace"), msgspec.json.encode(request.tools)):
        digests.append(hashlib.sha256(data).hexdigest()[:DIGITS])
        await log.store.keep(log.session.id, kept_id(digests[-1]), data)
    return KeptPrompt(system, request.tools, *digests)


def with_files(stream: ReplyStream, kept: KeptPrompt) -> ModelRequestRecord:
    """Return the record of a request that has files, or placeholders for them."""
    assert stream.request is not None and stream.files is not None
    messages = digest(stream.request.messages[1:])
    files: dict[str, Any] = {**stream.files._asdict(), "types": sorted(stream.files.types)}
    return ModelRequestRecord(stream.seq, kept.instructions, kept.tools, messages, stream.at, files, stream.bare)


def intake(files: dict[str, Any]) -> MediaIntake:
    """Return which files a model took, as its record says."""
    return MediaIntake(frozenset(files["types"]), files["largest"], files["total"])


def digest(messages: Sequence[Message]) -> str:
    """Return the digest of messages; of files that of their bytes counts."""
    plain = [_without_bytes(message) if message.parts else message for message in messages]
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()[:DIGITS]


def _without_bytes(message: Message) -> Message:
    parts = [part if isinstance(part, str) else _named(part) for part in message.parts]
    return replace(message, parts=tuple(parts))


def _named(media: Media) -> Media:
    bytes_ = media.content() if media.data is not None else b""
    return replace(media, data=None, output=hashlib.sha256(bytes_).hexdigest())

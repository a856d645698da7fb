"""Files of a conversation: those of a message are kept beside the log, and all are read when a model is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from toolcrib.agent.models import CompletionRequest, MediaIntake, Message
from toolcrib.agent.transcript import harmless
from toolcrib.errors import Refused
from toolcrib.media import Media, joined, media_of, reference, size_text
from toolcrib.types import Block, Result, block

Load = Callable[[str], Awaitable[bytes | None]]
"""Reads what is kept beside the log under an id."""

_TEXT_BYTES = 256 * 1024
"""A text file that the model does not take as a file is read to it up to this size."""


# Messages


class MessageContent(NamedTuple):
    """What somebody sent: its text with placeholders, its parts where it has files, and the bytes of these by id."""

    text: str
    parts: list[dict[str, Any]] | None = None
    files: Mapping[str, bytes] = {}

    @classmethod
    def of(cls, message: str | Sequence[str | Mapping[str, Any]], most: int) -> MessageContent:
        """Reads a text, or a list of texts and blocks.

        Raises:
            Refused: `invalid_arguments`, a part is none; `too_large`, all together have more than `most` bytes.
        """
        if isinstance(message, str):
            return cls(message)
        blocks = [_block(part, number) for number, part in enumerate(message)]
        files: dict[str, bytes] = {}
        for number, one in enumerate(blocks):
            media = media_of(one)
            if media is not None and media.data is not None:
                data = _content(media, number)
                id = hashlib.sha256(data).hexdigest()
                files[id] = data
                blocks[number] = Block(reference(one, id, len(data)))
        shown = Result(content=blocks)
        size = sum(map(len, files.values())) + len(shown.text.encode())
        if size > most:
            advice = "send less, or smaller files; CribLimits.message_bytes is the limit"
            raise Refused("too_large", f"The message has {size_text(size)}, more than {size_text(most)}", advice)
        if not any(media_of(one) for one in blocks):
            return cls(shown.text if blocks else "")
        return cls(shown.text, [dict(one) for one in blocks], files)


def _block(part: Any, number: int) -> Block:
    """A part of a message as a block that a model can read.

    Raises:
        Refused: `invalid_arguments`.
    """
    if isinstance(part, str):
        return block("text", text=part)
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        raise Refused("invalid_arguments", f"Part {number} of the message is no text and no block", "use block(...)")
    made = block(**{str(name): value for name, value in part.items() if name not in ("audience", "quoted")})
    if part.get("quoted") is True and isinstance(made.get("text"), str):
        made = Block({**made, "text": "\n".join(f"> {line}" for line in made["text"].splitlines())})
    known = made["type"] in ("json", "link") or isinstance(made.get("text"), str) or media_of(made) is not None
    if not known or "output" in made:
        raise Refused("invalid_arguments", f"Part {number} of the message, a block '{made['type']}', has no content")
    return made


def _content(media: Media, number: int) -> bytes:
    try:
        return media.content()
    except ValueError as error:
        raise Refused("invalid_arguments", f"Part {number} of the message is {error}") from None


# Requests


async def fitted(request: CompletionRequest, intake: MediaIntake, load: Load) -> CompletionRequest:
    """A request with the files that its model takes, the newest first where it does not take all; of the others it
    reads placeholders that say why.
    """
    room = intake.total
    messages: list[Message] = []
    for message in reversed(request.messages):
        parts: list[str | Media] = []
        for part in reversed(message.parts):
            parts.insert(0, part if isinstance(part, str) else await _fitted(part, intake, room, load))
            if isinstance(parts[0], Media):
                room -= parts[0].size
        messages.insert(0, _with_parts(message, parts) if parts else message)
    return replace(request, messages=tuple(messages))


def without_files(request: CompletionRequest, reason: str) -> CompletionRequest | None:
    """The same request with placeholders for its files, which say why; None where it has no files."""
    if not any(message.parts for message in request.messages):
        return None
    messages = [
        _with_parts(message, [part if isinstance(part, str) else part.placeholder(reason) for part in message.parts])
        if message.parts
        else message
        for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


def _with_parts(message: Message, parts: Sequence[str | Media]) -> Message:
    kept = tuple(parts) if any(isinstance(part, Media) for part in parts) else ()
    return replace(message, text=joined(parts), parts=kept)


async def _fitted(media: Media, intake: MediaIntake, room: int, load: Load) -> str | Media:
    """A file with its bytes, its text, or a placeholder that says why it is not sent."""
    taken = intake.takes(media)
    if not taken and not (media.is_text and media.size <= _TEXT_BYTES):
        return media.placeholder(intake.refusal(media))
    if taken and media.size > min(intake.largest, room):
        within = intake.largest if media.size > intake.largest else intake.total
        return media.placeholder(f"left out, the model takes no more than {size_text(within)}")
    try:
        data = media.content() if media.output is None else await load(media.output)
    except ValueError:
        return media.placeholder("it cannot be read")
    if data is None:
        return media.placeholder("it is not kept any more")
    return media.with_data(data) if taken else _inlined(media, data)


def _inlined(media: Media, data: bytes) -> str:
    """A text file as a model reads it that takes no such files."""
    return f"{media.placeholder()}\n{harmless(data.decode('utf-8', 'replace'))}"

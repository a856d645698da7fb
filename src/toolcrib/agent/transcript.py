"""What was said in a conversation, what each agent in it gets to see, and how that looks to a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolcrib.agent.models import Message, ModelCall
from toolcrib.events import HandedOver, PassedHistory
from toolcrib.interop import aomi
from toolcrib.media import Media
from toolcrib.session import queued
from toolcrib.tool import canonical
from toolcrib.types import Handover, Result

CONTINUE = "Continue the task"
GO_ON = "Continue exactly where you stopped."
INTERRUPTED = "[Tool execution was interrupted]"
_FILE_TOKENS = 1500
"""What providers count for a usual image, and for a page of a document."""


def harmless(text: str) -> str:
    """A text of somebody else, in which nobody speaks as the system."""
    return aomi.harmless(text) if "[[" in text else text


def harmless_parts(parts: Iterable[str | Media]) -> tuple[str | Media, ...]:
    """Parts of somebody else's message, in which nobody speaks as the system."""
    return tuple(
        harmless(part) if isinstance(part, str) else replace(part, name=part.name and harmless(part.name))
        for part in parts
    )


@dataclass(slots=True, eq=False)
class CallNote:
    """A call that a model made, as far as the log tells of it.

    `named` is the tool as the model wrote it, and `builtin` the built-in tool that it means then, if it is one.
    """

    id: str
    tool: str
    args: str
    provider_id: str | None
    run: str | None
    turn: int
    state: Literal["new", "open", "waiting", "done"] = "new"
    question: str | None = None
    below: list[str] = field(default_factory=list)
    result: Result | None = None
    background: bool = False
    secret: bool = False
    wake: str | None = None
    named: str = field(init=False)
    builtin: str = field(init=False)
    _text: str | None = None
    _parts: tuple[str | Media, ...] | None = None

    def __post_init__(self) -> None:
        self.named, self.builtin = self.tool, self.tool.removeprefix("builtin").lstrip("._")

    @property
    def mode(self) -> Any:
        """The argument `mode` that the model gave, if there is one to be read."""
        try:
            arguments = json.loads(self.args or "{}")
        except (ValueError, RecursionError):
            return None
        return arguments.get("mode") if isinstance(arguments, dict) else None

    @property
    def answered(self) -> bool:
        """True if the model has something to read of it: its result, or that it runs in the background."""
        return self.result is not None or self.background

    @property
    def transfer(self) -> Handover | None:
        """Whom it handed the conversation over to; None where it did not."""
        return None if self.result is None or self.result.failure is not None else self.result.handover

    @property
    def steers(self) -> bool:
        """True if it handed the conversation over, or ended its run."""
        return self.transfer is not None or (self.result is not None and "finish" in self.result.metadata)

    @property
    def text(self) -> str | None:
        """What the model reads of it in its turn; made once, since it is read in each turn from then on."""
        if self._text is None and self.background:
            now = queued(self.id)
            self._text = f"{now.text}\n{now.metadata['note']}"
        elif self._text is None and self.result is not None:
            self._text = harmless(self.result.text)
        return self._text

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """The same with the files in it, where there are any."""
        if self.result is None or self.background or not self.result.content:
            return ()
        if self._parts is None:
            self._parts = harmless_parts(self.result.parts)
        return self._parts

    @property
    def files(self) -> tuple[Media, ...]:
        """The files of its result that are meant for the model."""
        parts = () if self.result is None else harmless_parts(self.result.parts)
        return tuple(part for part in parts if isinstance(part, Media))


@dataclass(slots=True)
class TranscriptItem:
    """One thing that was said."""

    seq: int
    role: Literal["user", "assistant", "note"]
    text: str
    agent: str | None = None
    calls: tuple[CallNote, ...] = ()
    finish: str = ""
    kept: dict[str, Any] | None = None
    parts: tuple[str | Media, ...] = ()


class Transcript:
    """A conversation: that of the session, or of one child run."""

    def __init__(self) -> None:
        self.views: dict[str, list[TranscriptItem]] = {}
        self.active = ""

    @property
    def view(self) -> list[TranscriptItem]:
        """What the active agent sees."""
        return self.views.setdefault(self.active, [])

    def start(self, agent: str) -> None:
        """An agent goes on; the first one sees what was said before it came."""
        if not self.active and "" in self.views:
            self.views[agent] = self.views.pop("")
        self.active = agent

    def hand_over(self, seq: int, data: HandedOver) -> None:
        """Another agent goes on; it sees what the handover passes on, and one line of it."""
        before, to = self.views.get(data.source, []), data.to
        policy = "full" if data.history is None else data.history.policy
        seen = passed(policy, before)
        if policy == "full":
            seen = _merged(self.views.get(to, []), seen)
        elif policy == "summary":
            summary = None if data.history is None else data.history.summary
            seen = [TranscriptItem(seq, "note", summary or "")]
        reason = f": {data.reason}" if data.reason else ""
        seen.append(TranscriptItem(seq, "note", harmless(f"{data.source} handed over to {to}{reason}")))
        if data.message:
            seen.append(TranscriptItem(seq, "user", data.message))
        elif data.call is not None and (missed := _missed(before, seen)) is not None:
            seen.append(TranscriptItem(seq, "user", missed.text, parts=missed.parts))
        self.views[to] = seen
        self.active = to


def _missed(before: Sequence[TranscriptItem], seen: Sequence[TranscriptItem]) -> TranscriptItem | None:
    """What a target is asked where nobody says it: the last user message, unless it sees that anyway."""
    last = next((item for item in reversed(before) if item.role == "user"), None)
    if last is None:
        return TranscriptItem(0, "user", CONTINUE)
    return None if any(item is last for item in seen) else last


def _merged(old: Iterable[TranscriptItem], new: Iterable[TranscriptItem]) -> list[TranscriptItem]:
    known = {id(item): item for item in (*old, *new)}
    return sorted(known.values(), key=lambda item: item.seq)


def passed(policy: Any, view: Sequence[TranscriptItem]) -> list[TranscriptItem]:
    """What a handover passes on of what an agent saw. A call is never parted from its result."""
    if policy == "full":
        return list(view)
    if not isinstance(policy, dict):
        return []
    kept: list[TranscriptItem] = []
    room = policy["last"]
    for item in reversed(view):
        room -= len(rendered([item]))
        if room < 0:
            break
        kept.append(item)
    return kept[::-1]


def size(view: Iterable[TranscriptItem]) -> int:
    """How many tokens a model reads of it, by a rough rule: four letters make one, and files have their own measure."""
    return sum(map(_tokens, view))


def _tokens(item: TranscriptItem) -> int:
    letters, parts = len(item.text), item.parts
    for note in item.calls:
        if note.transfer is None:
            letters += len(note.args) + len(note.text or "")
            parts += note.parts
    return letters // 4 + sum(_FILE_TOKENS + _file_tokens(part) for part in parts if isinstance(part, Media))


def _file_tokens(media: Media) -> int:
    """What a file costs beyond what every file does: texts by their letters, documents by a guess at their pages."""
    if media.kind == "image":
        return 0
    return media.size // (4 if media.is_text else 64)


def files_in(view: Iterable[TranscriptItem]) -> list[Media]:
    """The files that were said and shown in it."""
    return [part for message in rendered(view) for part in message.parts if isinstance(part, Media)]


def passed_within(view: Sequence[TranscriptItem], most: int) -> list[TranscriptItem]:
    """The last part of a view that has so many tokens at the most; its last item in any case."""
    kept: list[TranscriptItem] = []
    for item in reversed(view):
        most -= size([item])
        if most < 0 and kept:
            break
        kept.append(item)
    return kept[::-1]


def passing(policy: Any, view: Sequence[TranscriptItem]) -> PassedHistory:
    """What the event of a handover says of the history that it passes on."""
    seen = list(view) if policy == "summary" else passed(policy, view)
    texts = [[message.role, message.text] for message in rendered(seen)]
    digest = hashlib.sha256(canonical(texts)).hexdigest()[:16]
    seqs = [item.seq for item in seen] or [0]
    return PassedHistory(policy, min(seqs), max(seqs), digest)


def rendered(view: Iterable[TranscriptItem]) -> list[Message]:
    """What was said, as a model reads it: whole, and each call with its result."""
    messages: list[Message] = []
    used: set[str] = set()
    unfinished: set[str] = set()
    orphans: set[str] = set()
    for item in view:
        if item.role == "note":
            messages.append(Message("user", item.text, parts=item.parts))
        elif item.role == "user":
            messages.append(Message("user", harmless(item.text), parts=item.parts and harmless_parts(item.parts)))
        else:
            messages += _reply(item, used, unfinished, orphans)
    return repaired(messages, unfinished) if orphans else messages


def _reply(item: TranscriptItem, used: set[str], unfinished: set[str], orphans: set[str]) -> Iterable[Message]:
    """A reply and its results. Of a transfer only the line that the handover made is left."""
    calls: list[ModelCall] = []
    results: list[Message] = []
    for note in item.calls:
        if note.transfer is not None:
            continue
        shown = note.provider_id if note.provider_id and note.provider_id not in used else note.id
        used.add(shown)
        calls.append(ModelCall(shown, note.named, note.args))
        if (text := note.text) is not None:
            results.append(Message("tool", text, call=shown, parts=note.parts))
        else:
            (unfinished if note.state in ("open", "waiting") else orphans).add(shown)
    if item.text or calls:
        yield Message("assistant", item.text, tuple(calls), kept=item.kept if len(calls) == len(item.calls) else None)
        yield from results
    if item.finish == "length" and not item.calls:
        yield Message("user", GO_ON)


def repaired(messages: Iterable[Message], waiting: Iterable[str] = ()) -> list[Message]:
    """Results behind their call, in the order of the calls; a call without one gets the text `INTERRUPTED`.

    Results without a call and second results are left out. A call that still waits is no orphan.
    """
    ordered, open_ = list(messages), frozenset(waiting)
    results: dict[str, Message] = {}
    for message in ordered:
        if message.role == "tool" and message.call is not None:
            results.setdefault(message.call, message)
    mended: list[Message] = []
    answered: set[str] = set()
    for message in ordered:
        if message.role == "tool":
            continue
        mended.append(message)
        for call in message.calls:
            if call.id in answered or (call.id in open_ and call.id not in results):
                continue
            answered.add(call.id)
            mended.append(results.get(call.id) or Message("tool", INTERRUPTED, call=call.id))
    return mended

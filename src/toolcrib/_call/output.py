"""What a call tells its readers while it runs: text is joined, progress is thinned, the rest is written at once."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from toolcrib._call import lifecycle
from toolcrib.errors import ToolFailure
from toolcrib.events import KINDS
from toolcrib.schema.redaction import safe_length, without
from toolcrib.store import Conflict, draft
from toolcrib.store.codec import LargeValue, decode, encode, raw
from toolcrib.types import Failure, Result

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall

JOIN_S = 0.05
JOIN_BYTES = 4096
THIN_S = 0.1


class CallOutput:
    """What the readers of a call in flight hear of it. Nothing told ever fails or delays the body."""

    def __init__(self, live: LiveCall) -> None:
        self._live = live
        self._pipeline = live.pipeline
        self.outputs = 0
        self.unwritten = 0
        self._unwritten_bytes = 0
        self._flooded = False
        self._sent = 0
        self._heard = 0
        self._text: list[str] | None = None
        self._text_size = 0
        self._text_timer: asyncio.TimerHandle | None = None
        self._progress: dict[str, Any] | None = None
        self._progress_at = -1.0
        self._progress_timer: asyncio.TimerHandle | None = None
        self._room: asyncio.Future[None] | None = None

    @property
    def is_used(self) -> bool:
        """True if progress or output was told."""
        return self.outputs > 0 or self._progress_at >= 0

    def told(self, kind: str, data: dict[str, Any]) -> None:
        """Takes what the body tells, from any thread; after the end it does nothing."""
        if self._live.fenced:
            self._live.heed()
        if type(data.get("delta")) is not str:
            data = _frozen(data)
        if threading.get_ident() == self._pipeline.thread:
            self.tell(kind, data)
            return
        size = _size(data)
        if self._sent - self._heard + self._unwritten_bytes > self._pipeline.limits.unwritten_bytes:
            kind, data = "flood", {}  # the loop does not keep up; what is told from here on is lost with the call
        self._sent += size
        try:
            self._pipeline.loop.call_soon_threadsafe(self._hear, kind, data, size)
        except RuntimeError:  # the loop has closed: nobody listens any more
            return

    def _hear(self, kind: str, data: dict[str, Any], size: int) -> None:
        """Takes in the loop what a thread told. Each side counts for itself, so that neither needs a lock."""
        self._heard += size
        if kind == "flood":
            self._flood()
        else:
            self.tell(kind, data)

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        """Joins text, thins progress, writes the rest at once; the order stays. Before the body runs nobody listens."""
        if (
            self._live.finished
            or self._live.concluding
            or self._flooded
            or not self._live.in_body
            or self._live.open_question is not None
        ):
            self._pipeline.refused_after_done += self._live.finished or self._live.concluding
        elif kind == "progress":
            self._tell_progress(data)
        elif "delta" in data:
            self._tell_text(data["delta"])
        else:
            self.outputs += kind == "output"
            self.flush_text()
            self.put(kind, data, _size(data))

    def _tell_text(self, text: str) -> None:
        self.outputs += 1
        if self._text is None:
            self._text = []
        if self._text_timer is None:
            self._text_timer = self._pipeline.loop.call_later(JOIN_S, self.flush_text)
        self._text.append(text)
        self._text_size += len(text)
        if self._text_size >= JOIN_BYTES:
            self.flush_text()

    def flush_text(self, *, last: bool = False) -> None:
        """Writes the text that was joined so far; what may be the beginning of a secret stays until more is known."""
        if self._text_timer is not None:
            self._text_timer.cancel()
            self._text_timer = None
        if self._text is not None:
            text, self._text, self._text_size = "".join(self._text), None, 0
            if self._live.secrets and not last:
                cut = safe_length(self._live.secrets, text)
                text, self._text = text[:cut], [text[cut:]] if cut < len(text) else None
            if text:
                self.put("output", {"delta": text}, len(text))

    def _tell_progress(self, data: dict[str, Any]) -> None:
        wait = self._progress_at + THIN_S - self._pipeline.loop.time()
        self._progress = data
        if wait <= 0:
            self.flush_progress()
        elif self._progress_timer is None:
            self._progress_timer = self._pipeline.loop.call_later(wait, self.flush_progress)

    def flush_progress(self) -> None:
        """Writes the newest progress."""
        if self._progress is not None:
            data, self._progress = self._progress, None
            if self._progress_timer is not None:
                self._progress_timer.cancel()
                self._progress_timer = None
            self._progress_at = self._pipeline.loop.time()
            self.flush_text()
            self.put("progress", data)

    def flush(self) -> None:
        """Writes all that was held back."""
        if self._progress is not None:
            self.flush_progress()
        if self._text is not None:
            self.flush_text(last=True)

    def chunk(self, value: Any) -> None:
        """A value that a generator yielded: one event, never joined. A last `Result` shows its data."""
        if self._live.finished or self._live.concluding:
            self._pipeline.refused_after_done += 1
            return
        if self._live.fenced:
            self._live.heed()
        self.outputs += 1
        if isinstance(value, ToolFailure | Failure):
            return  # no output: it says how the call ends
        self.flush_text()
        shown = value.data if isinstance(value, Result) else value
        json = to_json(shown, inf_nan_mode="null")
        self.put("output", {"value": raw(json)}, len(json))

    def put(self, kind: str, data: dict[str, Any], size: int = 0) -> None:
        """Writes one event behind what was written before."""
        live, pipeline = self._live, self._pipeline
        if live.finished or live.concluding:
            return
        pipeline.begin_behind(live)
        assert live.row is not None
        if live.secrets:
            data = without(live.secrets, decode(encode(data)))
        self.unwritten += 1
        self._unwritten_bytes += size
        write = lifecycle.report(live.row, [draft(pipeline.clock.now(), live.id, KINDS[kind](**data))])
        write.on_commit = lambda: self._written(size)
        write.on_conflict = lambda conflict: self._refused(conflict, size)
        pipeline.store.put(write)
        if self._unwritten_bytes > pipeline.limits.unwritten_bytes:
            self._flood()

    def _flood(self) -> None:
        if not self._flooded:
            self._flooded = True
            self._live.stop(self._live.failure("too_large", "The tool writes faster than its output can be kept"))

    def _written(self, size: int) -> None:
        self.unwritten -= 1
        self._unwritten_bytes -= size
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _refused(self, conflict: Conflict, size: int) -> None:
        self._written(size)  # who waits for room goes on, and is stopped at the next contact
        self._live.refused(conflict)

    @property
    def crowded(self) -> bool:
        """True if so much is unwritten that a generator is not asked for more."""
        limits = self._pipeline.limits
        return self.unwritten >= limits.unwritten_chunks or self._unwritten_bytes > limits.unwritten_bytes // 2

    async def room(self) -> None:
        """Waits until few enough chunks are unwritten."""
        while self.crowded:
            self._room = self._pipeline.loop.create_future()
            await self._room

    def hush(self) -> None:
        """Lets go of its timers."""
        if self._text_timer is not None:
            self._text_timer.cancel()
        if self._progress_timer is not None:
            self._progress_timer.cancel()


def _frozen(data: dict[str, Any]) -> dict[str, Any]:
    """Told data as JSON of this moment; what cannot be written as JSON is told as text, since telling never fails."""
    return {name: value if type(value) is str else raw(_json(value)) for name, value in data.items()}


def _size(data: dict[str, Any]) -> int:
    return sum(len(value.json) if isinstance(value, LargeValue) else len(value) for value in data.values())


def _json(value: Any) -> bytes:
    try:
        return to_json(value, inf_nan_mode="null")
    except Exception:  # noqa: BLE001 - an object may raise whatever it likes when it is looked at
        try:
            return encode(str(value))
        except Exception:  # noqa: BLE001 - also when it is asked for its text
            return encode(f"<{type(value).__name__}>")

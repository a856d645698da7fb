"""Streams of events (SSE). A session that is followed is read once for all its readers, and an event written once.

A stream holds no task of its own beside that of its request, which only waits for its reader to leave. A reader that
takes its time is passed over, and reads on from the log when it has taken what it got; one that takes nothing for long
is cut off by the connection itself (`serve.patience`). Nobody waits for anybody.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from toolcrib._call.remote import ENDED
from toolcrib.crib import Crib
from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.events import Event
from toolcrib.serve.api import forms
from toolcrib.serve.api.limits import ServeLimits
from toolcrib.serve.api.reach import opened_by, within
from toolcrib.serve.asgi import STREAM, ClientDisconnected, Receive, Send, gone
from toolcrib.store.codec import PageLimit

PAGE = 500
EXTENT = PageLimit(64 * 1024, whole=False)
"""What is sent at once, and so what one who does not read can hold: large values are references."""

WRITTEN_BYTES, OVERHEAD = 2 * 1024 * 1024, 1024
"""Pages that are kept for the next who catches up, and what each counts beside its text."""

TURNS = 4
"""Pages that are read and written out at once for those who catch up: between them everybody else has a turn."""

AGAIN_S = 1.0
BEAT_S = 1.0
RETRY = b"retry: 1000\n\n"
STILL_HERE = b": still here\n\n"
log = logging.getLogger("toolcrib.serve")


class StreamPage(NamedTuple):
    """A page of a log as a stream sends it: its text, the last event that it goes up to, and whether it is the end."""

    text: bytes
    last: int
    done: bool


class PageCache:
    """Pages that were written out last, for the next who catches up: of those who come back at once many want the same.

    A log only grows, so a page that was read once stays right for as long as its session is followed.
    """

    def __init__(self) -> None:
        self._pieces: dict[tuple[SessionFeed, int, str | None], StreamPage] = {}
        self._bytes = 0

    def get(self, place: tuple[SessionFeed, int, str | None]) -> StreamPage | None:
        """The page that begins there, if it is known."""
        return self._pieces.get(place)

    def put(self, place: tuple[SessionFeed, int, str | None], piece: StreamPage) -> None:
        """Keeps a page in the place of the oldest ones."""
        self._forget(place)
        self._pieces[place] = piece
        self._bytes += len(piece.text) + OVERHEAD
        while self._bytes > WRITTEN_BYTES:
            self._forget(next(iter(self._pieces)))

    def drop(self, feed: SessionFeed) -> None:
        """Nobody follows that session any more."""
        for place in [place for place in self._pieces if place[0] is feed]:
            self._forget(place)

    def _forget(self, place: tuple[SessionFeed, int, str | None]) -> None:
        piece = self._pieces.pop(place, None)
        if piece is not None:
            self._bytes -= len(piece.text) + OVERHEAD


class EventStream:
    """A stream to one reader. `at` is the last event that it was given, `call` the only one it wants to hear of.

    It ends where a namespace is opened in its session that is not within its `bounds`.
    """

    __slots__ = ("_busy", "_ending", "_send", "_streams", "at", "bounds", "call", "freed", "last", "over")

    def __init__(self, streams: Streams, send: Send) -> None:
        self._streams = streams
        self._send = send
        self._busy: asyncio.Task[None] | None = None
        self._ending: str | None = None
        self.at = 0
        self.bounds: tuple[str, ...] | None = None
        self.call: str | None = None
        self.last = 0
        self.over = False
        self.freed: Callable[[EventStream], None] | None = None

    @property
    def busy(self) -> bool:
        """True if something is on its way."""
        return self._busy is not None

    async def begin(self) -> None:
        """Opens the stream."""
        await self._send({"type": "http.response.start", "status": 200, "headers": list(STREAM)})
        await self.send(RETRY)

    async def send(self, text: bytes) -> None:
        """Sends a piece, and waits until there is room for the next."""
        try:
            await self._send({"type": "http.response.body", "body": text, "more_body": True})
        except RuntimeError:  # it was ended meanwhile
            if not self.over:
                raise

    def push(self, text: bytes) -> bool:
        """Sends a piece at once; False where the last one is still on its way."""
        if self._busy is not None or self.over:
            return False
        self.aside(self._pushed({"type": "http.response.body", "body": text, "more_body": True}))
        return True

    async def _pushed(self, message: dict[str, object]) -> None:
        try:
            await self._send(message)
        except (ClientDisconnected, OSError, RuntimeError):  # the task of its request hears of it too
            self.over = True

    def aside(self, work: object) -> None:
        """Does something while which nothing is pushed."""
        task = self._streams.start(work)
        if task is not None:
            self._busy = task
            task.add_done_callback(self._free)

    def _free(self, task: asyncio.Task[None]) -> None:
        if self._busy is task:
            self._busy = None
        if not task.cancelled() and task.exception() is not None:
            log.error("a stream broke off", exc_info=task.exception())
            self.end("broken")
        elif self._ending is not None:
            self.end(self._ending)
        elif self.freed is not None and not self.over:
            self.freed(self)

    def finish(self, reason: str) -> None:
        """Ends it when what is on its way has arrived."""
        if self._busy is None:
            self.end(reason)
        else:
            self._ending = reason

    def end(self, reason: str) -> None:
        """End the stream; what is not sent yet is dropped."""
        if self.over:
            return
        self.over = True
        if self._busy is not None:
            self._busy.cancel()
        last = b'event: end\ndata: {"reason":"%b"}\n\n' % reason.encode()
        self._busy = self._streams.start(self._pushed({"type": "http.response.body", "body": last, "more_body": False}))

    async def stay(self, receive: Receive) -> None:
        """Returns when the reader has left, or the stream has ended."""
        self._streams.watch(self)
        try:
            await gone(receive)
        finally:
            self.over = True
            if self._busy is not None:
                self._busy.cancel()


class Streams:
    """All streams of a server."""

    def __init__(self, crib: Crib, limits: ServeLimits) -> None:
        self.crib = crib
        self._ping_s = limits.ping_s
        self._feeds: dict[str, SessionFeed] = {}
        self._beats: deque[tuple[float, EventStream]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.turns = asyncio.Semaphore(TURNS)
        self.written = PageCache()
        self.stopped = False

    def start(self, work: object) -> asyncio.Task[None] | None:
        """Runs work up to its first pause; its task, or None if it is over."""
        return self.crib.pipeline.starter.start(work)  # type: ignore[arg-type]

    def line(self, send: Send) -> EventStream:
        """A new stream."""
        return EventStream(self, send)

    def feed(self, session: str, seq: int) -> SessionFeed:
        """What follows a session, from that event on if it is new."""
        feed = self._feeds.get(session)
        if feed is None:
            feed = self._feeds[session] = SessionFeed(self, session, seq)
        return feed

    def drop(self, feed: SessionFeed) -> None:
        """Nobody follows that session any more."""
        if self._feeds.get(feed.session) is feed:
            del self._feeds[feed.session]
            self.written.drop(feed)

    def watch(self, line: EventStream) -> None:
        """Lets a stream that is silent say now and then that it is there."""
        loop = asyncio.get_running_loop()
        self._beats.append((loop.time() + self._ping_s, line))
        if self._timer is None:
            self._timer = loop.call_later(min(BEAT_S, self._ping_s), self._beat)

    def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        now, self._timer = loop.time(), None
        while self._beats and self._beats[0][0] <= now:
            _, line = self._beats.popleft()
            if not line.over:
                line.push(STILL_HERE)
                self._beats.append((now + self._ping_s, line))
        if self._beats:
            self._timer = loop.call_later(min(BEAT_S, self._ping_s), self._beat)

    async def stop(self) -> None:
        """Ends all of them."""
        self.stopped = True
        feeds = list(self._feeds.values())
        for feed in feeds:
            feed.stop("stopping")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if feeds:
            await asyncio.wait([feed.task for feed in feeds])


class SessionFeed:
    """Reads the log of one session for all who follow it."""

    def __init__(self, streams: Streams, session: str, seq: int) -> None:
        self._streams = streams
        self._crib = streams.crib
        self.session = session
        self.at = seq
        self.lines: set[EventStream] = set()
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def join(self, line: EventStream) -> None:
        """Brings a stream up to now; from then on it is given what comes."""
        line.freed = self._freed
        self.lines.add(line)
        await self._catch_up(line)

    def leave(self, line: EventStream) -> None:
        """One reader less."""
        self.lines.discard(line)
        if not self.lines:
            self.task.cancel()
            self._streams.drop(self)

    def stop(self, reason: str) -> None:
        """Ends all its streams."""
        for line in list(self.lines):
            line.end(reason)
        self.task.cancel()
        self._streams.drop(self)

    async def _run(self) -> None:
        store = self._crib.store
        while not self._crib.ending:
            try:
                await store.wait(self.session, self.at)
                page = await store.read(self.session, self.at, limit=PAGE, extent=EXTENT)
            except StoreUnavailable as error:
                log.info("session %s is read again soon: %s", self.session, error)
                await asyncio.sleep(AGAIN_S)
            except StoreError:  # it was swept
                self.stop("gone")
            else:
                self._deliver(page)
        self.stop("stopping")

    def _deliver(self, page: list[Event]) -> None:
        frames = [frame(self.session, event) for event in page]
        whole, before = b"".join(frames), self.at
        self.at = page[-1].seq if page else self.at
        opened = {name for event in page for name in opened_by(event)}
        for line in list(self.lines):
            if opened and not within(opened, line.bounds):
                line.end("denied")
            elif line.at == before and line.call is None:
                if line.push(whole):
                    line.at = self.at
            elif line.at >= before:
                self._give(line, page, frames)

    def _give(self, line: EventStream, page: list[Event], frames: list[bytes]) -> None:
        """What one stream wants of a page."""
        wanted = [i for i, event in enumerate(page) if event.seq > line.at and line.call in (None, event.call)]
        done = next((i for i in wanted if line.call and page[i].kind in ENDED and page[i].seq >= line.last), None)
        text = b"".join(frames[i] for i in wanted if done is None or i <= done)
        if text and not line.push(text):
            return
        line.at = max(line.at, self.at)
        if done is not None:
            line.finish("done")

    def _freed(self, line: EventStream) -> None:
        if line.at < self.at:
            line.aside(self._catch_up(line))

    async def _catch_up(self, line: EventStream) -> None:
        """Sends from the log what a stream has not got yet."""
        while line.at < self.at and not line.over:
            async with self._streams.turns:
                known = None if line.bounds is not None else self._streams.written.get((self, line.at, line.call))
                piece = known or await self._next(line)
            if piece.text:  # while it is on its way nothing but its text is held
                await line.send(piece.text)
            line.at = piece.last
            if piece.done:
                line.finish("done")
                return

    async def _next(self, line: EventStream) -> StreamPage:
        """Reads and writes out what comes next in a stream."""
        page = await self._crib.store.read(self.session, line.at, limit=PAGE, until=self.at, extent=EXTENT)
        frames, done = [], False
        if not within((name for event in page for name in opened_by(event)), line.bounds):
            line.end("denied")
            return StreamPage(b"", self.at, done=False)
        for event in page:
            if line.call in (None, event.call):
                frames.append(frame(self.session, event))
                done = line.call is not None and event.kind in ENDED and event.seq >= line.last
                if done:
                    break
        piece = StreamPage(b"".join(frames), page[-1].seq if page else self.at, done)
        if line.call is None and frames:
            self._streams.written.put((self, line.at, None), piece)
        return piece


def frame(session: str, event: Event, id: bytes | None = None) -> bytes:
    """An event as a piece of a stream."""
    name = b"%d" % event.seq if id is None else id
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (name, event.kind.encode(), forms.event(session, event))

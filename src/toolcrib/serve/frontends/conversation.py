"""A conversation with an agent over an endpoint: a session, a person's message, and the run that takes it."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib._session.session_ids import SESSION_ID
from toolcrib.agent import Agents, RunOutcome
from toolcrib.errors import Refused
from toolcrib.events import Event
from toolcrib.serve.api.errors import ApiError, ErrorDetail, problem_of
from toolcrib.serve.api.reach import opened_by, within
from toolcrib.serve.api.request import ApiRequest
from toolcrib.serve.api.session_cache import bounds
from toolcrib.serve.api.streams import STILL_HERE
from toolcrib.serve.asgi import STREAM, ClientDisconnected, Header, Send, gone
from toolcrib.serve.frontends.files import Said
from toolcrib.serve.principal import Principal
from toolcrib.store import OWNER
from toolcrib.store.codec import PageLimit
from toolcrib.types import Failure, Question

if TYPE_CHECKING:
    from toolcrib.agent.driver import Driver
    from toolcrib.serve.api import Api
    from toolcrib.session import Session

PAGE = 200
EXTENT = PageLimit(256 * 1024)
"""What is held of a log for one who does not read; its protocol has no references."""


class Reader(Protocol):
    """Turns the events of a run into pieces of a stream."""

    def begin(self) -> Iterable[bytes]:
        """What comes before any event."""

    def take(self, event: Event) -> Iterable[bytes]:
        """What an event becomes."""

    def fail(self, detail: ErrorDetail) -> Iterable[bytes]:
        """What says that it could not go on."""

    def end(self) -> Iterable[bytes]:
        """What comes last."""


class FrontendSession:
    """One session as a front end uses it, which calls it a thread, a chat or a context.

    `whole` says that the runs of other agents within a run are heard too.
    """

    def __init__(
        self, api: Api, session: Session, agents: Agents, principal: Principal, *, whole: bool = False
    ) -> None:
        self._whole = whole
        self.api = api
        self.session = session
        self.agents = agents
        self.principal = principal

    @classmethod
    async def open(
        cls, api: Api, principal: Principal, thread: str, agent: str, *, whole: bool = False
    ) -> FrontendSession:
        """The session of a thread, made where there is none.

        Raises:
            ApiError: there is no such agent here, or more is open in the thread than they may use.
        """
        agents = agents_of(api, agent)
        session = await _opened(api, principal, thread)
        return cls(api, session, agents, principal, whole=whole)

    @classmethod
    async def found(
        cls, api: Api, principal: Principal, thread: str, agent: str, *, whole: bool = False
    ) -> FrontendSession | None:
        """The same for who only looks: where there is no such thread, none is made.

        Raises:
            ApiError: there is no such agent here, or more is open in the thread than they may use.
        """
        agents_of(api, agent)
        there = await api.crib.store.session(await session_of(api, principal, thread)) is not None
        return await cls.open(api, principal, thread, agent, whole=whole) if there else None

    async def seen(self) -> int:
        """The number of its last event."""
        row = await self.api.crib.store.session(self.session.id)
        return 0 if row is None else row.seq

    async def open_questions(self) -> dict[str, Question]:
        """What it waits for, by id."""
        return {question.id: question for question in await self.session.questions()}

    async def answer(self, question: str, action: str, value: Any = None, **more: Any) -> None:
        """Answers a question as the principal. One that is not open any more was answered: that is no fault of a page.

        Raises:
            ApiError: the principal may not answer.
            Refused: the answer does not fit.
        """
        if not self.principal.may("answer"):
            raise ApiError("denied", "This needs the scope 'answer'", "use a key that has it")
        try:
            await self.session.answer(question, action, value, actor=self.principal.name, **more)
        except Refused as refused:
            if refused.code not in ("already_answered", "not_found", "expired"):
                raise

    async def say(self, message: Said, agent: str, key: str | None = None) -> AsyncIterator[Event]:
        """Sends a message; the events of the run that takes it. Once one runs here, handovers say who is spoken to.

        Raises:
            Refused: there is no such agent.
        """
        after = await self.seen()
        first = None if await self.spoken() else agent
        known = None if key is None else self._driver.conversation.keys.get(key)
        if known is not None:  # it was sent before: whoever lost the connection hears all of its run
            after = (
                await self._begin(known if isinstance(known, str) else self._driver.conversation.taken.get(known))
                or after
            )
        sending = functools.partial(self.session.send, message, agent=first, key=key)
        return self._until(after, sending, waits=known is not None)

    async def rest(self, after: int | None = None) -> AsyncIterator[Event]:
        """The events past `after`, until nothing goes on any more; from now on where it is not said."""
        after = await self.seen() if after is None else after
        return self._until(after, functools.partial(self.agents.settled, self.session), waits=True)

    async def spoken(self) -> bool:
        """True if an agent has run here."""
        await self.agents.active(self.session)
        return bool(self._driver.conversation.line.active)

    async def going(self) -> int | None:
        """The number of the event before the run that goes on right now; None where none does."""
        await self.agents.active(self.session)
        run = self._driver.conversation.foreground
        return None if run is None or run.status == "waiting" else await self._begin(run.id)

    @property
    def _driver(self) -> Driver:
        return self.agents.driver(self.session)

    async def _begin(self, run: str | None) -> int | None:
        """The number of the event before a run."""
        begun, after = None, 0
        while page := await self.api.crib.store.read(self.session.id, after, call="", limit=PAGE):
            starts = (one.seq - 1 for one in page if one.kind == "run_started" and one.fields["run"] == run)
            begun, after = next(starts, begun), page[-1].seq
        return begun

    async def _until(
        self, after: int, begin: Callable[[], Coroutine[Any, Any, RunOutcome | None]], *, waits: bool
    ) -> AsyncIterator[Event]:
        """What the run does until it is over or waits. It goes on whether somebody listens or not.

        What only `waits` for it is given up with its listener: who comes back a thousand times leaves nothing behind.
        """
        ended = self.api.crib.pipeline.loop.create_task(begin())
        self.api.crib.pipeline.aside(_quietly(ended))
        try:
            async for event in self._events(after, ended):
                yield event
            ended.result()
        finally:
            if waits:
                ended.cancel()

    async def _events(self, after: int, ended: asyncio.Task[Any]) -> AsyncIterator[Event]:
        """The events past `after`, until something has ended and all were told."""
        store, ours = self.api.crib.store, _Ours(self._whole)
        while True:
            over = ended.done()
            page = await store.read(self.session.id, after, limit=PAGE, extent=EXTENT)
            for event in page:
                after = event.seq
                if not within(opened_by(event), bounds(self.principal)):
                    raise ApiError("denied", "More is open in this conversation now than your key opens")
                if ours.has(event):
                    await self.session._see(event)
                    yield event
            if over and not page:
                return
            if not over and len(page) < PAGE:
                await _first(store.wait(self.session.id, after), ended)


class _Ours:
    """Tells the events of a run in the foreground from those of runs and calls within it, and of others' calls."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._runs: set[str] = set()
        self._calls: set[str] = set()

    def has(self, event: Event) -> bool:
        data = event.fields
        if event.kind == "run_started" and "parent" in data and not self._whole:
            self._runs.add(data["run"])
        elif event.kind == "accepted" and ("parent" in data or data.get("run") in (None, *self._runs)):
            self._calls.add(event.call or "")
        return event.call not in self._calls if event.call is not None else data.get("run") not in self._runs


async def _quietly(ended: asyncio.Task[Any]) -> None:
    """Who listens hears of what went wrong; who left does not."""
    await asyncio.wait([ended])
    if not ended.cancelled():
        ended.exception()


async def _first(news: Coroutine[Any, Any, Any], ended: asyncio.Task[Any]) -> None:
    """Waits for news, or until there will be none."""
    waiting = asyncio.ensure_future(news)
    try:
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        await asyncio.wait([waiting])


# The way in and out


async def session_of(api: Api, principal: Principal, thread: str) -> str:
    """The session of somebody's thread; a name that no session may have becomes its digest.

    Pages choose names, and two may choose the same: whoever comes second has it under an id that is made for them, and
    keeps that. So nobody can take a name from others, nor find out by it what they have.
    """
    good = SESSION_ID.fullmatch(thread) and not thread.startswith(f"{OWNER}.")
    id = thread if good else f"thread-{hashlib.sha256(thread.encode()).hexdigest()[:40]}"
    row = await api.crib.store.session(id)
    if api.seal is None or (row is not None and row.owner == principal.name):
        return id
    own = f"thread-{api.seal.place(principal.name, thread)}"
    return own if row is not None or await api.crib.store.session(own) is not None else id


async def _opened(api: Api, principal: Principal, thread: str, taken: str | None = None) -> Session:
    """The session of a thread; where somebody else has `taken` the name since it was looked at, that under another."""
    id = await session_of(api, principal, thread)
    if id == taken:
        raise ApiError("not_found", "There is no such conversation")
    try:
        session, _ = await api.sessions.open(id, principal, None, ())
        return session
    except (ApiError, Refused) as error:
        if problem_of(error).detail.code != "denied":
            raise
    return await _opened(api, principal, thread, id)


def agents_of(api: Api, name: str) -> Agents:
    """The agents of the crib, with one of that name.

    Raises:
        ApiError: it has none.
    """
    agents = api.crib.agents
    if not isinstance(agents, Agents):
        raise ApiError("not_found", "This crib has no agents", "name their files under `agents` in crib.yaml")
    if name not in agents.registry:
        raise ApiError("not_found", f"There is no agent '{name}'", "GET /v1/agents lists them")
    return agents


def text_of(parts: Iterable[Any]) -> str:
    """The text of the parts of a message; those of other kinds are passed over."""
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type", "text") == "text")
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def approved(value: Any) -> bool:
    """True if an approval is a yes. Only `true` is: any other truthy value may be a no in other words.

    Raises:
        ApiError: it is neither.
    """
    if not isinstance(value, bool):
        raise ApiError("invalid_arguments", "An approval says `approved`: true or false", "the question is still open")
    return value


async def stream(
    request: ApiRequest, reader: Reader, events: AsyncIterator[Event], headers: Iterable[Header] = ()
) -> None:
    """Sends what a reader makes of events, as they come. Who hangs up ends the stream, and nothing else."""
    async with request.api.readers.of(request):
        await request.send({"type": "http.response.start", "status": 200, "headers": [*STREAM, *headers]})
        sending = asyncio.ensure_future(_send(request.send, _pieces(reader, events)))
        left = asyncio.ensure_future(gone(request.receive))
        try:
            while not (sending.done() or left.done()):
                await asyncio.wait(
                    {sending, left}, timeout=request.api.limits.ping_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not (sending.done() or left.done()):
                    await _piece(request.send, STILL_HERE)
        finally:
            sending.cancel()
            left.cancel()
            await asyncio.wait([sending, left])
        if not sending.cancelled():
            sending.result()


def failure_line(failure: Mapping[str, Any]) -> str:
    """A failure of the log in one line, as a model reads it."""
    return Failure(failure["code"], failure["message"], reason=failure.get("reason")).line


async def _pieces(reader: Reader, events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """Send a whole stream. Errors are sent in the form of its protocol, since it has begun already."""
    for piece in reader.begin():
        yield piece
    try:
        async for event in events:
            for piece in reader.take(event):
                yield piece
    except Exception as error:  # noqa: BLE001 - sent to the front end in one form
        for piece in reader.fail(problem_of(error).detail):
            yield piece
    for piece in reader.end():
        yield piece


async def _send(send: Send, pieces: AsyncIterator[bytes]) -> None:
    with suppress(ClientDisconnected, OSError):
        async for piece in pieces:
            await _piece(send, piece)
        await send({"type": "http.response.body", "body": b""})


async def _piece(send: Send, piece: bytes) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": True})

"""A request that makes a call: it is answered with the result, with what the call wants to know, or with a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

from msgspec import UNSET, Raw

from toolcrib._call.history import result
from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import CallOptions, CallRequest
from toolcrib.crib import Crib
from toolcrib.errors import Refused
from toolcrib.events import Event
from toolcrib.serve.mcp.notifications import CallNotifications
from toolcrib.serve.mcp.questions import Open, give, only_visits, open_questions, requests, waiting_text
from toolcrib.serve.mcp.request import Later, McpReply, McpRequest, lacking
from toolcrib.serve.mcp.settings import McpServerSettings
from toolcrib.serve.mcp.signed_state import Signer
from toolcrib.serve.mcp.tasks import Tasks
from toolcrib.serve.mcp.whole_results import is_partial, make_whole
from toolcrib.serve.mcp.wire import INTERNAL, INVALID_PARAMS, TASKS, ProtocolError, decode, encode, request
from toolcrib.session import Session
from toolcrib.sources.mcp.callers import McpCaller, callers
from toolcrib.sources.mcp.server import ROUND
from toolcrib.tool import Tool
from toolcrib.types import Result

ENDED = ("done", "settled")
VISIT_S = 20.0
"""How long a request waits for its user to come back from a page, before the client is asked again."""

Shape = Callable[[Result, Tool | None, bool], bytes]
"""Makes the JSON of a result, of which kind the method says; whether for the newest revision is the last argument."""


class CallRunner:
    """Makes calls for requests, and follows them in the log."""

    def __init__(self, seal: Signer, settings: McpServerSettings, tasks: Tasks) -> None:
        self._seal = seal
        self._settings = settings
        self._tasks = tasks

    async def call(
        self, request: McpRequest, session: Session, tool: Tool, arguments: bytes, shape: Shape
    ) -> McpReply | Later:
        """Calls a tool, or goes on with the call that an earlier request made."""
        if request.params.request_state is not UNSET:
            return await self._resume(request, session.crib, tool, shape)
        live = await session._accept(self.call_request(request, session, tool, arguments))
        return self.answer(request, live, tool, shape)

    def call_request(self, request: McpRequest, session: Session, tool: Tool, arguments: bytes) -> CallRequest:
        """A call that nobody has looked at yet.

        Raises:
            Wrong: the tool is of no use to a client that does not know tasks.
        """
        background = None
        if tool.background or tool.metadata:
            tasks = request.takes_task
            if not tasks and request.modern and _needs_task(tool):
                raise lacking(extension=TASKS)
            background = tasks if tool.background else None
        call = session._request(tool.id, arguments, CallOptions(by=request.by, background=background))
        if tool.upstream is not None:
            callers.note(call.id, McpCaller(request.capabilities, request.level))
        return call

    def answer(self, request: McpRequest, live: LiveCall, tool: Tool, shape: Shape) -> McpReply | Later:
        """The answer of a call that was accepted, at once where it is over."""
        session = cast(Session, live.session)
        if live.result is not None:
            if is_partial(live.result):
                return self._whole(session, live.result, tool, request.modern, shape)
            return McpReply(shape(live.result, tool, request.modern))
        request.call = live.id if live.row is None else live.row.id
        if live.background:
            return self._tasks.created(session, request.call)
        return self._later(_CallFollow(self, request, session, tool, shape))

    async def _whole(self, session: Session, result: Result, tool: Tool, modern: bool, shape: Shape) -> McpReply:
        return McpReply(shape(await make_whole(session, result), tool, modern))

    async def _later(self, pursuit: _CallFollow) -> McpReply:
        """Follows a call; one that takes long becomes a task, one that nobody waits for any more is stopped.

        Whose token expired while they waited may come back with another: their call goes on.
        """
        request = pursuit.request
        try:
            return await (self._timely(pursuit) if request.takes_task else pursuit.reply())
        except asyncio.CancelledError:
            stays = request.line is not None and request.line.refused
            if request.modern and not stays and not pursuit.session.crib.ending:
                pursuit.session.pipeline.aside(_cancel(pursuit.session, pursuit.call))
            raise

    async def _timely(self, pursuit: _CallFollow) -> McpReply:
        work = asyncio.ensure_future(pursuit.reply())
        try:
            await asyncio.wait({work}, timeout=self._settings.task_after_s)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
        if not work.cancelled():
            return work.result()
        return await self._tasks.created(pursuit.session, pursuit.call)

    # Questions

    def state(self, request: McpRequest, session: Session, call: str, tool: Tool, opened: list[Open]) -> str:
        """What the client has to bring back: which call waits for which questions."""
        now = session.pipeline.clock.now()
        expires = min(now + self._settings.state_s, *(one.question.expires_at for one in opened))
        value = {"session": session.id, "call": call, "questions": [one.question.id for one in opened]}
        return self._seal.close(_bound(request, tool), value | {"left": sorted(requests(opened))}, expires)

    async def _resume(self, request: McpRequest, crib: Crib, tool: Tool, shape: Shape) -> McpReply | Later:
        """Goes on where a client was asked something."""
        state = self._seal.open(_bound(request, tool), request.needs("request_state"), crib.pipeline.clock.now())
        session = await crib._session_table.attached(state["session"])
        place = await crib.store.session(state["session"])
        if session is None or place is None or not self._tasks.owns(session, request.principal):
            raise ProtocolError(INVALID_PARAMS, "requestState belongs to a call that is gone")
        request.call = state["call"]
        if tool.upstream is not None:
            callers.note(request.call, McpCaller(request.capabilities, request.level))
        return self._later(_CallFollow(self, request, session, tool, shape, place.seq))

    async def follow(
        self, request: McpRequest, session: Session, tool: Tool | None, shape: Shape, after: int
    ) -> McpReply:
        """Reads on in a call whose stream was lost, past the last event that arrived."""
        pursuit = _CallFollow(self, request, session, tool, shape, after)
        return await pursuit.follow(after or None)

    async def created(self, session: Session, call: str) -> McpReply:
        """A task in place of a result."""
        return await self._tasks.created(session, call)


class _CallFollow:
    """One request that follows one call to its end, or to what it waits for."""

    def __init__(
        self,
        running: CallRunner,
        request: McpRequest,
        session: Session,
        tool: Tool | None,
        shape: Shape,
        after: int | None = None,
    ) -> None:
        self.running = running
        self.request = request
        self.session = session
        self.call = request.call
        self.tool = tool
        self.shape = shape
        self.after = after

    async def reply(self) -> McpReply:
        """The answer to the request.

        Raises:
            Wrong: the client cannot do what the call needs, or the server closes.
        """
        if self.after is not None and (reply := await self._again()) is not None:
            return reply
        return await self.follow(self.after)

    async def follow(self, after: int | None) -> McpReply:
        """The answer, by what the log says from there on."""
        telling = CallNotifications(self.request)
        async for event in follow(self.session, self.call, after):
            if event.kind == "waiting":
                reply = await self._waiting(event)
                if reply is not None:
                    return reply
            elif event.call == self.call:
                if event.kind in ENDED:
                    return await self._done(result(event.data))
                if self.request.takes_task and _is_task(event):
                    return await self.running.created(self.session, self.call)
                await telling.tell(event)
        raise ProtocolError(INTERNAL, "The server is closing")

    async def _done(self, outcome: Result) -> McpReply:
        if is_partial(outcome):
            outcome = await make_whole(self.session, outcome)
        return McpReply(self.shape(outcome, self.tool, self.request.modern))

    async def _again(self) -> McpReply | None:
        """What a client brings that was asked before; None where the call goes on."""
        session = self.session
        row = await session._row(self.call)
        if row.state == "done":
            return await self._done(await session.result(self.call))
        opened = await open_questions(session, self.call, self.request.capabilities, self.request.principal)
        if not opened:
            return None
        responses = self._responses()
        if responses and await give(session, opened, responses, self.request.principal.name):
            left = await open_questions(session, self.call, self.request.capabilities, self.request.principal)
            if not left:
                return None
            if only_visits(left):
                return await self._visited(left)
            opened = left
        return await self._ask(opened)

    async def _visited(self, opened: list[Open]) -> McpReply:
        """Waits a while for a person who is on the page that was shown to them."""
        try:
            return await asyncio.wait_for(self.follow(self.after), VISIT_S)
        except TimeoutError:
            return await self._ask(opened)

    def _responses(self) -> Mapping[str, Any]:
        responses = self.request.params.input_responses
        return {} if responses is UNSET else responses

    async def _waiting(self, event: Event) -> McpReply | None:
        opened = await open_questions(self.session, self.call, self.request.capabilities, self.request.principal)
        if not opened:
            return None
        if not self.request.modern:
            return await self._request([one for one in opened if one.question.call == event.call], event.seq)
        responses = self._responses()
        if responses:
            left = await self._unasked(opened, responses)
            if not left:
                return None
            opened = left
        return await self._ask(opened)

    async def _unasked(self, opened: list[Open], data: Mapping[str, Any]) -> list[Open]:
        """What is left to ask when a client answered before it was asked."""
        if not await give(self.session, opened, data, self.request.principal.name, unasked=True):
            return opened
        return await open_questions(self.session, self.call, self.request.capabilities, self.request.principal)

    async def _ask(self, opened: list[Open]) -> McpReply:
        wanted = requests(opened)
        if not wanted:
            return await self._parked(opened)
        assert self.tool is not None
        state = self.running.state(self.request, self.session, self.call, self.tool, opened)
        return McpReply(encode({"inputRequests": wanted, "requestState": state}), b"input_required")

    async def _request(self, opened: list[Open], seq: int) -> McpReply | None:
        """Asks a client of an older revision over the connection; it answers under the ids of the questions."""
        if not opened:
            return None
        if not any(one.wanted for one in opened):
            return await self._parked(opened)
        for one in opened:
            for name, wish in one.wanted.items():
                id = one.question.id + (f"|{name}" if one.for_client_alone else "")
                await self.request.send(request(id, wish["method"], wish["params"]), seq)
        return None

    async def _parked(self, opened: list[Open]) -> McpReply:
        """This client cannot answer. Somebody else may; where nobody can, the call is of no use."""
        alone = sorted({name for one in opened if one.for_client_alone for name in one.lacking})
        if alone:
            await _cancel(self.session, self.call)
            raise lacking(*alone)
        if self.request.takes_task:
            return await self.running.created(self.session, self.call)
        text = waiting_text(opened[0].question, self.call, self.tool)
        if self.request.method != "tools/call":  # there is no other way to say it
            raise ProtocolError(INTERNAL, text)
        return McpReply(encode({"content": [{"type": "text", "text": text}], "isError": True}))


async def follow(session: Session, call: str, after: int | None) -> AsyncIterator[Event]:
    """The events of a call and of those that it made, from its beginning or past a place, until its end."""
    if after is None:
        await session.crib.store.flush()
        after = (await session._row(call)).accepted_seq
    family = {call}
    async for event in session.events(after):
        if event.kind == "accepted" and event.fields.get("parent") in family:
            family.add(event.call or "")
        if event.call in family:
            yield event
            if event.call == call and event.kind in ENDED:
                return


async def _cancel(session: Session, call: str) -> None:
    try:
        await session.cancel(call)
    except Refused:
        return  # it has ended, or runs where nobody hears


def _is_task(event: Event) -> bool:
    """True if a server made a task of the call: so do we."""
    if event.kind != "step" or not str(event.fields.get("key")).startswith(ROUND):
        return False
    value = event.fields.get("value")
    return isinstance(value, Mapping) and "task" in value


def _needs_task(tool: Tool) -> bool:
    """True if a tool says, in its metadata, that it is of no use without tasks: `{"mcp": {"task": "required"}}`."""
    declared = tool.metadata.get("mcp")
    return isinstance(declared, Mapping) and declared.get("task") == "required"


def _bound(request: McpRequest, tool: Tool) -> list[Any]:
    """What a request that brings a state back has to have in common with the one that got it."""
    raw = request.params.arguments
    try:
        arguments = decode(raw) if isinstance(raw, Raw) else None
    except (ValueError, RecursionError) as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: arguments cannot be read: {error}") from None
    return [request.principal.name, request.method, tool.id, arguments or {}, _uri(request)]


def _uri(request: McpRequest) -> str | None:
    return None if request.params.uri is UNSET else request.params.uri

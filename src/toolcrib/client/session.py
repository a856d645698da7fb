"""`RemoteSession`: a session of a server, with the names of `Session`."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote

import msgspec

from toolcrib._call.request import OPTIONS
from toolcrib._session.client_tools import definition, offered
from toolcrib._session.progress_tree import progress
from toolcrib.client import codec, streams
from toolcrib.client.client_tools import serve
from toolcrib.client.codec import RemoteTool, Why
from toolcrib.errors import Refused
from toolcrib.events import Event
from toolcrib.keywords import CallKeywords, ScheduleKeywords
from toolcrib.schema import BadArguments, read_arguments
from toolcrib.state import Snapshot
from toolcrib.tool import Tool
from toolcrib.types import Answer, Call, Closed, Entry, Failure, Question, Result, ScheduleEntry, block

if TYPE_CHECKING:
    from toolcrib.agent import RunOutcome
    from toolcrib.client.crib import RemoteCrib
    from toolcrib.client.transport import TransportReply

SLICE_S = 25.0
"""How long one request waits for something; then the next one does. Few who stand in between cut it off sooner."""

WHOLE_S = 3600.0
"""The same where the end of the request is to stop the call."""

SLACK_S = 30.0
PAGE = 1000
TAKEN = frozenset({"label", "key", "background", "wake", "timeout_s", "provider_id", "cancel_on_disconnect"})


class RemoteSession:
    """One owner's use of the crib of a server: call, submit, answer, cancel, events, close.

    A request is sent again where the connection is lost, and happens once.
    """

    def __init__(self, crib: RemoteCrib, data: Mapping[str, Any]) -> None:
        self.crib = crib
        self.id: str = data["id"]
        self.owner: str = data["owner"]
        self.user: Mapping[str, Any] = {}
        self.restored = False
        self.closed = False
        self._path = f"/sessions/{quote(self.id, safe='')}"
        self._take(data)

    def __repr__(self) -> str:
        return f"RemoteSession({self.id!r}, owner={self.owner!r})"

    def _take(self, data: Mapping[str, Any]) -> None:
        self.namespaces: tuple[str, ...] = tuple(data.get("namespaces", ()))
        self.grants: tuple[Any, ...] = tuple(data.get("grants", ()))

    async def _ask(self, method: str, path: str, body: Any = None, **more: Any) -> TransportReply:
        return await self.crib.link.ask(method, self._path + path, body, **more)

    async def _get(self, path: str, **query: Any) -> Any:
        return (await self._ask("GET", path, query=query)).json()

    async def refresh(self) -> None:
        """Takes in what others changed: `namespaces`, `grants` and `user`."""
        self._take(await self._get(""))
        self.user = (await self._get("/state"))["user"]

    # Tools

    async def tools(self) -> list[RemoteTool]:
        """The tools it may use, sorted by id."""
        tools: list[RemoteTool] = []
        place: str | None = None
        while True:
            page = await self._get("/tools", limit=PAGE, after=place)
            tools += map(codec.tool, page["items"])
            place = page.get("next")
            if place is None:
                return tools

    async def offer(self, tools: Iterable[Tool | Mapping[str, Any]]) -> None:
        """Tools that the client runs itself; they live in namespace `client` and are kept with the session.

        Raises:
            BadTool: one does not hold.
        """
        await self._ask("PUT", "/tools/client", {"tools": [definition(tool) for tool in await offered(tools)]})

    async def serve_client_tools(self, bodies: Mapping[str, Callable[..., Any]]) -> None:
        """Runs the tools that it offered, by name, here and until it is cancelled.

        A body takes the arguments by name, and may be async; what it raises fails the call. If this process dies
        between a body and its answer, whoever serves next runs that call again.
        """
        await serve(self, bodies)

    # Policy

    async def why(self, tool: str, args: Any = None, *, agent: str | None = None) -> Why:
        """The verdict on a call without making it, with every grant, segment and rule that was looked at.

        For an `agent` of the crib it also says where each value was seen.

        Raises:
            Refused: `not_found`, `invalid_arguments`.
        """
        named = {"tool": tool} if agent is None else {"tool": tool, "agent": agent}
        return Why((await self._ask("POST", "/why", _written(named, args))).json())

    async def narrow(self, *, namespaces: Sequence[str] | None = None, grants: Any = None) -> None:
        """Takes rights away, from the next call on. To give more, open the session anew.

        Raises:
            Refused: `denied`, it would open something; `invalid_arguments`, the grants do not load.
        """
        body = {"namespaces": None if namespaces is None else list(namespaces), "grants": grants}
        self._take((await self._ask("POST", "/narrow", _body(body))).json())

    # Calls

    async def call(self, tool: str, args: Any = None, **options: Unpack[CallKeywords]) -> Result:
        """Calls a tool and waits for its result, however long it takes. A background tool answers at once with its id.

        Options: `label`, `provider_id`, `key`, `background`, `wake`, `timeout_s`, `cancel_on_disconnect`. Whatever
        happens inside the call is in the result.

        Raises:
            Refused: `unavailable`, nobody answers any more; the hint has the key by which the call is asked for again.
        """
        if self.closed:
            return Result(failure=Failure("unavailable", "Session is closing", retryable=True))
        settings = _options(options)
        wait = WHOLE_S if settings.get("cancel_on_disconnect") else SLICE_S
        answer = await self._made(tool, args, settings | {"wait": wait}, wait + SLACK_S)
        return codec.result(answer.body) if answer.status == 200 else await self.result(answer.json()["id"])

    async def submit(self, tool: str, args: Any = None, **options: Unpack[CallKeywords]) -> Call:
        """Accepts a call durably and returns at once; follow it with `events(call=...)` or wait with `result`.

        Raises:
            Refused: `unavailable`, as for `call`.
        """
        if self.closed:
            raise Refused("unavailable", "Session is closing", "open it again")
        return codec.call((await self._made(tool, args, _options(options) | {"wait": False}, SLACK_S)).json())

    async def schedule(self, tool: str, args: Any = None, **times: Unpack[ScheduleKeywords]) -> ScheduleEntry:
        """Makes a call later, as `Session.schedule` does.

        Raises:
            Refused: as there.
        """
        return await self.crib.schedule(self.id, tool, args, **times)

    async def schedules(self) -> list[ScheduleEntry]:
        """The calls that wait for their time, the first due first."""
        items = (await self.crib.link.ask("GET", "/schedules", query={"session": self.id})).json()["items"]
        return [codec.schedule(one) for one in items]

    async def cancel_schedule(self, id: str) -> bool:
        """Ends a schedule: it makes no more calls, and what it has made goes on. False where it was over.

        Raises:
            Refused: `not_found`.
        """
        return await self.crib.cancel_schedule(id)

    async def _made(self, tool: str, args: Any, data: dict[str, Any], read_s: float) -> TransportReply:
        try:
            return await self._ask("POST", "/calls", _written({"tool": tool, **data}, args), read_s=read_s)
        except Refused as refused:
            if refused.code != "unavailable":
                raise
            hint = f"it may have been made: ask for it again with key={data['key']!r}"
            raise Refused(refused.code, refused.message, hint) from None

    async def result(self, call: str) -> Result:
        """The result of a call; waits until it is done.

        Raises:
            Refused: `not_found`, this session has no such call.
        """
        while True:
            path = f"{_one(call)}/result"
            answer = await self._ask("GET", path, query={"wait": SLICE_S}, read_s=SLICE_S + SLACK_S)
            if answer.status == 200:
                return codec.result(answer.body)

    async def status(self, call: str) -> Entry:
        """Where a call stands."""
        return codec.entry((await self._ask("GET", _one(call))).body)

    async def progress(self) -> list[dict[str, Any]]:
        """How far its calls are, as a tree of nodes `tool-call-progress.v1`."""
        return progress(self.id, [event async for event in self.events(follow=False)])

    async def output(self, id: str, offset: int = 0, limit: int = 64 * 1024) -> str:
        """A piece of an output that was too large for its result; of at most 1 MB.

        Raises:
            Refused: `not_found`.
        """
        text: str = (await self._get(f"/outputs/{quote(id, safe='')}", offset=offset, limit=limit))["text"]
        return text

    async def file(self, id: str) -> bytes:
        """The bytes of a file of a message or result, by the `output` of its block.

        Raises:
            Refused: `not_found`.
        """
        body: bytes = (await self._ask("GET", f"/files/{quote(id, safe='')}")).body
        return body

    # Lists

    async def unresolved(self, at: int | None = None) -> list[Entry]:
        """Calls that have not started: queued, or waiting before their first start."""
        return (await self._lists(at, 1))["unresolved"]

    async def ongoing(self, at: int | None = None) -> list[Entry]:
        """Calls that have started and are not done."""
        return (await self._lists(at, 1))["ongoing"]

    async def completed(self, consumer: None = None, at: int | None = None) -> list[Entry]:
        """Calls that are done, in order of completion; of more than 1,000 the newest. Named cursors stay in the server.

        Raises:
            Refused: `invalid_arguments`, a consumer was named.
        """
        if consumer is not None:
            raise Refused("invalid_arguments", "A remote session has no cursors", "keep the last `seq` yourself")
        return (await self._lists(at, PAGE))["completed"]

    async def _lists(self, at: int | None, limit: int) -> dict[str, list[Entry]]:
        lists, large = codec.lists((await self._ask("GET", "/lists", query={"at": at, "limit": limit})).body)
        return {
            name: [await self.status(entry.id) if entry.id in large else entry for entry in entries]
            for name, entries in lists.items()
        }

    # Events

    def events(self, after: int = 0, call: str | None = None, *, follow: bool = True) -> AsyncIterator[Event]:
        """Replays what is past `after`, then follows; with `call` only its events, ending right after its `done`.

        A connection that is lost is made anew, and goes on after the last event: none is missed, none comes twice.

        Raises:
            Refused: `not_found`; `unavailable`, nobody answers any more.
        """
        read = streams.events if follow else streams.past
        return read(self.crib.link, self._path, after, call)

    async def set_user(self, state: Mapping[str, Any]) -> None:
        """What the client says of its user; tools see it as `ctx.user`. It gives no rights.

        Raises:
            Refused: `too_large`, more than 8 KB.
        """
        self.user = (await self._ask("PUT", "/user", dict(state))).json()["user"]

    async def send(
        self,
        message: str | Sequence[str | Mapping[str, Any]],
        *,
        agent: str | None = None,
        mode: str | None = None,
        key: str | None = None,
    ) -> RunOutcome:
        """A message to the agent of the session; returns when its run is over, or waits for somebody.

        It is a text, or a list of texts and blocks. `agent` is who answers from now on; `mode` is `followup`, `steer`,
        `collect` or `interrupt`.

        Raises:
            Refused: `conflict`, the crib has no agents; `not_found`, it has no such agent; `unavailable`.
        """
        from toolcrib.agent import RunOutcome

        content = {"text": message} if isinstance(message, str) else {"parts": [_part(one) for one in message]}
        body = {**content, "agent": agent, "mode": mode, "key": key or _key(), "wait": SLICE_S}
        while True:  # the same key is the same message, whoever hears of it
            answer = await self._ask("POST", "/messages", _body(body), read_s=SLICE_S + SLACK_S)
            if answer.status == 200:
                outcome = {"run": None, **answer.json()}
                return RunOutcome(**outcome | {"questions": tuple(map(codec.question, outcome.get("questions", ())))})

    # Questions

    async def questions(self) -> list[Question]:
        """What is open, in order of acceptance."""
        return [codec.question(one) for one in (await self._get("/questions"))["items"]]

    async def answer(self, question: str, action: str, value: Any = None, **more: Any) -> Answer:
        """Answers a question: `accept`, `decline`, `cancel`, or `fail`; as whom the key belongs to.

        More: `arguments` (edited), `reason`, `key`, `scope`; `actor` only where the server asks nobody who they are.

        Raises:
            Refused: `not_found`, `already_answered`, `expired`, `invalid_arguments`, `denied`; the question stays.
        """
        body = {"question": question, "action": action, "value": value, "args": more.pop("arguments", None), **more}
        body["key"] = body.get("key") or _key()
        return codec.answer((await self._ask("POST", "/answers", _body(body))).json())

    # State

    async def state(self, at: int | None = None) -> Snapshot:
        """What tools keep in the session, now or as of an event."""
        snapshot = await self._get("/state", at=at)
        return Snapshot(snapshot["state"], snapshot["revision"])

    # Stopping

    async def cancel(self, call: str) -> bool:
        """Stops a call and returns when it has its `done`; whether there was something to stop.

        Raises:
            Refused: `not_found`; `unavailable`.
        """
        answer = await self._ask("POST", f"{_one(call)}/cancel", {})
        stopped: bool = answer.json()["cancelled"]
        if not stopped and answer.repeated:  # the first request may have stopped it
            return (await self.status(call)).status == "cancelled"
        return stopped

    async def settle(
        self, call: str, happened: bool, data: Any = None, *, reason: str | None = None, actor: str = ""
    ) -> None:
        """Says what came of a call that ended `unknown`, for somebody who looked: for whom the key belongs to.

        Raises:
            Refused: `not_found`; `conflict`, what came of it is known; `denied`, the actor is somebody else.
        """
        if actor not in ("", self.crib.me["name"]):
            raise Refused("denied", "You settle for yourself", "leave `actor` out")
        body = {"outcome": "happened" if happened else "not", "data": data, "reason": reason}
        await self._ask("POST", f"{_one(call)}/reconcile", _body(body))

    async def interrupt(self, *, background: bool = False) -> int:
        """Stops the calls that run or wait in the foreground, or all; how many."""
        stopped: int = (await self._ask("POST", "/interrupt", {"background": background})).json()["stopped"]
        return stopped

    async def close(self, timeout: float = 30.0) -> Closed:
        """Logs out: waits for what runs, ends the rest at the timeout. Nothing is lost.

        Raises:
            Refused: `invalid_arguments`, the timeout is not within 0 to 3600 s.
        """
        if not 0 <= timeout <= 3600:
            raise Refused("invalid_arguments", f"timeout must be 0 to 3600 s, not {timeout:g}")
        self.closed = True
        return Closed(**(await self._ask("POST", "/close", {"timeout": timeout}, read_s=timeout + SLACK_S)).json())


def _one(call: str) -> str:
    return f"/calls/{quote(call, safe='')}"


def _part(part: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """A part of a message as JSON can hold it."""
    return part if isinstance(part, str) else block(**part)


def _key() -> str:
    return f"c-{secrets.token_hex(16)}"


def _body(data: Mapping[str, Any]) -> bytes:
    """Encode the fields that are not None."""
    return msgspec.json.encode({name: value for name, value in data.items() if value is not None})


def _options(data: Mapping[str, Any]) -> dict[str, Any]:
    """What the server takes of a call's options, with a key by which a second request is known to be the same."""
    for name in data:
        if name not in OPTIONS:
            raise TypeError(f"unknown option '{name}'; known: {', '.join(OPTIONS)}")
        if name not in TAKEN and data[name] is not None:
            raise Refused("invalid_arguments", f"`{name}` is not for a client to say", "leave it out")
    return {name: value for name, value in data.items() if value is not None} | {"key": data.get("key") or _key()}


def _written(data: Mapping[str, Any], args: Any) -> bytes:
    """Encode a request with its arguments unchanged. What is not JSON is sent as text, for the server to refuse."""
    try:
        text = read_arguments(args)
        if not isinstance(args, Mapping):
            msgspec.json.decode(text)
    except (BadArguments, ValueError, RecursionError):
        text = msgspec.json.encode(args if isinstance(args, str) else repr(args))
    return msgspec.json.encode({**data, "args": msgspec.Raw(text)})

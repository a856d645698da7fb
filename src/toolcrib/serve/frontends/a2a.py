"""A2A 1.0 over JSON-RPC: an agent as other agents reach it. A context is a session, and a task is a run in it.

A task that waits for somebody is `INPUT_REQUIRED`; a message to it answers what it waits for. A task is folded from the
log whenever it is asked for: nothing else is kept.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from toolcrib.errors import Refused
from toolcrib.events import Event
from toolcrib.serve.api.calls import attend
from toolcrib.serve.api.errors import ApiError, ErrorDetail
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.frontends.a2a_tasks import KEY, Task, listed
from toolcrib.serve.frontends.conversation import FrontendSession, agents_of, approved, stream, text_of
from toolcrib.serve.frontends.files import a2a_file, message_of
from toolcrib.store.codec import encode

T = TypeVar("T")
PATH = "/a2a/{agent}"
VERSION = "1.0"
YES = ("yes", "y", "approve")
NOT_FOUND, NOT_CANCELABLE, UNSUPPORTED, PUSH = -32001, -32002, -32004, -32003
UNKNOWN_METHOD, BAD_PARAMS, BAD_REQUEST, BROKEN = -32601, -32602, -32600, -32603
_CODES = {"not_found": NOT_FOUND, "invalid_arguments": BAD_PARAMS, "internal": BROKEN}


class RpcError(Exception):
    """What an answer of JSON-RPC says instead of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


async def card(request: ApiRequest) -> ApiReply:
    """What an agent says of itself, to everybody."""
    name = request.path[0]
    agent = agents_of(request.api, name).registry[name]
    host = request.headers.get(b"host", b"localhost").decode("latin-1")
    scheme = "https" if request.secure or request.headers.get(b"x-forwarded-proto") == b"https" else "http"
    about = agent.description or f"The agent {name}"
    data: dict[str, Any] = {
        "name": name,
        "description": about,
        "version": "1",
        "supportedInterfaces": [
            {"url": f"{scheme}://{host}/a2a/{name}", "protocolBinding": "JSONRPC", "protocolVersion": VERSION}
        ],
        "capabilities": {"streaming": True, "pushNotifications": False},
        "defaultInputModes": ["text/plain", "application/json", "image/*", "application/*"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{"id": name, "name": name, "description": about, "tags": ["agent"]}],
    }
    if request.api.guard is not None:
        data["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        data["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
    return json_reply(data)


async def rpc(request: ApiRequest) -> ApiReply | None:
    """One request of JSON-RPC; a stream answers with many results."""
    body = request.body
    if not isinstance(body, dict) or not isinstance(body.get("method"), str):
        return _failed(None, BAD_REQUEST, "This is no request of JSON-RPC")
    id, params = body.get("id"), body.get("params")
    try:
        if not isinstance(params, dict | None):
            raise RpcError(BAD_PARAMS, "`params` must be an object")
        if (method := METHODS.get(body["method"])) is not None:
            return json_reply({"jsonrpc": "2.0", "id": id, "result": await method(request, params or {})})
        if (streams := STREAMS.get(body["method"])) is not None:
            request.api.gate.spare(request.principal)
            task, events = await streams(request, params or {})
            await stream(request, Updates(task, id), events)
            return None
        push = "PushNotification" in body["method"]
        known = ", ".join((*METHODS, *STREAMS))
        raise RpcError(PUSH if push else UNKNOWN_METHOD, f"'{body['method']}' is not supported; A2A 1.0 has {known}")
    except RpcError as error:
        return _failed(id, error.code, str(error))
    except Refused as refused:
        return _failed(id, _CODES.get(refused.code, UNSUPPORTED), refused.message)
    except ApiError as problem:
        if problem.detail.code not in _CODES:
            raise
        return _failed(id, _CODES[problem.detail.code], problem.detail.message)


def _failed(id: Any, code: int, message: str) -> ApiReply:
    return json_reply({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


# Tasks


async def _folded(conversation: FrontendSession, run: str) -> Task:
    task = Task(conversation.session.id, run)
    exists = False
    async for event in conversation.session.events(follow=False):
        exists = exists or event.fields.get("run") == run
        task.take(event)
    if not exists:
        raise RpcError(NOT_FOUND, "There is no such task")
    return task


async def _task(request: ApiRequest, params: Mapping[str, Any]) -> tuple[FrontendSession, Task]:
    """The task that a request names, and the conversation that it is part of."""
    run, at, session = str(params.get("id")).partition("@")
    if not at:
        raise RpcError(NOT_FOUND, "There is no such task")
    row = await request.api.sessions.row(session, request.principal)
    if row.owner != request.principal.name:  # who looks after the server sees it, and does not speak in it
        raise RpcError(NOT_FOUND, "There is no such task")
    conversation = await FrontendSession.open(request.api, request.principal, session, request.path[0])
    return conversation, await _folded(conversation, run)


# Methods


async def _sent(request: ApiRequest, params: Mapping[str, Any]) -> tuple[Task, AsyncIterator[Event]]:
    """Takes a message: to a task that waits, or for a new one."""
    configuration = params.get("configuration")
    if isinstance(configuration, dict) and any("ushNotificationConfig" in key for key in configuration):
        raise RpcError(PUSH, "Push notifications are not supported: stream the task, or ask for it again")
    message = params.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        raise RpcError(BAD_PARAMS, "`message` with `parts` is missing")
    text, files = text_of(message["parts"]), message_of(message["parts"], a2a_file)
    data = next((part["data"] for part in message["parts"] if isinstance(part, dict) and "data" in part), None)
    if not files and data is None:
        raise RpcError(BAD_PARAMS, "The message has no text, no data and no file")
    if message.get("taskId"):
        if not text and data is None:
            raise RpcError(BAD_PARAMS, "A task that waits is answered by a text or data, not by a file")
        conversation, task = await _task(request, {"id": message["taskId"]})
        if task.state != "INPUT_REQUIRED":
            raise RpcError(UNSUPPORTED, f"The task does not wait for a message: it is {task.state}")
        before = await conversation.seen()
        await _answer(conversation, task, text, data)
        task.state, task.status_parts = "WORKING", None
        return task, await conversation.rest(before)
    context = message.get("contextId") or f"a2a-{secrets.token_hex(8)}"
    conversation = await FrontendSession.open(request.api, request.principal, str(context), request.path[0])
    key = f"{KEY}{message['messageId']}" if message.get("messageId") else None
    events = await conversation.say(files or encode(data).decode(), request.path[0], key)
    first = await _while_here(request, _first(events))
    task = Task(conversation.session.id, first.fields["run"])
    task.take(first)
    return task, events


async def _first(events: AsyncIterator[Event]) -> Event:
    async for event in events:
        if event.kind == "run_started" or (event.kind == "message" and "run" in event.fields):
            return event
    raise RpcError(BROKEN, "The message was not taken")


async def _answer(conversation: FrontendSession, task: Task, text: str, data: Any) -> None:
    """A message answers the question that it names, or all that the task waits for; of other calls none."""
    named = data.get("question") if isinstance(data, dict) else None
    wanted = [question for question in task.wanted if named in (None, question["id"])]
    if not wanted:
        raise RpcError(BAD_PARAMS, "The task does not wait for an answer to that question")
    for question in wanted:
        if question["kind"] != "confirm":
            value = data["value"] if isinstance(data, dict) and "value" in data else text if data is None else data
            await conversation.answer(question["id"], "accept", value)
        else:
            fields = data if isinstance(data, dict) else {"approved": data}
            yes = text.strip().lower() in YES if data is None else approved(fields.get("approved"))
            reason = fields.get("reason") or (None if yes else text)
            await conversation.answer(question["id"], "accept" if yes else "decline", reason=reason and str(reason))


async def _send(request: ApiRequest, params: Mapping[str, Any]) -> dict[str, Any]:
    wanted = params.get("configuration") or {}
    if not isinstance(wanted, dict):
        raise RpcError(BAD_PARAMS, "`configuration` must be an object")
    shown = _shown(wanted)
    task, events = await _sent(request, params)
    if not wanted.get("returnImmediately"):
        await _while_here(request, _rest(task, events))
    return {"task": task.form(shown)}


async def _rest(task: Task, events: AsyncIterator[Event]) -> None:
    async for event in events:
        task.take(event)


async def _while_here(request: ApiRequest, work: Coroutine[Any, Any, T]) -> T:
    """Wait for something as long as the client does.

    Raises:
        Gone: they hung up.
    """
    waiting = asyncio.ensure_future(work)
    try:
        await attend(waiting, request, None)
        return waiting.result()
    finally:
        waiting.cancel()


def _shown(params: Mapping[str, Any]) -> int | None:
    """How many messages of the history are wanted; all, unless it is said."""
    length = params.get("historyLength")
    if length is not None and (type(length) is not int or length < 0):
        raise RpcError(BAD_PARAMS, "`historyLength` must be a number that is not negative")
    return length


async def _get(request: ApiRequest, params: Mapping[str, Any]) -> dict[str, Any]:
    shown = _shown(params)
    return (await _task(request, params))[1].form(shown)


async def _cancel(request: ApiRequest, params: Mapping[str, Any]) -> dict[str, Any]:
    conversation, task = await _task(request, params)
    if task.state not in ("WORKING", "INPUT_REQUIRED"):
        raise RpcError(NOT_CANCELABLE, f"The task is over: {task.state}")
    await conversation.session.interrupt()
    await conversation.agents.settled(conversation.session)
    return (await _folded(conversation, task.run)).form()


async def _list(request: ApiRequest, params: Mapping[str, Any]) -> dict[str, Any]:
    return await listed(request, params, _shown(params))


async def _subscribe(request: ApiRequest, params: Mapping[str, Any]) -> tuple[Task, AsyncIterator[Event]]:
    conversation, task = await _task(request, params)
    if task.state != "WORKING":
        raise RpcError(UNSUPPORTED, f"Nothing goes on in the task: it is {task.state}")
    return task, await conversation.rest()


METHODS = {"SendMessage": _send, "GetTask": _get, "CancelTask": _cancel, "ListTasks": _list}
STREAMS = {"SendStreamingMessage": _sent, "SubscribeToTask": _subscribe}


class Updates:
    """Turns events of a run into updates of its task."""

    def __init__(self, task: Task, id: Any) -> None:
        self._task = task
        self._id = id
        self._begun: set[str] = set()

    def begin(self) -> Iterator[bytes]:
        """The task as it stands."""
        yield self._result({"task": self._task.form()})

    def end(self) -> Iterable[bytes]:
        """Yield nothing: the last status was sent."""
        return ()

    def fail(self, detail: ErrorDetail) -> Iterator[bytes]:
        """What went wrong."""
        yield _piece({"jsonrpc": "2.0", "id": self._id, "error": {"code": BROKEN, "message": detail.message}})

    def take(self, event: Event) -> Iterator[bytes]:
        """Pieces of text as they come, and every change of status."""
        task, data = self._task, event.fields
        before = task.state
        task.take(event)
        if event.kind == "text" and data["run"] == task.run:
            yield self._text(f"turn-{data['turn']}", data["delta"])
        elif event.kind == "message" and f"turn-{data.get('turn')}" in task.artifacts and data.get("run") == task.run:
            if f"turn-{data['turn']}" not in self._begun:
                yield self._text(f"turn-{data['turn']}", data["content"])
        elif event.kind == "accepted":
            yield self._status(task.status() | {"message": self._note(event, data["label"])})
        elif event.kind == "progress" and data.get("message"):
            yield self._status(task.status() | {"message": self._note(event, data["message"])})
        elif task.state != before:
            yield self._status(task.status())

    def _note(self, event: Event, text: str) -> dict[str, Any]:
        parts = [{"text": text}]
        return {"messageId": f"m{event.seq}", "role": "ROLE_AGENT", "parts": parts, **self._task.ids}

    def _text(self, id: str, text: str) -> bytes:
        append = id in self._begun
        self._begun.add(id)
        artifact = {"artifactId": id, "name": id, "parts": [{"text": text}]}
        return self._result({"artifactUpdate": {**self._task.ids, "artifact": artifact, "append": append}})

    def _status(self, status: dict[str, Any]) -> bytes:
        return self._result({"statusUpdate": {**self._task.ids, "status": status}})

    def _result(self, result: dict[str, Any]) -> bytes:
        return _piece({"jsonrpc": "2.0", "id": self._id, "result": result})


def _piece(data: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % encode(data)


JSON_SAID = {200: dict[str, Any]}
ROUTES = [
    Route(
        "GET",
        f"{PATH}/.well-known/agent-card.json",
        card,
        "The card of an agent for other agents.",
        None,
        gives=JSON_SAID,
    ),
    Route(
        "POST",
        PATH,
        rpc,
        "A2A over JSON-RPC: SendMessage, SendStreamingMessage, GetTask, ListTasks, CancelTask, SubscribeToTask.",
        body=Any,
        gives=JSON_SAID,
        streams=True,
        right="call",
    ),
]

"""AG-UI 1.0: a run of an agent as events for a front end.

A thread is a session. Tools of the front end are offered to it as client tools: a call of one ends the run with the
call pending, and its result comes as a message of the next. Other questions are interrupts, answered by `resume`.
What calls report while they run are activities; the state is that of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from toolcrib import events
from toolcrib.events import Event, EventData
from toolcrib.origins.passages import origins_of
from toolcrib.serve.api.errors import ApiError, ErrorDetail
from toolcrib.serve.api.request import ApiRequest
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.frontends.conversation import FrontendSession, approved, failure_line, stream
from toolcrib.serve.frontends.files import Said, ShownFile, agui_file, message_of, shown
from toolcrib.store.codec import encode
from toolcrib.types import Question

PATH = "/ag-ui/{agent}"
PROTOCOL = "1.0"
APPROVAL = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["approved"],
}
"""The answer to a yes-or-no question; `arguments` replace those of the call."""

NOTHING = {"type": "object"}
"""What a tool takes that does not say so."""


class Resume(Struct):
    """The answer to an interrupt."""

    interruptId: str  # noqa: N815 - the protocol's names
    status: str = "resolved"
    payload: Any = None


class FrontTool(Struct):
    """A tool that the front end runs."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class RunInput(Struct):
    """What a front end sends to have an agent run."""

    threadId: str  # noqa: N815
    runId: str  # noqa: N815
    messages: list[dict[str, Any]] = []
    tools: list[FrontTool] = []
    context: list[dict[str, Any]] = []
    resume: list[Resume] = []


async def post(request: ApiRequest) -> None:
    """Takes the newest message, results or answers; streams the run that goes on with them."""
    body: RunInput = request.body
    request.api.gate.spare(request.principal)
    message = _last_message(body.messages)
    conversation = await FrontendSession.open(
        request.api, request.principal, body.threadId, request.path[0], whole=True
    )
    await _prepare(conversation, body)
    before = await conversation.seen()
    if await _answered(conversation, body):
        events = await conversation.rest(before)
    elif message is not None:
        events = await conversation.say(message[1], request.path[0], message[0])
    else:
        begun = await conversation.going()
        if begun is None:
            raise ApiError("invalid_arguments", "There is nothing to do", "send a message of the user, or `resume`")
        events = await conversation.rest(begun)
    await stream(request, AguiRun(conversation, body.threadId, body.runId), events)


async def attach(request: ApiRequest) -> ApiReply | None:
    """The run of a thread that goes on right now, from its beginning."""
    thread = request.path[1]
    conversation = await FrontendSession.found(request.api, request.principal, thread, request.path[0], whole=True)
    begun = None if conversation is None else await conversation.going()
    if conversation is None or begun is None:
        return ApiReply(b"", 204)
    await stream(request, AguiRun(conversation, thread, f"attached-{begun}"), await conversation.rest(begun))
    return None


async def _prepare(conversation: FrontendSession, body: RunInput) -> None:
    """Offers what the front end can do, and tells what it knows, where that is news."""
    tools = [
        {"name": tool.name, "description": tool.description or tool.name, "input_schema": tool.parameters or NOTHING}
        for tool in body.tools
    ]
    session = conversation.session
    known = [(tool.name, tool.description, tool.input_schema) for tool in session.client_tools]
    if known != [(tool["name"], tool["description"], tool["input_schema"]) for tool in tools]:
        await session.offer(tools)
    if body.context and session.user.get("context") != body.context:
        await session.set_user({**session.user, "context": body.context})


def _last_message(messages: list[dict[str, Any]]) -> tuple[str | None, Said] | None:
    """Return key and content of the last message, if it is the user's."""
    last = messages[-1] if messages else {}
    if last.get("role") != "user":
        return None
    content = last.get("content")
    text = message_of(content, agui_file) if isinstance(content, list) else content
    if not isinstance(text, str | list) or not text:
        raise ApiError("invalid_arguments", "The last message has no text", "send text or parts as its content")
    return f"ag-ui:{last['id']}" if last.get("id") else None, text


async def _answered(conversation: FrontendSession, body: RunInput) -> bool:
    """Take answers to interrupts and results of the front end's tools; return True if there were any."""
    waiting = await conversation.open_questions()
    calls = {question.call: question for question in waiting.values()}
    any_answer = False
    for one in body.resume:
        question = waiting.pop(one.interruptId, None)
        if question is not None:
            await _resume(conversation, question, one)
            any_answer = True
    for message in body.messages:
        question = calls.pop(str(message.get("toolCallId")), None) if message.get("role") == "tool" else None
        if question is not None and question.kind == "client":
            if message.get("error"):
                await conversation.answer(question.id, "fail", reason=str(message["error"]))
            else:
                await conversation.answer(question.id, "accept", _value(message.get("content")))
            any_answer = True
    return any_answer


async def _resume(conversation: FrontendSession, question: Question, resume: Resume) -> None:
    payload = resume.payload
    if resume.status != "resolved":
        await conversation.answer(question.id, "decline")
    elif question.kind != "confirm":
        await conversation.answer(question.id, "accept", payload)
    else:
        data: Mapping[str, Any] = payload if isinstance(payload, Mapping) else {"approved": payload}
        yes, reason = approved(data.get("approved")), data.get("reason")
        more = {"arguments": data["arguments"]} if yes and data.get("arguments") is not None else {}
        await conversation.answer(question.id, "accept" if yes else "decline", reason=reason and str(reason), **more)


def _value(content: Any) -> Any:
    """What a tool of the front end returned: JSON if it is that, else text."""
    if not isinstance(content, str):
        return content
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return content


class AguiRun:
    """Turns the events of a run into those of AG-UI. Events of an agent within it carry the name of its run."""

    def __init__(self, conversation: FrontendSession, thread: str, run: str) -> None:
        self._conversation = conversation
        self._ids = {"threadId": thread, "runId": run}
        self._within: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        self._open: tuple[str, str, str | None] | None = None
        self._spoken: set[tuple[str, int]] = set()
        self._steps: list[tuple[str, str | None]] = []
        self._questions: dict[str, dict[str, Any]] = {}
        self._texts: dict[str, str] = {}
        self._over = False

    def begin(self) -> Iterator[bytes]:
        """The start of the run, and the state that it finds."""
        yield _event("RUN_STARTED", **self._ids, protocolVersion=PROTOCOL)
        yield _event("STATE_SNAPSHOT", snapshot=dict(self._conversation.session.state.now))

    def end(self) -> Iterable[bytes]:
        """The end of a run that did not say how it ended."""
        return () if self._over else self._finish(outcome={"type": "success"})

    def fail(self, detail: ErrorDetail) -> Iterator[bytes]:
        """What went wrong."""
        if not self._over:
            self._over = True
            yield _event("RUN_ERROR", message=detail.message, code=detail.code)

    def take(self, event: Event) -> Iterator[bytes]:
        """The events of an event."""
        write = _WRITERS.get(type(event.data))
        if write is not None and not self._over:
            run = event.fields.get("run") if event.call is None else self._calls.get(event.call)
            yield from write(self, event, self._within.get(run or ""))

    # Text

    def _on_text(self, event: Event, sub: str | None) -> Iterator[bytes]:
        yield from self._say("text", event, event.fields["delta"], sub)

    def _on_reasoning(self, event: Event, sub: str | None) -> Iterator[bytes]:
        yield from self._say("reasoning", event, event.fields["delta"], sub)

    def _on_message(self, event: Event, sub: str | None) -> Iterator[bytes]:
        data = event.fields
        if data["role"] == "assistant":
            if data.get("content") and (data["run"], data["turn"]) not in self._spoken:
                yield from self._say("text", event, data["content"], sub)
            yield from self._close()

    def _say(self, kind: str, event: Event, delta: str, sub: str | None) -> Iterator[bytes]:
        if self._open is None or (self._open[0], self._open[2]) != (kind, sub):
            yield from self._close()
            self._open = kind, f"{kind}-{event.seq}", sub
            yield from self._opening(kind, self._open[1], sub)
        if kind == "text":
            self._spoken.add((event.fields["run"], event.fields["turn"]))
        name = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
        yield _event(name, sub, messageId=self._open[1], delta=delta)

    def _opening(self, kind: str, id: str, sub: str | None) -> Iterator[bytes]:
        if kind == "text":
            yield _event("TEXT_MESSAGE_START", sub, messageId=id, role="assistant")
        else:
            yield _event("REASONING_START", sub, messageId=id)
            yield _event("REASONING_MESSAGE_START", sub, messageId=id, role="reasoning")

    def _close(self) -> Iterator[bytes]:
        if self._open is None:
            return
        kind, id, sub = self._open
        self._open = None
        if kind == "text":
            yield _event("TEXT_MESSAGE_END", sub, messageId=id)
        else:
            yield _event("REASONING_MESSAGE_END", sub, messageId=id)
            yield _event("REASONING_END", sub, messageId=id)

    # Calls

    def _on_accepted(self, event: Event, sub: str | None) -> Iterator[bytes]:
        data, call = event.fields, event.call or ""
        self._calls[call] = data.get("run") or ""
        sub = self._within.get(self._calls[call])
        yield from self._close()
        name = data["tool"].removeprefix("client.")
        yield _event("TOOL_CALL_START", sub, toolCallId=call, toolCallName=name)
        yield _event("TOOL_CALL_ARGS", sub, toolCallId=call, delta=encode(data["args"]).decode())
        yield _event("TOOL_CALL_END", sub, toolCallId=call)

    def _on_waiting(self, event: Event, sub: str | None) -> Iterator[bytes]:
        self._questions[event.fields["question"]["id"]] = event.fields["question"]
        return self._state(event)

    def _state(self, event: Event) -> Iterator[bytes]:
        if event.fields.get("state"):
            yield _event("STATE_SNAPSHOT", snapshot=dict(self._conversation.session.state.now))

    def _on_answered(self, event: Event, sub: str | None) -> Iterator[bytes]:
        self._questions.pop(event.fields["question"], None)
        return self._on_started(event, sub)

    def _on_started(self, event: Event, sub: str | None) -> Iterator[bytes]:
        self._texts.pop(event.call or "", None)  # its body runs from its start, and puts out all again
        return iter(())

    def _on_progress(self, event: Event, sub: str | None) -> Iterator[bytes]:
        fields = {name: event.fields[name] for name in ("progress", "message") if event.fields.get(name) is not None}
        yield _activity(event, sub, "progress", {"toolCallId": event.call, **fields})

    def _on_output(self, event: Event, sub: str | None) -> Iterator[bytes]:
        call = event.call or ""
        self._texts[call] = self._texts.get(call, "") + _shown(event.fields.get("delta", event.fields.get("value")))
        yield _activity(event, sub, "output", {"toolCallId": call, "text": self._texts[call]})

    def _on_activity(self, event: Event, sub: str | None) -> Iterator[bytes]:
        data = event.fields
        if "patch" in data:
            id = f"{event.call}-{data['type']}"
            yield _event("ACTIVITY_DELTA", sub, messageId=id, activityType=data["type"], patch=data["patch"])
        else:
            content = data["content"]
            yield _activity(event, sub, data["type"], content if isinstance(content, dict) else {"value": content})

    def _on_done(self, event: Event, sub: str | None) -> Iterator[bytes]:
        data, failure = event.fields, event.fields.get("failure")
        files = shown(self._conversation.session.id, data.get("content"))
        content: Any = (
            failure_line(failure) if failure else [_content(one) for one in files] or _shown(data.get("data"))
        )
        yield _event("TOOL_CALL_RESULT", sub, messageId=f"{event.call}-result", toolCallId=event.call, content=content)
        yield from self._state(event)

    # Turns and runs

    def _on_turn_started(self, event: Event, sub: str | None) -> Iterator[bytes]:
        step = f"{event.fields['agent']} {event.fields['turn']}", sub
        self._steps.append(step)
        yield _event("STEP_STARTED", sub, stepName=step[0])

    def _on_turn_finished(self, event: Event, sub: str | None) -> Iterator[bytes]:
        step = f"{event.fields['agent']} {event.fields['turn']}", sub
        if step in self._steps:
            self._steps.remove(step)
            yield from self._close()
            yield _event("STEP_FINISHED", sub, stepName=step[0])

    def _on_handover(self, event: Event, sub: str | None) -> Iterator[bytes]:
        fields = {name: event.fields.get(name) for name in ("from", "to", "reason")}
        yield _event("CUSTOM", sub, name="handover", value=fields)

    def _on_run_started(self, event: Event, sub: str | None) -> Iterator[bytes]:
        data = event.fields
        if "parent" in data:
            run = self._within[data["run"]] = data["run"]
            more = {"parentToolCallId": data["call"]} if data.get("call") else {}
            yield _event("SUBAGENT_STARTED", subagentRunId=run, name=data["agent"], **more)

    def _on_run_waiting(self, event: Event, sub: str | None) -> Iterator[bytes]:
        if sub is not None:
            return
        theirs = [one["call"] for one in self._questions.values() if one["kind"] == "client"]
        interrupts = [_interrupt(one) for one in self._questions.values() if one["kind"] != "client"]
        success = {"type": "success", "pendingToolCallIds": theirs}
        yield from self._finish(outcome={"type": "interrupt", "interrupts": interrupts} if interrupts else success)

    def _on_run_finished(self, event: Event, sub: str | None) -> Iterator[bytes]:
        data = event.fields
        if sub is not None:
            yield _event("SUBAGENT_FINISHED", subagentRunId=sub, result=data.get("answer"), outcome={"type": "success"})
        elif data["reason"] == "failed":
            yield from self._ended()
            yield _event("RUN_ERROR", message=data.get("detail") or "The run failed", code=data.get("code") or "failed")
        else:
            type = "cancelled" if data["reason"] == "cancelled" else "success"
            more = {"result": data["answer"]} if data.get("answer") is not None else {}
            yield from self._finish(outcome={"type": type}, usage=[_usage(data.get("usage") or {})], **more)

    def _finish(self, **more: Any) -> Iterator[bytes]:
        yield from self._ended()
        yield _event("RUN_FINISHED", **self._ids, **more)

    def _ended(self) -> Iterator[bytes]:
        """Closes what is open: a run does not end within something."""
        yield from self._close()
        for name, sub in reversed(self._steps):
            yield _event("STEP_FINISHED", sub, stepName=name)
        self._over = True


_WRITERS: dict[type[EventData], Callable[[AguiRun, Event, str | None], Iterator[bytes]]] = {
    events.TextStreamed: AguiRun._on_text,
    events.ReasoningStreamed: AguiRun._on_reasoning,
    events.MessageAdded: AguiRun._on_message,
    events.Accepted: AguiRun._on_accepted,
    events.Waiting: AguiRun._on_waiting,
    events.Answered: AguiRun._on_answered,
    events.Started: AguiRun._on_started,
    events.Progress: AguiRun._on_progress,
    events.Output: AguiRun._on_output,
    events.Activity: AguiRun._on_activity,
    events.Done: AguiRun._on_done,
    events.TurnStarted: AguiRun._on_turn_started,
    events.TurnFinished: AguiRun._on_turn_finished,
    events.HandedOver: AguiRun._on_handover,
    events.RunStarted: AguiRun._on_run_started,
    events.RunWaiting: AguiRun._on_run_waiting,
    events.RunFinished: AguiRun._on_run_finished,
}
"""What is written for an event, by the type of its data."""


def _interrupt(question: Mapping[str, Any]) -> dict[str, Any]:
    until = datetime.fromtimestamp(question["expires_at"], UTC).isoformat()
    confirms = question["kind"] == "confirm"
    interrupt = {
        "id": question["id"],
        "reason": "tool_call" if confirms else "input_required",
        "message": question["prompt"],
        "toolCallId": question["call"],
        "expiresAt": until,
        "metadata": {
            "tool": question["tool"],
            "arguments": question["arguments"],
            "offer": question.get("offer"),
            "origins": origins_of(question.get("data")),
        },
    }
    schema = APPROVAL if confirms else question.get("schema")
    return interrupt | ({"responseSchema": schema} if schema else {})


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    names = {"inputTokens": "input", "outputTokens": "output", "totalTokens": "total"}
    return {name: usage[key] for name, key in names.items() if usage.get(key) is not None}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _content(one: str | ShownFile) -> dict[str, Any]:
    """A part of what a tool returned."""
    if isinstance(one, str):
        return {"type": "text", "text": one}
    type, value = ("url", one.path) if one.data is None else ("data", one.data)
    return {"type": one.media.kind, "source": {"type": type, "value": value, "mimeType": one.media.mime_type}}


def _activity(event: Event, sub: str | None, type: str, content: dict[str, Any]) -> bytes:
    id = f"{event.call}-{type}"
    return _event("ACTIVITY_SNAPSHOT", sub, messageId=id, activityType=type, content=content, replace=True)


def _event(type: str, sub: str | None = None, **fields: Any) -> bytes:
    data = {"type": type, **fields}
    if sub is not None:
        data["subagentRunId"] = sub
    return b"data: %b\n\n" % encode(data)


ROUTES = [
    Route(
        "POST",
        PATH,
        post,
        "Has an agent run as AG-UI asks for it; streams AG-UI events.",
        body=RunInput,
        streams=True,
        right="call",
    ),
    Route(
        "GET",
        PATH + "/{thread}",
        attach,
        "The run of a thread that goes on right now, from its beginning; 204 where none does.",
        gives={204: None},
        streams=True,
    ),
]

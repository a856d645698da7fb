"""The AI SDK's UI message stream: what `useChat` sends and reads. A message of the assistant is a run.

A call is a dynamic tool part under its own id. One that wants an approval asks for it in that part, and the approval
comes back within the messages of the next request; a tool of the page is answered by its output there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from toolcrib import events
from toolcrib.events import Event, EventData
from toolcrib.origins.passages import origins_of
from toolcrib.serve.api.errors import ApiError, ErrorDetail
from toolcrib.serve.api.request import ApiRequest
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.asgi import Header
from toolcrib.serve.frontends.conversation import FrontendSession, approved, failure_line, stream
from toolcrib.serve.frontends.files import Said, ShownFile, aisdk_file, message_of, shown
from toolcrib.store.codec import encode
from toolcrib.types import Question

PATH = "/ai-sdk/{agent}"
HEADERS: tuple[Header, ...] = ((b"x-vercel-ai-ui-message-stream", b"v1"),)
DONE = b"data: [DONE]\n\n"


class UiMessage(Struct):
    """A message as a page keeps it."""

    role: str
    parts: list[dict[str, Any]] = []
    id: str | None = None


class ChatRequest(Struct):
    """What a page sends: the chat, all its messages, and why."""

    id: str
    messages: list[UiMessage]
    trigger: str | None = None


async def post(request: ApiRequest) -> None:
    """Takes the last message, or the answers in it; streams the run that goes on with it."""
    body: ChatRequest = request.body
    if not body.messages:
        raise ApiError("invalid_arguments", "There is no message", "send the messages of the chat")
    request.api.gate.spare(request.principal)
    last = body.messages[-1]
    message = _message(last) if last.role == "user" else ""
    conversation = await FrontendSession.open(request.api, request.principal, body.id, request.path[0])
    if message:
        key = None if body.trigger == "regenerate-message" or last.id is None else f"ai-sdk:{last.id}"
        events = await conversation.say(message, request.path[0], key)
    else:
        before = await conversation.seen()
        await _answer(conversation, last.parts)
        events = await conversation.rest(before)
    await stream(request, MessageParts(request.path[0], conversation.session.id), events, HEADERS)


async def attach(request: ApiRequest) -> ApiReply | None:
    """The run of a chat that goes on right now, from its beginning."""
    conversation = await FrontendSession.found(request.api, request.principal, request.path[1], request.path[0])
    begun = None if conversation is None else await conversation.going()
    if conversation is None or begun is None:
        return ApiReply(b"", 204)
    await stream(
        request, MessageParts(request.path[0], conversation.session.id), await conversation.rest(begun), HEADERS
    )
    return None


def _message(message: UiMessage) -> Said:
    content = message_of(message.parts, aisdk_file)
    if not content:
        raise ApiError("invalid_arguments", "The last message has no text", "send a part of type 'text' or 'file'")
    return content


async def _answer(conversation: FrontendSession, parts: list[dict[str, Any]]) -> None:
    """Takes the approvals and outputs of a message; what was answered before is passed over."""
    waiting = await conversation.open_questions()
    by_call = {question.call: question for question in waiting.values()}
    any_answer = not waiting
    for part in parts:
        question = by_call.get(str(part.get("toolCallId")))
        question = None if question is None else waiting.get(question.id)
        approval = part["approval"] if isinstance(part.get("approval"), dict) else {}
        if part.get("state") == "approval-responded" and str(approval.get("id")) in waiting:
            action, reason = "accept" if approved(approval.get("approved")) else "decline", approval.get("reason")
            await conversation.answer(waiting.pop(str(approval["id"])).id, action, reason=reason and str(reason))
        elif question is not None and question.kind != "confirm" and part.get("state") == "output-available":
            await conversation.answer(waiting.pop(question.id).id, "accept", part.get("output"))
        elif question is not None and question.kind == "client" and part.get("state") == "output-error":
            await conversation.answer(waiting.pop(question.id).id, "fail", reason=str(part.get("errorText")))
        else:
            continue
        any_answer = True
    if not any_answer:
        raise ApiError("invalid_arguments", "Nothing in the last message answers what is waited for", _wanted(waiting))


def _wanted(waiting: dict[str, Question]) -> str:
    return "answer " + ", ".join(f"{one.id} ({one.prompt})" for one in waiting.values())


class MessageParts:
    """Turns events into parts of one message."""

    def __init__(self, agent: str, session: str) -> None:
        self._agent = agent
        self._session = session
        self._run: str | None = None
        self._open: str | None = None
        self._spoken = False
        self._over = False
        self._outputs: dict[str, dict[str, Any]] = {}

    def begin(self) -> Iterable[bytes]:
        """Nothing: the message begins with its run."""
        return ()

    def end(self) -> Iterable[bytes]:
        """The mark of the end."""
        if not self._over:
            yield from self._finish("stop")
        yield DONE

    def fail(self, detail: ErrorDetail) -> Iterable[bytes]:
        """The text of the problem."""
        yield _part("error", errorText=detail.message)
        self._over = True

    def take(self, event: Event) -> Iterator[bytes]:
        """The parts of an event."""
        if self._over:
            return
        run = event.fields.get("run")
        if self._run is None and (run is not None or event.call is not None):
            self._run = run or ""
            yield _part("start", **({"messageId": run} if run else {}), messageMetadata={"agent": self._agent})
        write = _WRITERS.get(type(event.data))
        if write is not None:
            yield from write(self, event)

    # Turns and text

    def _on_turn_started(self, event: Event) -> Iterator[bytes]:
        self._spoken = False
        yield _part("start-step")

    def _on_turn_finished(self, event: Event) -> Iterator[bytes]:
        yield from self._close()
        yield _part("finish-step")

    def _on_text(self, event: Event) -> Iterator[bytes]:
        yield from self._say("text", event, event.fields["delta"])

    def _on_reasoning(self, event: Event) -> Iterator[bytes]:
        yield from self._say("reasoning", event, event.fields["delta"])

    def _on_message(self, event: Event) -> Iterator[bytes]:
        if event.fields["role"] == "assistant":
            if not self._spoken and event.fields.get("content"):
                yield from self._say("text", event, event.fields["content"])
            yield from self._close()

    def _say(self, kind: str, event: Event, delta: str) -> Iterator[bytes]:
        if self._open is None or not self._open.startswith(kind):
            yield from self._close()
            self._open = f"{kind}-{event.seq}"
            yield _part(f"{kind}-start", id=self._open)
        self._spoken = self._spoken or kind == "text"
        yield _part(f"{kind}-delta", id=self._open, delta=delta)

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            yield _part(f"{self._open.partition('-')[0]}-end", id=self._open)
            self._open = None

    # Calls

    def _on_accepted(self, event: Event) -> Iterator[bytes]:
        data = event.fields
        yield from self._close()
        call = {"toolCallId": event.call, "toolName": data["tool"], "dynamic": True}
        yield _part("tool-input-available", **call, input=data["args"], title=data["label"])

    def _on_waiting(self, event: Event) -> Iterator[bytes]:
        question = event.fields["question"]
        if question["kind"] == "confirm":
            yield _part("tool-approval-request", approvalId=question["id"], toolCallId=event.call)
            fields = {name: question[name] for name in ("id", "prompt", "tool")}
            more = {"origins": origins_of(question.get("data")), "toolCallId": event.call}
            yield _part("data-approval", id=question["id"], data={**fields, **more})
        elif question["kind"] == "input":
            fields = {name: question.get(name) for name in ("id", "prompt", "schema", "tool")}
            yield _part("data-question", id=question["id"], data={**fields, "toolCallId": event.call})

    def _on_started(self, event: Event) -> Iterator[bytes]:
        self._outputs.pop(event.call or "", None)  # its body runs from its start, and puts out all again
        return iter(())

    _on_answered = _on_started

    def _on_progress(self, event: Event) -> Iterator[bytes]:
        yield self._so_far(event, **{name: event.fields.get(name) for name in ("progress", "message")})

    def _on_output(self, event: Event) -> Iterator[bytes]:
        before = self._outputs.get(event.call or "", {}).get("output", "")
        yield self._so_far(event, output=before + str(event.fields.get("delta", "")))

    def _so_far(self, event: Event, **news: Any) -> bytes:
        so_far = self._outputs.setdefault(event.call or "", {})
        so_far.update({name: value for name, value in news.items() if value is not None})
        return _part("tool-output-available", toolCallId=event.call, output=so_far, preliminary=True, dynamic=True)

    def _on_done(self, event: Event) -> Iterator[bytes]:
        failure = event.fields.get("failure")
        if failure is None:
            yield from self._output(event)
        elif failure["code"] == "declined":
            yield _part("tool-output-denied", toolCallId=event.call)
        else:
            text = failure_line(failure)
            yield _part("tool-output-error", toolCallId=event.call, errorText=text, dynamic=True)

    def _output(self, event: Event) -> Iterator[bytes]:
        """What a call gave; its files are parts of the message."""
        content = shown(self._session, event.fields.get("content"))
        texts = [one if isinstance(one, str) else one.media.placeholder() for one in content]
        output = event.fields.get("data")
        output = "\n".join(texts) if output is None and texts else output
        yield _part("tool-output-available", toolCallId=event.call, output=output, dynamic=True)
        for one in content:
            if isinstance(one, ShownFile):
                yield _part("file", url=one.url, mediaType=one.media.mime_type)

    # Runs

    def _on_handover(self, event: Event) -> Iterator[bytes]:
        fields = {name: event.fields.get(name) for name in ("from", "to", "reason")}
        yield _part("data-handover", id=f"handover-{event.seq}", data=fields)

    def _on_run_waiting(self, event: Event) -> Iterator[bytes]:
        yield from self._finish("tool-calls")

    def _on_run_finished(self, event: Event) -> Iterator[bytes]:
        data = event.fields
        if data["reason"] == "failed":
            yield _part("error", errorText=data.get("detail") or "The run failed")
        yield from self._finish("stop" if data["reason"] == "answered" else "other", usage=data.get("usage"))

    def _finish(self, reason: str, **more: Any) -> Iterator[bytes]:
        yield from self._close()
        yield _part("finish", finishReason=reason, messageMetadata={"agent": self._agent, "run": self._run, **more})
        self._over = True


_WRITERS: dict[type[EventData], Callable[[MessageParts, Event], Iterator[bytes]]] = {
    events.TurnStarted: MessageParts._on_turn_started,
    events.TurnFinished: MessageParts._on_turn_finished,
    events.TextStreamed: MessageParts._on_text,
    events.ReasoningStreamed: MessageParts._on_reasoning,
    events.MessageAdded: MessageParts._on_message,
    events.Accepted: MessageParts._on_accepted,
    events.Waiting: MessageParts._on_waiting,
    events.Started: MessageParts._on_started,
    events.Answered: MessageParts._on_answered,
    events.Progress: MessageParts._on_progress,
    events.Output: MessageParts._on_output,
    events.Done: MessageParts._on_done,
    events.HandedOver: MessageParts._on_handover,
    events.RunWaiting: MessageParts._on_run_waiting,
    events.RunFinished: MessageParts._on_run_finished,
}
"""What is written for an event, by the type of its data."""


def _part(type: str, **fields: Any) -> bytes:
    return b"data: %b\n\n" % encode({"type": type, **fields})


ROUTES = [
    Route(
        "POST",
        PATH,
        post,
        "A message to an agent as the AI SDK's `useChat` sends it; streams UI message parts.",
        body=ChatRequest,
        streams=True,
        right="call",
    ),
    Route(
        "GET",
        PATH + "/{chat}/stream",
        attach,
        "The run of a chat that goes on right now, from its beginning; 204 where none does.",
        gives={204: None},
        streams=True,
        right="read",
    ),
]

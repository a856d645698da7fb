"""What a model was sent: a request as the model saw it, and what had changed since the one before."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from toolcrib.agent.models import Message
from toolcrib.agent.prompt_view import ModelPrompt, prompt_at
from toolcrib.media import Media
from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.pages import Seq
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.store.codec import PAGE_BYTES

LONGEST = 256 * 1024
"""Characters of one text that are told; of a longer one the beginning."""


HIDDEN = "The instructions of the agent are for who looks after the server."


class PromptQuery(Struct, forbid_unknown_fields=True):
    """From which message on; the first is 0."""

    first: Seq = 0


class PromptCallForm(Struct):
    """A call that a model made in its message: its id there, the name of the tool, and the text of the arguments."""

    id: str
    name: str
    args: str


class PromptFileForm(Struct, omit_defaults=True):
    """A file that the model was sent, under `output` where it is kept beside the log."""

    mime_type: str
    size: int
    name: str | None = None
    output: str | None = None


class PromptMessageForm(Struct, omit_defaults=True):
    """One message as the model read it; `cut` is the length of a text of which only the beginning is told."""

    role: str
    text: str
    calls: list[PromptCallForm] | None = None
    call: str | None = None
    files: list[PromptFileForm] | None = None
    cut: int | None = None


class PromptToolForm(Struct):
    """A tool as the model saw it."""

    name: str
    description: str
    schema: dict[str, Any]


class PromptForm(Struct, omit_defaults=True):
    """A request to a model as the model saw it.

    `seq` is the event that has the reply, `purpose` `turn` or `summary`. `messages` begin with number `first` of
    `total`, and go on with number `next`. `exact` says that the log vouches for all of it; where it does not, `notes`
    say why. `previous` is the request before of the same agent in the same conversation: the first `same` messages
    were in it, and `dropped` of its messages are not here any more. `instructions_before` and `tools_before`, by name,
    are there where they were others.
    """

    seq: int
    run: str
    agent: str
    turn: int | None
    at: float
    purpose: str
    exact: bool
    notes: list[str]
    instructions: str | None
    tools: list[PromptToolForm] | None
    messages: list[PromptMessageForm]
    first: int
    total: int
    next: int | None = None
    previous: int | None = None
    same: int = 0
    dropped: int = 0
    instructions_before: str | None = None
    tools_before: list[str] | None = None


async def prompt(request: ApiRequest) -> ApiReply:
    """A request to a model, by the event that tells of it."""
    row = await request.api.sessions.row(request.path[0], request.principal)
    seq = request.path[1]
    if not seq.isascii() or not seq.isdecimal() or len(seq) > 15:
        raise missing("request")
    await request.api.crib.store.flush()
    made = await prompt_at(request.api.crib.store, row.id, int(seq))
    if not request.principal.admin and made.instructions is not None:
        made.instructions, made.instructions_before = None, None
        made.notes.append(HIDDEN)
    return json_reply(prompt_form(made, request.query.first))


_PLAIN = (
    *("seq", "run", "agent", "turn", "at", "purpose", "exact", "notes", "instructions"),
    *("previous", "same", "dropped", "instructions_before", "tools_before"),
)
"""What is told as it is."""


def prompt_form(prompt: ModelPrompt, first: int = 0, room: int = PAGE_BYTES) -> PromptForm:
    """Return a request to a model as the API gives it, with as many messages as there is room for."""
    messages: list[PromptMessageForm] = []
    for message in prompt.messages[first:]:
        form = _message(message)
        room -= len(form.text) + sum(len(call.args) for call in form.calls or ())
        if room < 0 and messages:
            break
        messages.append(form)
    end, total = first + len(messages), len(prompt.messages)
    tools = None
    if prompt.tools is not None:
        tools = [PromptToolForm(tool.name, tool.description, dict(tool.schema)) for tool in prompt.tools]
    plain: dict[str, Any] = {name: getattr(prompt, name) for name in _PLAIN}
    next = end if end < total else None
    return PromptForm(**plain, tools=tools, messages=messages, first=first, total=total, next=next)


def _message(message: Message) -> PromptMessageForm:
    calls = [PromptCallForm(call.id, call.name, call.args[:LONGEST]) for call in message.calls]
    files = [_file(part) for part in message.parts if isinstance(part, Media)]
    cut = len(message.text) if len(message.text) > LONGEST else None
    return PromptMessageForm(message.role, message.text[:LONGEST], calls or None, message.call, files or None, cut)


def _file(media: Media) -> PromptFileForm:
    return PromptFileForm(media.mime_type, media.size, media.name, media.output)


ROUTES = [
    Route(
        "GET",
        "/v1/sessions/{session}/prompts/{seq}",
        prompt,
        "A request to a model as the model saw it, by the event of its turn or of its reply, and what had changed.",
        query=PromptQuery,
        gives={200: PromptForm},
    ),
]

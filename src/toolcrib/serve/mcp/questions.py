"""Questions of calls as requests to a client, and the client's responses as answers.

A plain question becomes a form. One that a tool put with `ask_client` holds several requests, each under its name; they
may be answered one at a time, and what was answered so far stands in the session's log until all are there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.errors import Refused
from toolcrib.events import InputGiven
from toolcrib.origins.passages import passages
from toolcrib.schema import output_check
from toolcrib.schema.visible_json import visible_json, visible_text
from toolcrib.serve.principal import Principal
from toolcrib.session import Session
from toolcrib.tool import Tool, canonical
from toolcrib.types import Question

ANSWERED = "input"
"""The kind of the session's event that holds one of several responses."""

_NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
_ACTIONS = ("accept", "decline", "cancel")
_WRAP = "answer"


@dataclass(frozen=True, slots=True)
class Open:
    """A question that waits: what is still wanted of this client, what came so far, what the client cannot do."""

    question: Question
    wanted: Mapping[str, Mapping[str, Any]]
    answers: Mapping[str, Any]
    lacking: tuple[str, ...]

    @property
    def for_client_alone(self) -> bool:
        """True if nobody else can answer it."""
        return _wishes(self.question) is not None


async def open_questions(
    session: Session, call: str, capabilities: Mapping[str, Any], principal: Principal | None = None
) -> list[Open]:
    """What a call waits for, itself or by a call that it made. Who may not answer is not asked to agree to anything."""
    agrees = principal is None or principal.may("answer")
    questions = []
    rows = await session.crib.store.calls(session.id, ("waiting",), limit=100_000)
    for row in rows:
        if row.id == call or await _within(session, row.parent, call):
            history = await session._history(row)
            if history.question is not None:
                opened = await _open(session, history.question, history.seq, capabilities)
                if history.question.kind == "confirm" and not agrees:
                    opened = replace(opened, wanted={})
                questions.append(opened)
    return questions


async def _within(session: Session, parent: str | None, call: str) -> bool:
    while parent is not None and parent != call:
        row = await session.crib.store.call(parent)
        parent = None if row is None else row.parent
    return parent is not None


async def _open(session: Session, question: Question, asked_seq: int, capabilities: Mapping[str, Any]) -> Open:
    several = _wishes(question)
    wishes = {_name(question): _form(question)} if several is None else several
    answers = {} if several is None else await _answers_since(session, question.id, asked_seq)
    lacking = {_NEEDS[wish["method"]] for wish in wishes.values() if not _can(wish, capabilities)}
    wanted = {name: wish for name, wish in wishes.items() if name not in answers and _can(wish, capabilities)}
    elsewhere = question.kind == "external" and _account(question) is None
    if several is None and (elsewhere or question.demands):  # for others to answer, elsewhere
        wanted = {}
    return Open(question, wanted, answers, tuple(sorted(lacking)))


def _name(question: Question) -> str:
    """What a question is called: as the server does that asks it, where it has a name there."""
    name = question.data.get("name") if isinstance(question.data, Mapping) and "server" in question.data else None
    return name if isinstance(name, str) else question.key


def _account(question: Question) -> str | None:
    """The account that somebody has to connect, on the page that the question names."""
    data = question.data
    return str(data["account"]) if isinstance(data, Mapping) and data.get("account") and data.get("url") else None


def only_visits(opened: Iterable[Open]) -> bool:
    """True if all that is open is a visit to a page, of which the client only says that its user goes there."""
    return all(_account(one.question) is not None for one in opened)


def _wishes(question: Question) -> dict[str, dict[str, Any]] | None:
    data = question.data
    wishes = data.get("mcp") if isinstance(data, Mapping) else None
    return wishes if isinstance(wishes, dict) else None


async def _answers_since(session: Session, question: str, after: int) -> dict[str, Any]:
    """What was answered since the question was asked."""
    data: dict[str, Any] = {}
    while page := await session.crib.store.read(session.id, after, call="", limit=1000):
        after = page[-1].seq
        for event in page:
            if event.kind == ANSWERED and event.fields["question"] == question:
                data[event.fields["name"]] = event.fields["response"]
    return data


def _form(question: Question) -> dict[str, Any]:
    url = question.data.get("url") if isinstance(question.data, Mapping) else None
    params: dict[str, Any] = {"message": _message(question)}
    if isinstance(url, str):
        params |= {"mode": "url", "url": url, "elicitationId": question.id}
    elif question.kind == "confirm":
        params["requestedSchema"] = {"type": "object", "properties": {}}
    else:
        params["requestedSchema"] = dict(question.schema or {}) if _is_object(question) else _wrapped(question)
    return {"method": "elicitation/create", "params": params}


def _message(question: Question) -> str:
    """What a person reads; whoever agrees to a call has to see what exactly will run."""
    if question.kind != "confirm":
        return question.prompt
    arguments = visible_json(dict(question.arguments), indent=2)
    resolved = question.data.get("resolved") if isinstance(question.data, Mapping) else None
    leads = f"\nLeads to: {visible_json(resolved)}" if resolved else ""
    seen = "".join(f"\nSeen: {line}" for line in passages(question.data))
    prompt, tool = visible_text(question.prompt), visible_text(question.tool)
    return f"{prompt}{seen}\nTool: {tool}\nArguments: {arguments}{leads}\nDigest: {question.digest}"


def waiting_text(question: Question, call: str, tool: Tool | None) -> str:
    """What is told to a client that cannot answer a question: who can, and how it need not be asked again."""
    lines = [
        f"The call waits for an answer that this client cannot give: {_message(question)}",
        f"It was accepted as {call} and goes on when somebody answers question {question.id}: in the console, or by "
        f"`toolcrib answer {question.id} accept`. Do not ask for the same again.",
    ]
    if question.kind == "confirm" and tool is not None and not tool.trusted:
        rule = f"`allow: {tool.id}` among the rules of the policy"
        lines.append(
            f"The source {tool.source} is not trusted. So that its tools need not be confirmed, whoever runs the crib "
            f"says `trusted: true` of that source in crib.yaml, or {rule}."
        )
    return "\n".join(lines)


def _is_object(question: Question) -> bool:
    return question.schema is not None and question.schema.get("type") == "object"


def _wrapped(question: Question) -> dict[str, Any]:
    """A form has fields; what is no object is asked for in one."""
    inside = dict(question.schema or {"type": "string"})
    return {"type": "object", "properties": {_WRAP: inside}, "required": [_WRAP]}


def _can(wish: Mapping[str, Any], capabilities: Mapping[str, Any]) -> bool:
    capability = capabilities.get(_NEEDS[wish["method"]])
    if not isinstance(capability, Mapping):
        return False
    return wish["params"].get("mode") != "url" or "url" in capability


def requests(opened: Iterable[Open]) -> dict[str, dict[str, Any]]:
    """What is asked of the client, under names that are used once."""
    return {name: dict(wish) for name, (_, _, wish) in _named(opened).items()}


def _named(opened: Iterable[Open]) -> dict[str, tuple[Open, str, Mapping[str, Any]]]:
    named: dict[str, tuple[Open, str, Mapping[str, Any]]] = {}
    for one in opened:
        for name, wish in one.wanted.items():
            named[name if name not in named else f"{one.question.id}:{name}"] = (one, name, wish)
    return named


async def give(
    session: Session, opened: list[Open], responses: Mapping[str, Any], actor: str, *, unasked: bool = False
) -> bool:
    """Takes responses for what is open; whether one was of use. What fits nothing is ignored, what is no answer too.

    With `unasked` the client answers before it saw a question; it cannot agree to anything in that way.
    """
    used = False
    by_question: dict[str, tuple[Open, dict[str, Any]]] = {}
    for name, (one, inner, wish) in _named(opened).items():
        if name in responses and _fits(wish, responses[name]) and not (unasked and one.question.kind == "confirm"):
            by_question.setdefault(one.question.id, (one, {}))[1][inner] = responses[name]
    for one, answers in by_question.values():
        used = await _answer(session, one, answers, actor) or used
    return used


def _fits(wish: Mapping[str, Any], response: Any) -> bool:
    if not isinstance(response, Mapping):
        return False
    match wish["method"]:
        case "elicitation/create":
            return response.get("action") in _ACTIONS and _filled(wish["params"], response)
        case "sampling/createMessage":
            return isinstance(response.get("role"), str) and "content" in response
        case _:
            return isinstance(response.get("roots"), list)


def _filled(params: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    """True if what was accepted fits the form; a form that is no schema takes everything."""
    schema = params.get("requestedSchema")
    if response["action"] != "accept" or schema is None:
        return True
    return output_check(dict(schema))(response.get("content") or {}) is None


async def _answer(session: Session, one: Open, data: dict[str, Any], actor: str) -> bool:
    if not one.for_client_alone:
        ((_, response),) = data.items()
        return await _settle(session, one.question, response["action"], _value(one.question, response), actor)
    for name, response in data.items():
        await session._log(InputGiven(one.question.id, name, response, actor))
    if data.keys() >= one.wanted.keys():
        return await _settle(session, one.question, "accept", {**one.answers, **data}, actor)
    return True


def _value(question: Question, response: Mapping[str, Any]) -> Any:
    content = response.get("content")
    if response["action"] != "accept" or question.kind == "confirm":
        return None
    return content if content is None or _is_object(question) else content.get(_WRAP)


async def _settle(session: Session, question: Question, action: str, value: Any, actor: str) -> bool:
    """Answers; the same once more changes nothing, and what came too late is told by what became of the call."""
    key = f"mcp:{hashlib.sha256(canonical([question.id, action, value])).hexdigest()[:24]}"
    try:
        await session.answer(question.id, action, value, actor=actor, key=key)
    except Refused as refused:
        return refused.code != "invalid_arguments"
    return True


async def refuse(session: Session, opened: Iterable[Open], actor: str, reason: str) -> None:
    """The client cannot or will not answer."""
    for one in opened:
        try:
            await session.answer(one.question.id, "decline", actor=actor, reason=reason)
        except Refused:
            continue

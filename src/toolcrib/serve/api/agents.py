"""Agents over HTTP: who there is, messages to them, and their runs."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from toolcrib._session.statistics import SPANS, traffic
from toolcrib.serve.api import forms
from toolcrib.serve.api.calls import attend
from toolcrib.serve.api.errors import ApiError, missing
from toolcrib.serve.api.pages import Name, Seconds, Text, owner_of
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.session_cache import bounds
from toolcrib.serve.api.tools import open_tools
from toolcrib.session import Session

if TYPE_CHECKING:
    from toolcrib.agent import Agent, Agents, RunOutcome

LOOK_S = 1.0
log = logging.getLogger("toolcrib.serve")


class AgentForm(Struct, omit_defaults=True):
    """An agent; `model` is the name of what it speaks with."""

    name: str
    description: str
    tools: list[str]
    max_turns: int
    model: str | None = None
    exclude: tuple[str, ...] = ()
    default: bool = False


class Edge(Struct, omit_defaults=True):
    """That one agent may reach another, and how. `count` says how often it did in the last week."""

    source: str
    target: str
    via: Literal["transfer", "call"]
    returns: bool = False
    count: int = 0


class AgentsForm(Struct):
    """All agents, and who may reach whom."""

    items: list[AgentForm]
    edges: list[Edge]


class AgentDetail(AgentForm, omit_defaults=True):
    """An agent; `definition` is its file, with its instructions, for who looks after the server."""

    definition: dict[str, Any] = {}


def _agents(request: ApiRequest) -> Agents:
    agents: Any = request.api.crib.agents
    if agents is None:
        raise ApiError("conflict", "This crib has no agents", "name some in crib.yaml under `agents`")
    known: Agents = agents
    return known


def _form(agents: Agents, agent: Agent) -> AgentForm:
    model = agent.model if isinstance(agent.model, str) or agent.model is None else type(agent.model).__name__
    return AgentForm(
        agent.name,
        agent.description,
        list(agent.tools),
        agent.max_turns,
        model,
        tuple(agent.exclude),
        agent.name == agents.default,
    )


def _seen(request: ApiRequest, form: AgentForm) -> AgentForm:
    """An agent without the tools of namespaces that the key of whoever asks does not open."""
    if bounds(request.principal) is not None:
        names = [(tool.id, tool.name) for tool in open_tools(request)]
        form.tools = [one for one in form.tools if any(fnmatchcase(name, one) for pair in names for name in pair)]
        form.exclude = ()
    return form


async def _traffic(request: ApiRequest) -> Counter[tuple[str, str, str]]:
    """How often agents reached each other in the last week, in what somebody may see."""
    if bounds(request.principal) is not None:
        return Counter()
    crib = request.api.crib
    now = crib.pipeline.clock.now()
    return await traffic(crib.store, now - SPANS["week"], now, owner_of(request))


async def agents(request: ApiRequest) -> ApiReply:
    """All agents; none where the crib has none."""
    if request.api.crib.agents is None:
        return json_reply(AgentsForm([], []))
    crib_agents = _agents(request)
    registry = crib_agents.registry
    counts = await _traffic(request)
    edges = [
        Edge(name, target, via, how.returns, counts[name, target, via])
        for name in registry
        for via in ("transfer", "call")
        for target, how in registry.reached(registry[name], via).items()
    ]
    return json_reply(AgentsForm([_seen(request, _form(crib_agents, registry[name])) for name in registry], edges))


async def agent(request: ApiRequest) -> ApiReply:
    """One agent."""
    crib_agents = _agents(request)
    one = crib_agents.registry.get(request.path[0])
    if one is None:
        raise missing("agent")
    form = _seen(request, _form(crib_agents, one))
    fields = {name: getattr(form, name) for name in form.__struct_fields__}
    return json_reply(AgentDetail(**fields, definition=one.data() if request.principal.admin else {}))


# Messages


class NewMessage(Struct, forbid_unknown_fields=True):
    """A message to the agent of a session, or to another from now on. With `wait` the answer is how its run ended.

    It has a `text`, or `parts`: texts, and blocks such as `{"type": "image", "data": ..., "mime_type": "image/png"}`.
    """

    text: Annotated[str, Meta(max_length=1_000_000)] = ""
    parts: Annotated[list[str | dict[str, Any]], Meta(max_length=1000)] = []
    agent: Name | None = None
    mode: Literal["followup", "steer", "collect", "interrupt"] | None = None
    key: Text | None = None
    wait: bool | Seconds = False


class AcceptedMessage(Struct, omit_defaults=True):
    """That a message was taken: by which run, unless it waits in the queue. Follow the events past `seq`."""

    key: str
    seq: int
    run: str | None = None


class OutcomeForm(Struct, omit_defaults=True):
    """How a run ended, or what it waits for."""

    status: str
    run: str | None = None
    reason: str | None = None
    answer: Any = None
    code: str | None = None
    detail: str | None = None
    turns: int = 0
    usage: Mapping[str, Any] | None = None
    questions: list[forms.QuestionForm] = []


async def send(request: ApiRequest) -> ApiReply:
    """Sends a message."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    body, crib_agents = request.body, _agents(request)
    if bool(body.text) == bool(body.parts):
        raise ApiError("invalid_arguments", "A message has either `text` or `parts`")
    row = await request.api.crib.store.session(session.id)
    seq, key = 0 if row is None else row.seq, body.key or f"m-{secrets.token_hex(8)}"
    work = asyncio.ensure_future(session.send(body.text or body.parts, agent=body.agent, mode=body.mode, key=key))
    work.add_done_callback(_ended)
    run = await _taken(session, crib_agents, key, work, seq)
    if work.done():
        return json_reply(_outcome(work.result()))
    if body.wait is not False and await attend(work, request, None if body.wait is True else float(body.wait)):
        return json_reply(_outcome(work.result()))
    return json_reply(AcceptedMessage(key, seq, run), 202)


async def _taken(
    session: Session, crib_agents: Agents, key: str, work: asyncio.Future[RunOutcome], seq: int
) -> str | None:
    """Waits until the message is in the log; the run that took it, if one did."""
    store, keys = session.crib.store, crib_agents.driver(session).conversation.keys
    while key not in keys and not work.done():
        news = asyncio.ensure_future(store.wait(session.id, seq))
        both: set[asyncio.Future[Any]] = {work, news}
        await asyncio.wait(both, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        await asyncio.wait({news})
        row = await store.session(session.id)
        seq = seq if row is None else row.seq
    where = keys.get(key)
    return where if isinstance(where, str) else None


def _ended(work: asyncio.Future[RunOutcome]) -> None:
    """Whoever sent it may not wait: the log tells what became of it."""
    if not work.cancelled() and work.exception() is not None:
        log.info("a message came to nothing: %s", work.exception())


def _outcome(outcome: RunOutcome) -> OutcomeForm:
    fields = {one.name: getattr(outcome, one.name) for one in dataclasses.fields(outcome) if one.name != "questions"}
    return OutcomeForm(**fields, questions=[forms.question(one) for one in outcome.questions])


# Runs


class RunForm(Struct, omit_defaults=True):
    """A run of an agent. `parent` is the call that made it."""

    run: str
    agent: str
    status: Literal["created", "running", "waiting", "done"]
    origin: str
    started_at: float
    turns: int
    usage: Mapping[str, Any]
    parent: str | None = None
    reason: str | None = None
    answer: Any = None
    code: str | None = None


class Runs(Struct):
    """The runs of a session, the first first."""

    items: list[RunForm]


async def runs(request: ApiRequest) -> ApiReply:
    """The runs of a session."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    if request.api.crib.agents is None:
        return json_reply(Runs([]))
    driver = _agents(request).driver(session)
    await driver.log.catch_up()
    return json_reply(Runs([_run(one) for one in driver.conversation.runs.values()]))


def _run(run: Any) -> RunForm:
    finished = run.finished
    usage = (None if finished is None else finished.usage) or run.usage.data()
    end = () if finished is None else (finished.reason, finished.answer, finished.code)
    return RunForm(run.id, run.agent, run.status, run.origin, run.started_at, run.turn, usage, run.parent, *end)


ROUTES = [
    Route(
        "GET",
        "/v1/agents",
        agents,
        "The agents of the crib, who may reach whom, and how often each did in the last week.",
        gives={200: AgentsForm},
    ),
    Route("GET", "/v1/agents/{agent}", agent, "One agent; for `admin` as its file says it.", gives={200: AgentDetail}),
    Route(
        "POST",
        "/v1/sessions/{session}/messages",
        send,
        "Sends a message to the agent of a session: 202 when it is in the log, or with `wait` 200 when its run is over "
        "or waits for somebody. The same `key` again is the same message.",
        "call",
        body=NewMessage,
        gives={200: OutcomeForm, 202: AcceptedMessage},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/runs",
        runs,
        "The runs of a session: who, how far, and what they used.",
        gives={200: Runs},
    ),
]

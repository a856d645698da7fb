"""Tools over HTTP: what there is, what a session may use, and why a call would be allowed."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from toolcrib.catalog.fingerprints import parts as looks
from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.pages import Limit, Name, Text, paged
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.sources import OK, Health
from toolcrib.tool import Tool
from toolcrib.types import Effect

Status = Literal["ok", "degraded", "unavailable"]
FACETS = ("namespace", "source", "effect", "health")


class ToolsQuery(Struct, forbid_unknown_fields=True):
    """Which tools: `q` are words that they mention, `changed` those that changed since they were accepted."""

    q: Text | None = None
    namespace: Name | None = None
    source: Name | None = None
    effect: Effect | None = None
    health: Status | None = None
    changed: bool = False
    after: Text | None = None
    limit: Limit = 100


class ToolForm(Struct, omit_defaults=True):
    """A tool. `run_by` is `client` for one that whoever offered it runs; `changed` is what is new and not accepted.

    `health` is what its source and its last calls tell, and `reason` why it is so.
    """

    id: str
    name: str
    namespace: str
    description: str
    effect: Effect
    source: str
    trusted: bool
    health: Status
    reason: str | None = None
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    annotations: dict[str, bool] | None = None
    capabilities: tuple[str, ...] = ()
    background: bool = False
    run_by: str | None = None
    changed: tuple[str, ...] = ()
    model_name: str | None = None


class ToolDetail(ToolForm, omit_defaults=True):
    """All there is to know of a tool."""

    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None
    knowledge: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    fingerprint: str | None = None
    warnings: tuple[str, ...] = ()


class ToolVersion(Struct, omit_defaults=True):
    """How a tool of an untrusted source looked since `at`; `by` accepted it.

    `changed` are the parts that are not as in the version before, `parts` what they were, where that was kept.
    `current` is how it looks now.
    """

    at: float
    parts: dict[str, Raw]
    changed: list[str] = []
    by: str | None = None
    current: bool = False


class ToolVersions(Struct):
    """The versions of a tool, the first first; none of tools that nobody has to accept."""

    items: list[ToolVersion]


class SourceForm(Struct):
    """A source that is not well; of one that is unavailable there may be no tools."""

    name: str
    health: Status
    reason: str


class Tools(Struct, omit_defaults=True):
    """A page of tools; `total` are all that fit.

    The first page has `facets`: for each filter how many tools of each kind fit all the other filters. And it has the
    sources that are `unwell`.
    """

    items: list[ToolForm]
    total: int
    next: str | None = None
    facets: dict[str, dict[str, int]] | None = None
    unwell: list[SourceForm] | None = None


Healths = dict[str, Health]
NOT_TOLD = "Its source is not well; who looks after the server sees why"


def _healths(request: ApiRequest) -> Healths:
    """The tools that are not well: by how their last calls ended, and before that by the word of their source."""
    registry, metrics = request.api.crib.registry, request.api.metrics
    failing = {} if metrics is None else {id: Health("degraded", why) for id, why in metrics.out_of_order().items()}
    reported = ((tool.id, registry.health(tool)) for tool in registry.telling)
    return failing | {id: _for(request, health) for id, health in reported if health.status != "ok"}


def _for(request: ApiRequest, health: Health) -> Health:
    """What a source says of itself holds addresses and words of servers: why it is unwell is for who looks after it."""
    return health if request.principal.admin else health._replace(reason=NOT_TOLD)


def _parts(tool: Tool, healths: Healths, model_name: str | None = None) -> dict[str, Any]:
    health = healths.get(tool.id, OK)
    return {
        "id": tool.id,
        "name": tool.name,
        "namespace": tool.namespace,
        "description": tool.description,
        "effect": tool.does,
        "source": tool.source,
        "trusted": tool.trusted,
        "health": health.status,
        "reason": health.reason or None,
        "title": tool.title,
        "category": tool.category,
        "tags": tool.tags,
        "annotations": None if tool.annotations is None else asdict(tool.annotations),
        "capabilities": tool.capabilities,
        "background": tool.background,
        "run_by": "client" if tool.run is None else None,
        "changed": tool.changed,
        "model_name": model_name,
    }


def tool_form(tool: Tool, healths: Healths | None = None, model_name: str | None = None) -> ToolForm:
    """A tool as lists show it."""
    return ToolForm(**_parts(tool, healths or {}, model_name))


def _detail(request: ApiRequest, tool: Tool) -> ToolDetail:
    bounds, own = request.api.crib.pipeline.limits, asdict(tool.limits)
    own["timeout_s"] = own["timeout_s"] or bounds.timeout_s
    own["output_bytes"] = own["output_bytes"] or bounds.output_bytes
    known = tool.knowledge
    data: dict[str, Any] = {
        "examples": [asdict(one) for one in known.examples],
        "anti_patterns": [asdict(one) for one in known.anti_patterns],
    }
    if known.help is not None:
        data["help"] = known.help(None)
    return ToolDetail(
        **_parts(tool, _healths(request)),
        input_schema=dict(tool.input_schema),
        output_schema=None if tool.output_schema is None else dict(tool.output_schema),
        limits={name: value for name, value in own.items() if value is not None},
        knowledge={name: value for name, value in data.items() if value},
        metadata=dict(tool.metadata) or None,
        fingerprint=tool.fingerprint,
        warnings=tool.warnings,
    )


def open_tools(request: ApiRequest) -> list[Tool]:
    """The tools of the crib that are open to whoever asks."""
    api, principal = request.api, request.principal
    owner = None if principal.admin else principal.name
    return list(api.crib.catalog.view(api.sessions.allowed(principal), owner).tools)


def sources_of(request: ApiRequest) -> dict[str, str]:
    """The source of each tool that is there now."""
    registry = request.api.crib.registry
    return {tool.id: source.name for source in registry.sources for tool in registry.tools_of(source)}


def _mention(tools: list[Tool], words: list[str]) -> list[Tool]:
    if not words:
        return tools
    texts = (" ".join((tool.id, tool.title or "", tool.description, *tool.tags)).lower() for tool in tools)
    return [tool for tool, text in zip(tools, texts, strict=True) if all(word in text for word in words)]


def _sorted_out(query: Any, tools: list[Tool], healths: Healths) -> tuple[list[Tool], dict[str, dict[str, int]]]:
    """The tools that fit all filters; and for each filter what there is to choose, given all the others."""
    wanted = [(n, getattr(query, name)) for n, name in enumerate(FACETS) if getattr(query, name) is not None]
    counts: list[Counter[str]] = [Counter() for _ in FACETS]
    fitting = []
    for tool in _mention(tools, (query.q or "").lower().split()):
        kinds = (tool.namespace, tool.source, tool.does, healths[tool.id].status if tool.id in healths else "ok")
        if query.changed and not tool.changed:
            continue
        missed = [n for n, kind in wanted if kinds[n] != kind]
        if not missed:
            fitting.append(tool)
        if len(missed) <= 1:
            for n in missed or range(len(FACETS)):
                counts[n][kinds[n]] += 1
    return fitting, {name: dict(sorted(count.items())) for name, count in zip(FACETS, counts, strict=True)}


def _unwell(request: ApiRequest) -> list[SourceForm]:
    """The sources that are not well and whose tools whoever asks may use."""
    allowed = request.api.sessions.allowed(request.principal)
    return [
        SourceForm(source.name, health.status, _for(request, health).reason)
        for source, health in request.api.crib.registry.unwell()
        if any(fnmatchcase(name, one) for name in source.namespaces for one in allowed)
    ]


def _page(request: ApiRequest, tools: list[Tool], names: dict[str, str]) -> ApiReply:
    query = request.query
    after = query.after
    healths = _healths(request)
    wanted, facets = _sorted_out(query, tools, healths)
    rest = wanted if after is None else [tool for tool in wanted if tool.id > after]
    page = rest[: query.limit]
    items = [tool_form(tool, healths, names.get(tool.id)) for tool in page]
    more = {} if after is not None else {"facets": facets, "unwell": _unwell(request)}
    return paged(items, page[-1].id if len(rest) > len(page) else None, total=len(wanted), **more)


async def tools(request: ApiRequest) -> ApiReply:
    """The tools that are open to whoever asks."""
    await request.api.crib.registry.settle(owner=request.principal.name)
    return _page(request, open_tools(request), {})


async def tool(request: ApiRequest) -> ApiReply:
    """All of one tool."""
    match = next((tool for tool in open_tools(request) if tool.id == request.path[0]), None)
    if match is None:
        raise missing("tool")
    return json_reply(_detail(request, match))


async def versions(request: ApiRequest) -> ApiReply:
    """How a tool looked before."""
    match = next((tool for tool in open_tools(request) if tool.id == request.path[0]), None)
    if match is None:
        raise missing("tool")
    now, before, items = looks(match), dict[str, str](), list[ToolVersion]()
    for version, texts in await request.api.crib.registry.versions(match):
        kept = {name: Raw(text) for name, text in texts.items() if text is not None}
        changed = [name for name, digest in version.parts.items() if before and before.get(name) != digest]
        items.append(ToolVersion(version.at, kept, changed, version.by, dict(version.parts) == now))
        before = dict(version.parts)
    return json_reply(ToolVersions(items))


async def session_tools(request: ApiRequest) -> ApiReply:
    """The tools of a session, with the names that a model sees."""
    session = await request.api.sessions.of(request.path[0], request.principal)
    await request.api.crib.registry.settle(owner=session.owner)
    names = {tool.id: name for name, tool in session.model_tools().items()}
    return _page(request, session.tools(), names)


class WhyRequest(Struct, forbid_unknown_fields=True):
    """A call that is not made."""

    tool: Annotated[str, Meta(min_length=1, max_length=1000)]
    args: Raw | UnsetType = UNSET
    agent: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None


class WhyForm(Struct):
    """A verdict, and what led to it."""

    verdict: dict[str, Any]
    capabilities: list[dict[str, Any]]
    segments: list[str]
    parts: list[dict[str, Any]]
    notes: list[str]
    lines: list[str]


async def why(request: ApiRequest) -> ApiReply:
    """The verdict on a call without making it."""
    session, body = await request.api.sessions.of(request.path[0], request.principal), request.body
    if body.agent is not None:
        await session._trace_origins()
    explained = session.why(body.tool, b"{}" if body.args is UNSET else bytes(body.args), agent=body.agent)
    return json_reply({**explained.data(), "lines": explained.lines()})


ROUTES = [
    Route(
        "GET",
        "/v1/tools",
        tools,
        "The tools that are open to you, sorted by id; with `q` those that mention all its words.",
        query=ToolsQuery,
        gives={200: Tools},
    ),
    Route(
        "GET",
        "/v1/tools/{tool}",
        tool,
        "All of one tool: schemas, limits, examples, usual mistakes.",
        gives={200: ToolDetail},
    ),
    Route(
        "GET",
        "/v1/tools/{tool}/versions",
        versions,
        "How a tool of an untrusted source looked each time that it was seen anew or accepted.",
        gives={200: ToolVersions},
    ),
    Route(
        "GET",
        "/v1/sessions/{session}/tools",
        session_tools,
        "The tools that a session may use, with the names that a model sees.",
        query=ToolsQuery,
        gives={200: Tools},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/why",
        why,
        "The verdict on a call without making it, with every grant, segment and rule that was looked at.",
        body=WhyRequest,
        gives={200: WhyForm},
    ),
]

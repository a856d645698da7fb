"""The sources of a running crib: looked at, added, tested, disabled, enabled, listed anew and removed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from toolcrib._session.statistics import NumbersOf
from toolcrib.errors import ToolcribError, ToolFailure
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.serve.api.statistics import LastCall, StatsQuery, counted, last_calls
from toolcrib.serve.api.tools import sources_of
from toolcrib.serve.managed_sources import ManagedSources, SourceTest
from toolcrib.serve.source_entry import SHAPES, SourceEntry
from toolcrib.sources import Source
from toolcrib.store import WalkFilter
from toolcrib.tool import Tool
from toolcrib.types import CODES

DAY_S = 86400.0
LAST_FAILURES = 200
"""Among so many failures the last one of each source is looked for."""


class SourcesQuery(Struct, forbid_unknown_fields=True):
    """With `seconds`, the calls that ended within them are counted for each source."""

    seconds: Annotated[float, Meta(ge=1, le=DAY_S)] | None = None


class SourceCalls(Struct, omit_defaults=True):
    """Calls of tools of a source that ended lately: how many, how long they took, and the last that failed."""

    calls: int
    failures: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    last_failure: LastCall | None = None


class SourceDetails(Struct, omit_defaults=True):
    """A source: how it is here, and for one that was added its settings, by whom and when."""

    name: str
    kind: str
    origin: Literal["configured", "added"]
    enabled: bool
    status: str
    tools: int
    reason: str = ""
    entry: dict[str, Any] | None = None
    added_at: float | None = None
    by: str | None = None
    recent: SourceCalls | None = None


class SourceList(Struct):
    """All sources: what is configured first, then what was added."""

    items: list[SourceDetails]


class SourceTestForm(Struct):
    """What came of a test, with the ids of the tools that the source has."""

    ok: bool
    problem: str
    tools: list[str]


class NewSource(SourceEntry, forbid_unknown_fields=True, omit_defaults=True):
    """A source to add; with `check: false` it is not tested before."""

    check: bool = True


def _sources(request: ApiRequest) -> ManagedSources:
    if request.api.sources is None:
        raise ApiError("conflict", "This server does not manage its sources", "serve it with `toolcrib serve`")
    return request.api.sources


def _entry(body: SourceEntry) -> SourceEntry:
    fields = {name: getattr(body, name) for name in SourceEntry.__struct_fields__}
    return SourceEntry(**fields)


def _forms(request: ApiRequest) -> list[SourceDetails]:
    """All sources by name; those of one name are one row."""
    managed, registry = _sources(request), request.api.crib.registry
    rows: dict[str, SourceDetails] = {}
    for source in registry.configured:
        if source.name not in rows:
            rows[source.name] = _form(request, source.name, source)
    running = {source.name: source for source in registry.sources}
    for name, added in managed.added.items():
        if name not in rows:
            form = _form(request, name, running.get(name), added_kind(added.entry))
            form.origin, form.added_at, form.by = "added", added.at, added.by
            form.entry = None if added.entry is None else msgspec.to_builtins(added.entry)
            rows[name] = form
    return list(rows.values())


def added_kind(entry: SourceEntry | None) -> str:
    """What sort of source an entry describes."""
    return "unknown" if entry is None else "Mcp" if entry.openapi is None else "OpenApi"


def _form(request: ApiRequest, name: str, source: Source | None, kind: str | None = None) -> SourceDetails:
    managed, registry = _sources(request), request.api.crib.registry
    enabled = name not in managed.disabled
    health = None if source is None or source not in registry.sources else source.health_of(None)
    problem = managed.problems.get(name, "")
    status = "disabled" if not enabled else "unavailable" if health is None else health.status
    tools = sum(len(_shown(request, one)) for one in registry.sources if one.name == name)
    reason = problem or ("" if health is None or not enabled else health.reason)
    return SourceDetails(name, kind or type(source).__name__, "configured", enabled, status, tools, reason)


def _shown(request: ApiRequest, source: Source) -> list[Tool]:
    """The tools of a source that stand in lists, one of each id where owners have lists of their own."""
    crib = request.api.crib
    names = crib.catalog.view(("*",)).names
    own = (tool for tool in crib.registry.tools_of(source) if names.get(tool.id) is tool)
    return [tool for tool in own if tool.metadata.get("listed", True)]


def _named(request: ApiRequest, name: str) -> ApiReply:
    return json_reply(next(form for form in _forms(request) if form.name == name))


def _tested(test: SourceTest) -> ApiReply:
    return json_reply(SourceTestForm(*test))


async def sources(request: ApiRequest) -> ApiReply:
    """All sources."""
    forms, seconds = _forms(request), request.query.seconds
    if seconds is not None:
        recent = await counted(request, StatsQuery(seconds=seconds, by="source"))
        numbers = {group.name: group for group in recent.groups}
        names, failed = sources_of(request), dict[str, LastCall]()
        where = WalkFilter("ended", states=("done",), codes=CODES, since=recent.since)
        for call in await last_calls(request, where, LAST_FAILURES):
            failed.setdefault(names.get(call.tool, ""), call)
        for form in forms:
            form.recent = _recent(numbers.get(form.name), failed.get(form.name))
    return json_reply(SourceList(forms))


def _recent(numbers: NumbersOf | None, last_failure: LastCall | None) -> SourceCalls:
    if numbers is None:
        return SourceCalls(0, 0)
    failures = sum(numbers.failures.values())
    return SourceCalls(numbers.calls, failures, numbers.p50_ms, numbers.p95_ms, last_failure if failures else None)


async def add(request: ApiRequest) -> ApiReply:
    """Tests a source and adds it."""
    body = request.body
    await _sources(request).add(_entry(body), by=request.principal.name, check=body.check)
    return _named(request, body.name)._replace(status=201)


async def test_new(request: ApiRequest) -> ApiReply:
    """Tests a source that is not there."""
    return _tested(await _sources(request).test(_entry(request.body)))


async def test(request: ApiRequest) -> ApiReply:
    """Tests a source that is there: one that was added by a start of its own, any other by listing its tools."""
    managed, name = _sources(request), request.path[0]
    managed.check_name(name)
    added = managed.added.get(name)
    if added is not None and added.entry is not None:
        return _tested(await managed.test(added.entry))
    source = _running(request, name)
    try:
        await source.refresh()
    except (ToolFailure, ToolcribError) as error:
        return _tested(SourceTest(ok=False, problem=str(error), tools=[]))
    health = source.health_of(None)
    tools = [tool.id for tool in _shown(request, source)]
    return _tested(SourceTest(health.status != "unavailable", health.reason, tools))


def _running(request: ApiRequest, name: str) -> Source:
    """The source of that name that is in use.

    Raises:
        Refused, ApiError: there is none, or it is disabled.
    """
    _sources(request).check_name(name)
    for source in request.api.crib.registry.sources:
        if source.name == name:
            return source
    raise ApiError("conflict", f"The source '{name}' is disabled", "enable it first")


async def refresh(request: ApiRequest) -> ApiReply:
    """Lists the tools of a source anew."""
    source = _running(request, request.path[0])
    await source.refresh()
    return _named(request, source.name)


async def disable(request: ApiRequest) -> ApiReply:
    """Takes the tools of a source away until it is enabled."""
    await _sources(request).switch(request.path[0], enabled=False, by=request.principal.name)
    return _named(request, request.path[0])


async def enable(request: ApiRequest) -> ApiReply:
    """Starts a source that was disabled."""
    await _sources(request).switch(request.path[0], enabled=True, by=request.principal.name)
    return _named(request, request.path[0])


class RemovedSource(Struct):
    """The name of a source that is not there any more."""

    name: str


async def remove(request: ApiRequest) -> ApiReply:
    """Removes a source that was added."""
    await _sources(request).remove(request.path[0], by=request.principal.name)
    return json_reply(RemovedSource(request.path[0]))


ROUTES = [
    Route(
        "GET",
        "/v1/sources",
        sources,
        "The sources of tools, and how they are.",
        "admin",
        query=SourcesQuery,
        gives={200: SourceList},
    ),
    Route(
        "POST",
        "/v1/sources",
        add,
        "Adds an MCP server or an OpenAPI document, for every process over the store and beyond a restart. It is "
        "tested first, and nothing is left behind where that fails.",
        "admin",
        body=NewSource,
        demands=SHAPES,
        gives={201: SourceDetails},
    ),
    Route(
        "POST",
        "/v1/source-tests",
        test_new,
        "Starts a source apart from the others, lists its tools and stops it.",
        "admin",
        body=SourceEntry,
        demands=SHAPES,
        gives={200: SourceTestForm},
    ),
    Route(
        "POST",
        "/v1/sources/{source}/test",
        test,
        "Whether a source answers, and with which tools.",
        "admin",
        gives={200: SourceTestForm},
    ),
    Route(
        "POST",
        "/v1/sources/{source}/refresh",
        refresh,
        "Lists the tools of a source anew.",
        "admin",
        gives={200: SourceDetails},
    ),
    Route(
        "POST",
        "/v1/sources/{source}/disable",
        disable,
        "Takes the tools of a source away until it is enabled; calls that it works on go on to their end.",
        "admin",
        gives={200: SourceDetails},
    ),
    Route(
        "POST",
        "/v1/sources/{source}/enable",
        enable,
        "Starts a source that was disabled.",
        "admin",
        gives={200: SourceDetails},
    ),
    Route(
        "DELETE",
        "/v1/sources/{source}",
        remove,
        "Removes a source that was added; calls that it works on go on to their end.",
        "admin",
        gives={200: RemovedSource},
    ),
]

"""All routes of the API."""

from __future__ import annotations

from toolcrib.serve.api import (
    accounts,
    admin,
    agents,
    audit,
    call_list,
    calls,
    client_tools,
    events,
    keys,
    live_events,
    mcp_servers,
    policy,
    prompts,
    questions,
    schedules,
    server_info,
    sessions,
    sources,
    statistics,
    tools,
    transfer,
    views,
)
from toolcrib.serve.api.router import Route
from toolcrib.serve.frontends import a2a, agui, aisdk

ROUTES: tuple[Route, ...] = (
    *server_info.ROUTES,
    *tools.ROUTES,
    *client_tools.ROUTES,
    *sessions.ROUTES,
    *transfer.ROUTES,
    *views.ROUTES,
    *prompts.ROUTES,
    *calls.ROUTES,
    *call_list.ROUTES,
    *events.ROUTES,
    *live_events.ROUTES,
    *questions.ROUTES,
    *schedules.ROUTES,
    *agents.ROUTES,
    *statistics.ROUTES,
    *policy.ROUTES,
    *admin.ROUTES,
    *mcp_servers.ROUTES,
    *sources.ROUTES,
    *audit.ROUTES,
    *keys.ROUTES,
    *accounts.ROUTES,
    *a2a.ROUTES,
    *agui.ROUTES,
    *aisdk.ROUTES,
)

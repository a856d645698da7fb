"""All routes of the API."""

from __future__ import annotations

from toolcrib.serve.api import (
    about,
    admin,
    agents,
    audit,
    calls,
    events,
    keys,
    listing,
    live,
    questions,
    sessions,
    tools,
    transfer,
    views,
)
from toolcrib.serve.api.routing import Route
from toolcrib.serve.fronts import a2a, agui, aisdk

ROUTES: tuple[Route, ...] = (
    *about.ROUTES,
    *tools.ROUTES,
    *sessions.ROUTES,
    *transfer.ROUTES,
    *views.ROUTES,
    *calls.ROUTES,
    *listing.ROUTES,
    *events.ROUTES,
    *live.ROUTES,
    *questions.ROUTES,
    *agents.ROUTES,
    *admin.ROUTES,
    *audit.ROUTES,
    *keys.ROUTES,
    *a2a.ROUTES,
    *agui.ROUTES,
    *aisdk.ROUTES,
)

"""Scheduled calls over HTTP: listed, made and cancelled."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from toolcrib._call import schedules
from toolcrib._call.request import CallOptions
from toolcrib.errors import Refused
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.pages import Moment, Name, Text, owner_of
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.store.codec import decode
from toolcrib.types import By, Missed, Schedule, ScheduleEntry

Some = Annotated[str, Meta(min_length=1, max_length=1000)]


class NewSchedule(Struct, forbid_unknown_fields=True):
    """A call to make later in a session: `after` so many seconds, `at` a time, `when` a call has ended, or by `cron`.

    Times are in seconds since 1970. `missed` says what becomes of runs that nothing was there to make.
    """

    session: Name
    tool: Some
    args: Raw | UnsetType = UNSET
    after: Annotated[float, Meta(ge=0, le=4e9)] | None = None
    at: Moment | None = None
    when: Some | None = None
    cron: Text | None = None
    timezone: Text = "UTC"
    missed: Missed = "once"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    label: Text = ""
    key: Some | None = None


class ScheduleForm(Struct, omit_defaults=True):
    """A call that waits for its time. `call` comes next; `due` is absent where it waits for another call."""

    id: str
    call: str
    session: str
    tool: str
    args: Any
    due: float | None = None
    when: str | None = None
    cron: str | None = None
    timezone: str = "UTC"
    missed: Missed = "once"
    limit: int = 100
    label: str = ""


class ScheduleList(Struct):
    """All that wait, the first due first."""

    items: list[ScheduleForm]


class SchedulesQuery(Struct, forbid_unknown_fields=True):
    """Of which session, or of whom; those of others are for who looks after all."""

    session: Name | None = None
    owner: Name | None = None


class ScheduleCancelled(Struct):
    """Whether there was something to cancel."""

    id: str
    cancelled: bool


def _form(one: ScheduleEntry) -> ScheduleForm:
    fields = {name: getattr(one, name) for name in ScheduleForm.__struct_fields__}
    return ScheduleForm(**fields)


async def listing(request: ApiRequest) -> ApiReply:
    """The calls that wait for their time."""
    api, query, principal = request.api, request.query, request.principal
    if query.session is not None:
        session = await api.sessions.of(query.session, principal)
        return json_reply(ScheduleList([_form(one) for one in await session.schedules()]))
    seen: dict[str, bool] = {}
    shown = []
    for one in await api.crib.schedules(owner_of(request, query.owner)):
        if one.session not in seen:
            row = await api.crib.store.session(one.session)
            seen[one.session] = row is not None and await api.sessions.sees(row, principal)
        if seen[one.session]:
            shown.append(_form(one))
    return json_reply(ScheduleList(shown))


async def make(request: ApiRequest) -> ApiReply:
    """Accepts a call that is made later."""
    body = request.body
    session = await request.api.sessions.of(body.session, request.principal)
    args = {} if body.args is UNSET else decode(bytes(body.args))
    names = ("after", "at", "when", "cron", "timezone", "missed", "limit", "label")
    try:
        wanted = Schedule(body.tool, args, **{name: getattr(body, name) for name in names})
    except ValueError as error:
        raise ApiError("invalid_arguments", str(error)) from None
    by = By("user", request.principal.name)
    options = CallOptions(by=by, label=body.label, key=body.key, background=True)
    return json_reply(_form(await schedules.made(session, wanted, options)), 201)


async def cancel(request: ApiRequest) -> ApiReply:
    """Ends a schedule."""
    id = request.path[0]
    api = request.api
    call = await api.crib.store.call(id)
    row = None if call is None else await api.crib.store.session(call.session)
    if call is None or row is None or not await api.sessions.sees(row, request.principal):
        # Somebody else's is as unknown as one that never was.
        raise Refused("not_found", f"No such schedule: {id}")
    session = await api.sessions.of(call.session, request.principal)
    return json_reply(ScheduleCancelled(id, await session.cancel_schedule(id)))


ROUTES = [
    Route(
        "GET",
        "/v1/schedules",
        listing,
        "Calls that wait for their time, the first due first: your own, of one session, or with `admin` all.",
        "read",
        query=SchedulesQuery,
        gives={200: ScheduleList},
    ),
    Route(
        "POST",
        "/v1/schedules",
        make,
        "Makes a call later, once or by a cron expression. It is looked at now, and again with the rights of the "
        "session when its time has come.",
        "call",
        body=NewSchedule,
        gives={201: ScheduleForm},
    ),
    Route(
        "DELETE",
        "/v1/schedules/{schedule}",
        cancel,
        "Cancels a schedule: it makes no more calls, and what it has made goes on.",
        "call",
        gives={200: ScheduleCancelled},
    ),
]

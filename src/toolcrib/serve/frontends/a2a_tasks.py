"""Tasks of A2A: runs of agents, folded from the log one at a time or all that somebody has, by pages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from toolcrib.events import Event
from toolcrib.origins.passages import origins_of
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.api.pages import AT, Text, place, time_and_id
from toolcrib.serve.api.request import ApiRequest
from toolcrib.serve.frontends.conversation import agents_of, session_of
from toolcrib.session import Session

KEY = "a2a:"
"""Before the id that another agent gave to its message, where it is the key of ours."""
STATES = {"answered": "COMPLETED", "cancelled": "CANCELED", "interrupted": "CANCELED"}
FAILURES = "toolcrib/failures"
"""The field of a task's metadata with calls that failed for a reason of their tool's own."""

CONTEXTS = 50
"""So many contexts, the last used ones, are looked through by who names none."""


class Task:
    """A run as a task, folded from its events."""

    def __init__(self, session: str, run: str) -> None:
        self.id = f"{run}@{session}"
        self.ids = {"taskId": self.id, "contextId": session}
        self.run = run
        self.context = session
        self.state = "WORKING"
        self.status_parts: list[dict[str, Any]] | None = None
        self.at = 0.0
        self.artifacts: dict[str, str] = {}
        self.history: list[dict[str, Any]] = []
        self.questions: dict[str, dict[str, Any]] = {}
        self.wanted: list[dict[str, Any]] = []
        self._calls: set[str] = set()
        self.reasons: list[dict[str, str]] = []

    def take(self, event: Event) -> None:
        """Takes what an event of the run says."""
        data, kind = event.fields, event.kind
        if kind == "waiting":
            self.questions[data["question"]["id"]] = data["question"]
        elif kind == "answered":
            self.questions.pop(data["question"], None)
        elif kind == "done" and event.call in self._calls:
            self._end(event.call, data.get("failure") or {})
        elif data.get("run") != self.run:
            return
        elif kind == "accepted" and event.call is not None:
            self._calls.add(event.call)
        elif kind == "message" and data["role"] in ("user", "assistant") and data.get("content"):
            role = "ROLE_USER" if data["role"] == "user" else "ROLE_AGENT"
            parts = [{"text": data["content"]}]
            key = str(data.get("key", ""))
            id = key.removeprefix(KEY) if key.startswith(KEY) else f"m{event.seq}"
            self.history.append({"messageId": id, "role": role, "parts": parts, **self.ids})
            if role == "ROLE_AGENT":
                self.artifacts[f"turn-{data['turn']}"] = data["content"]
        elif kind in ("run_started", "run_resumed", "run_waiting", "run_finished"):
            self._turn(kind, data)
        if data.get("run") == self.run:
            self.at = event.at

    def _end(self, call: str, failure: Mapping[str, Any]) -> None:
        """Take the end of a call of the run; its failure becomes part of the status."""
        if failure.get("reason") is not None:
            self.reasons.append({"call": call, "code": failure["code"], "reason": failure["reason"]})

    def _turn(self, kind: str, data: Mapping[str, Any]) -> None:
        self.status_parts, self.wanted = None, []
        if kind == "run_waiting":
            self.state = "INPUT_REQUIRED"
            self.wanted = [self.questions[id] for id in data["questions"] if id in self.questions]
            self.status_parts = [part for question in self.wanted for part in _question_parts(question)]
        elif kind == "run_finished":
            self.state = STATES.get(data["reason"], "FAILED")
            if self.state == "FAILED":
                self.status_parts = [{"text": data.get("detail") or f"The run ended: {data['reason']}"}]
        else:
            self.state = "WORKING"

    @property
    def changed(self) -> datetime:
        """When something happened to it last, as it is told."""
        return datetime.fromtimestamp(self.at, UTC)

    def status(self) -> dict[str, Any]:
        """Where it stands."""
        at = self.changed.isoformat().replace("+00:00", "Z")
        data: dict[str, Any] = {"state": f"TASK_STATE_{self.state}", "timestamp": at}
        if self.status_parts:
            data["message"] = {
                "messageId": f"{self.id}-status",
                "role": "ROLE_AGENT",
                "parts": self.status_parts,
                **self.ids,
            }
        return data

    def form(self, history: int | None = None) -> dict[str, Any]:
        """All of it."""
        shown = self.history if history is None else self.history[-history:] if history else []
        artifacts = [{"artifactId": id, "name": id, "parts": [{"text": text}]} for id, text in self.artifacts.items()]
        form = {
            "id": self.id,
            "contextId": self.context,
            "status": self.status(),
            "artifacts": artifacts,
            "history": shown,
        }
        return {**form, "metadata": {FAILURES: self.reasons}} if self.reasons else form


def _question_parts(question: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = ("id", "kind", "tool", "arguments", "schema")
    fields = {name: question[name] for name in names if question.get(name) is not None}
    if origins := origins_of(question.get("data")):
        fields["origins"] = origins
    return [{"text": question["prompt"]}, {"data": {"question": fields}}]


# All of them


TaskState = Literal[
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]


class TaskQuery(Struct, rename="camel"):
    """Which tasks to list, and how many at a time."""

    context_id: Text = ""
    status: TaskState | None = None
    page_size: Annotated[int, Meta(ge=1, le=100)] | None = None
    page_token: Annotated[str, Meta(pattern=rf"^({AT}:.{{1,255}})?$")] = ""
    status_timestamp_after: datetime | None = None
    include_artifacts: bool | None = None

    def fits(self, task: Task) -> bool:
        """True if a task is one of them."""
        if self.status not in (None, "TASK_STATE_UNSPECIFIED", f"TASK_STATE_{task.state}"):
            return False
        since = self.status_timestamp_after
        return since is None or task.changed >= (since if since.tzinfo else since.replace(tzinfo=UTC))


async def listed(request: ApiRequest, params: Mapping[str, Any], history: int | None) -> dict[str, Any]:
    """Tasks of whoever asks, the last changed first. The place in a token is a time and the id of a task, and is looked
    for among their own alone: what others have is not in any page.

    Raises:
        ApiError: the parameters are invalid, or there is no such context of theirs.
    """
    try:
        wanted = msgspec.convert({name: value for name, value in params.items() if value is not None}, TaskQuery)
    except msgspec.ValidationError as error:
        raise ApiError("invalid_arguments", f"The parameters do not fit: {error}") from None
    last = time_and_id(wanted.page_token or None)
    agents_of(request.api, request.path[0])
    tasks = [task for session in await _sessions(request, wanted.context_id) for task in await _tasks(session)]
    matches = sorted((task for task in tasks if wanted.fits(task)), key=_place, reverse=True)
    size = wanted.page_size or 50
    rest = [task for task in matches if last is None or _place(task) < last]
    forms = [task.form(history) for task in rest[:size]]
    for form in forms if not wanted.include_artifacts else ():
        del form["artifacts"]
    token = place(*_place(rest[size - 1])) if len(rest) > size else ""
    return {"tasks": forms, "nextPageToken": token, "pageSize": size, "totalSize": len(matches)}


def _place(task: Task) -> tuple[float, str]:
    return task.at, task.id


async def _sessions(request: ApiRequest, context: str) -> list[Session]:
    """One context, or those of whoever asks that they may still use."""
    cache, principal = request.api.sessions, request.principal
    if context:
        return [await cache.of(await session_of(request.api, principal, context), principal)]
    sessions = []
    for row in await request.api.crib.store.sessions(principal.name, limit=CONTEXTS):
        try:
            sessions.append(await cache.of(row.id, principal))
        except ApiError:
            continue
    return sessions


async def _tasks(session: Session) -> list[Task]:
    """The runs of a session that nobody made within another."""
    tasks: dict[str, Task] = {}
    rest = Task(session.id, "")
    async for event in session.events(follow=False):
        run = event.fields.get("run", "")
        if event.kind == "run_started" and "parent" not in event.fields:
            tasks[run] = Task(session.id, run)
            tasks[run].questions = rest.questions  # they are told of once, whatever asks them
        (rest if event.kind in ("waiting", "answered") else tasks.get(run, rest)).take(event)
    return list(tasks.values())

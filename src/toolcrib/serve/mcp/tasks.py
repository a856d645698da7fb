"""Tasks: calls of the log by names that cannot be guessed. There is nothing to keep beside the call itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from toolcrib._call.history import History, result
from toolcrib.errors import Refused
from toolcrib.serve.mcp.content import told_by_server, tool_result
from toolcrib.serve.mcp.questions import give, open_questions, requests
from toolcrib.serve.mcp.request import McpReply, McpRequest, lacking
from toolcrib.serve.mcp.sessions import McpSessions
from toolcrib.serve.mcp.settings import McpServerSettings
from toolcrib.serve.mcp.signed_state import Signer
from toolcrib.serve.mcp.whole_results import is_partial, make_whole
from toolcrib.serve.mcp.wire import INTERNAL, INVALID_PARAMS, TASKS, ProtocolError, decode, encode
from toolcrib.serve.principal import Principal
from toolcrib.session import Session
from toolcrib.store import Row

_BROKEN = ("internal", "unknown")
"""Failures that say nothing of what the tool did: the task failed, not the tool."""


class Tasks:
    """Shows calls as tasks, and lets their owners answer and cancel them."""

    def __init__(self, sessions: McpSessions, seal: Signer, settings: McpServerSettings) -> None:
        self._sessions = sessions
        self._seal = seal
        self._settings = settings

    def owns(self, session: Session, principal: Principal) -> bool:
        """True if a principal may see the calls of a session."""
        return self._sessions.owns(session, principal)

    async def created(self, session: Session, call: str) -> McpReply:
        """The answer that a call goes on as a task, once it is durable."""
        await session.crib.store.flush()
        history = await session._history(await session._row(call))
        return McpReply(encode(self._described(session, history, "working")), b"task")

    async def get(self, request: McpRequest) -> McpReply:
        """Where a task stands, with its result, error or questions."""
        session, row = await self._mine(request)
        return McpReply(encode(await self.detailed(session, row, request.capabilities)))

    async def update(self, request: McpRequest) -> McpReply:
        """Takes responses; what nobody asked for is ignored."""
        session, row = await self._mine(request)
        responses = request.params.input_responses
        if isinstance(responses, dict) and responses:
            opened = await open_questions(session, row.id, request.capabilities, request.principal)
            await give(session, opened, responses, request.principal.name)
        return McpReply(b"{}")

    async def cancel(self, request: McpRequest) -> McpReply:
        """Asks a task to stop; one that has ended stays as it is."""
        session, row = await self._mine(request)
        try:
            await session.cancel(row.id)
        except Refused as refused:
            raise ProtocolError(INTERNAL, refused.message) from None
        return McpReply(b"{}")

    async def _mine(self, request: McpRequest) -> tuple[Session, Row]:
        if not request.knows_tasks:
            raise lacking(extension=TASKS)
        task = request.needs("task_id")
        place = await self._sessions.task(task, request.principal)
        if place is None:
            raise ProtocolError(INVALID_PARAMS, "There is no such task", {"taskId": task})
        return place

    async def detailed(self, session: Session, row: Row, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """A task as its owner sees it."""
        history = await session._history(row)
        if history.done is not None:
            return await self._ended(session, history)
        opened = await open_questions(session, row.id, capabilities)
        if not opened:
            return self._described(session, history, "working")
        shown = self._described(session, history, "input_required")
        return shown | {"inputRequests": requests(opened), "statusMessage": opened[0].question.prompt}

    async def _ended(self, session: Session, history: History) -> dict[str, Any]:
        assert history.done is not None
        outcome = result(history.done)
        code = None if outcome.failure is None else outcome.failure.code
        if code == "cancelled":
            return self._described(session, history, "cancelled")
        error = told_by_server(outcome).get("protocol_error") if outcome.failure is not None else None
        if code in _BROKEN or error is not None:
            shown = self._described(session, history, "failed")
            return shown | {"error": error or {"code": INTERNAL, "message": str(outcome.failure)}}
        tool = session._view.names.get(history.accepted.tool)
        if is_partial(outcome):
            outcome = await make_whole(session, outcome)
        shown = self._described(session, history, "completed")
        return shown | {"result": {"resultType": "complete", **decode(tool_result(outcome, tool, modern=True))}}

    def _described(self, session: Session, history: History, status: str) -> dict[str, Any]:
        retention = session.crib.retention
        asked_at = 0.0 if history.question is None else history.question.asked_at
        changed = max(history.accepted_at, history.started_at or 0.0, history.done_at or 0.0, asked_at)
        return {
            "taskId": self._seal.name(history.id, session.owner),
            "status": status,
            "createdAt": _time(history.accepted_at),
            "lastUpdatedAt": _time(changed),
            "ttlMs": None if retention is None else int(retention.total_seconds() * 1000),
            "pollIntervalMs": self._settings.poll_ms,
        }


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""What a running call tells a client: progress, where it gave a token, and log lines, where it asked for them."""

from __future__ import annotations

from toolcrib.events import Event
from toolcrib.serve.mcp.request import McpRequest
from toolcrib.serve.mcp.wire import notification

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_STEP = 1e-6
"""What has no number of its own is told as this much more: a number of progress never comes twice."""


class CallNotifications:
    """Turns events of a call into notifications. Numbers of progress rise strictly, and end with the call."""

    def __init__(self, request: McpRequest) -> None:
        self._request = request
        self._token = request.token
        self._at: float | None = None

    async def tell(self, event: Event) -> None:
        """Tells of an event what the client wants to know."""
        if event.kind in ("progress", "output"):
            if self._token is not None:
                await self._progress(event)
        elif event.kind == "activity" and event.fields.get("type") == "log" and self._request.level is not None:
            await self._log(event)

    async def _progress(self, event: Event) -> None:
        shown = event.fields
        message = shown.get("message") if event.kind == "progress" else _text(event)
        value, total = (shown["loaded"], shown.get("total")) if "loaded" in shown else (shown.get("progress"), 1.0)
        if not isinstance(value, int | float) or (self._at is not None and value <= self._at):
            if message is None:
                return
            value, total = (0 if self._at is None else self._at + _STEP), None
        self._at = value
        params = {"progressToken": self._token, "progress": value, "total": total, "message": message}
        fields = {name: param for name, param in params.items() if param is not None}
        await self._request.send(notification("notifications/progress", fields), event.seq)

    async def _log(self, event: Event) -> None:
        """An activity of type `log` is a line: a text, or `{"level": ..., "data": ..., "logger": ...}`."""
        content = event.fields.get("content")
        line = content if isinstance(content, dict) and "data" in content else {"data": content}
        level = line.get("level", "info")
        wanted = self._request.level
        if level not in LEVELS or wanted not in LEVELS or LEVELS.index(level) < LEVELS.index(wanted):
            return
        params = {"level": level, "data": line["data"]}
        if "logger" in line:
            params["logger"] = line["logger"]
        await self._request.send(notification("notifications/message", params), event.seq)


def _text(event: Event) -> str | None:
    piece = event.fields.get("delta", event.fields.get("value"))
    return piece if isinstance(piece, str) else None

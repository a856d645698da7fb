"""Pages and services of the web, by addresses that a model chooses.

`http_fetch` reads; `http_request` may change something, and the policy asks. Where both may go is said by grants
(`net:egress:<host>`); inner addresses are refused unless a grant names them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib.context import Context
from toolcrib.errors import BadTool, ToolFailure
from toolcrib.extras import install
from toolcrib.http import Client, Request, Resolve, Response, Unanswered, resolve
from toolcrib.http.message import SAFE
from toolcrib.schema.redaction import without
from toolcrib.toolkits.collection import Toolkit, kit
from toolcrib.toolkits.egress import WebEgress, WebSettings
from toolcrib.toolkits.grants import GrantGuard
from toolcrib.toolkits.markdown import markdown
from toolcrib.types import AntiPattern, Example

_SPARE_S = 5.0
"""The pipeline's own clock comes after the one here, which knows whether the request was sent."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONFIGURED = frozenset({"authorization", "cookie", "proxy-authorization"})
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"})
_TEXT = re.compile(r"text/.*|application/(?:.*[+.-])?(?:json|xml|javascript|yaml|x-ndjson|x-www-form-urlencoded)")
_MISTAKES = [
    AntiPattern("Address not allowed", "It lies inside this network. Only an operator can open it; do not try others."),
    AntiPattern("Port", "Leave the port out: http uses 80 and https 443."),
    AntiPattern("user name or a password", "Write the URL without what stands before the @."),
    AntiPattern("cannot be shown as text", "It is a picture, a program or an archive. Look for a page about it."),
    AntiPattern("is not known", "Check the spelling of the host; use addresses that you found, not ones you guess."),
]

Url = Annotated[str, Field(min_length=1, max_length=8000)]


def tools(  # noqa: PLR0913 - the settings of the toolkit
    *,
    ports: Iterable[int] = (),
    allow_hosts: Iterable[str] | None = None,
    deny_hosts: Iterable[str] = (),
    headers: Mapping[str, Mapping[str, str]] | None = None,
    most: int = 2 * 1024 * 1024,
    connect_s: float = 10.0,
    total_s: float = 30.0,
    resolve: Resolve = resolve,
) -> Toolkit:
    """`http_fetch` and `http_request`.

    `ports` are allowed beside 80 and 443. `headers` are added for single hosts and never shown: `{"api.example.com":
    {"Authorization": "..."}}`. `resolve` gives the addresses of a host.

    Raises:
        BadTool: httpx is not installed, or a setting does not hold.
    """
    try:
        import httpx  # noqa: F401 - fails here, and not in the first call
    except ImportError:
        raise BadTool("http", "toolkit", f"needs httpx: {install('http')}") from None
    try:
        settings = WebSettings(ports, allow_hosts, deny_hosts, headers or {})
    except ValueError as error:
        raise BadTool("http", "settings", str(error)) from None
    client = Client(resolve=resolve, largest=most, connect_s=connect_s, redirects=3)
    web = _Web(client, settings, total_s)
    shared: dict[str, Any] = {
        "capabilities": ("net:egress:{url}",),
        "open_world": True,
        "timeout": total_s + _SPARE_S,
        "anti_patterns": _MISTAKES,
    }
    return kit("http", [(web.http_fetch, {**shared, **_FETCH}), (web.http_request, {**shared, **_REQUEST})])


_FETCH: dict[str, Any] = {
    "read_only": True,
    "examples": [
        Example({"url": "https://example.com/"}, "A page as markdown"),
        Example({"url": "https://example.com/", "start": 5000}, "What comes after the first 5000 characters"),
    ],
}
_REQUEST: dict[str, Any] = {
    "effect": "once",
    "destructive": True,
    "examples": [
        Example(
            {
                "method": "POST",
                "url": "https://example.com/items",
                "headers": {"Content-Type": "application/json"},
                "body": '{"name": "x"}',
            },
            "Send JSON",
        )
    ],
}


class _Web:
    """The tools and the client that they share."""

    def __init__(self, client: Client, settings: WebSettings, total_s: float) -> None:
        self._client, self._settings, self._total_s = client, settings, total_s

    async def http_fetch(
        self,
        ctx: Context,
        url: Url,
        start: Annotated[int, Field(ge=0)] = 0,
        max_chars: Annotated[int, Field(ge=1, le=100_000)] = 5000,
        raw: bool = False,
    ) -> dict[str, Any]:
        """Read a web page, or a text or JSON from the web. Pages are given as markdown.

        Args:
            url: The address, with http:// or https://.
            start: The first character to give; `next_start` of the last answer goes on where it ended.
            max_chars: How many characters to give at the most.
            raw: Give a page as HTML and not as markdown.
        """
        return await self._shown(await self._send(ctx, Request.to(url)), start, max_chars, raw)

    async def http_request(
        self,
        ctx: Context,
        method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
        url: Url,
        headers: dict[str, str] | None = None,
        body: str | None = None,
    ) -> dict[str, Any]:
        """Send a request that may change something at a web service. To read a page, use http_fetch.

        Args:
            method: What to do.
            url: The address, with http:// or https://.
            headers: Headers to send; those that prove who asks are added by the operator.
            body: What to send.
        """
        content = None if body is None else body.encode(errors="replace")
        request = Request.to(url, method, _headers(headers or {}), content)
        return await self._shown(await self._send(ctx, request), 0, 100_000, raw=True)

    async def _send(self, ctx: Context, request: Request) -> Response:
        try:
            return await self._client.send(request, WebEgress(self._settings, GrantGuard(ctx)), total_s=self._total_s)
        except Unanswered as error:
            if not error.sent or request.method in SAFE:
                raise ToolFailure(error.code, error.message) from None
            raise ToolFailure(
                "unknown",
                f"{error.message}; the request was sent and may have been carried out",
                hint="Find out whether it happened before asking again.",
                retryable=False,
            ) from None

    async def _shown(self, answer: Response, start: int, most: int, raw: bool) -> dict[str, Any]:
        """Return a piece of a response without the texts that nobody may see."""
        kind = answer.content_type
        if answer.body and (b"\0" in answer.body[:4096] or not (kind == "" or _TEXT.fullmatch(kind))):
            raise ToolFailure("failed", f"The answer ({kind or 'no type'}) cannot be shown as text")
        text = answer.text
        if not raw and kind in ("text/html", "application/xhtml+xml"):
            text = await asyncio.to_thread(markdown, text, answer.url)
        text = without(self._settings.masks, text)
        shown = {"url": answer.url, "status": answer.status, "content_type": kind, "text": text[start : start + most]}
        return {**shown, "next_start": start + most} if start + most < len(text) else shown


def _headers(values: Mapping[str, str]) -> dict[str, str]:
    for name, value in values.items():
        if name.lower() in _CONFIGURED:
            raise ToolFailure("denied", f"The header {name} is set by the operator alone")
        if not _NAME.fullmatch(name) or name.lower() in _OURS or name.lower().startswith("proxy-"):
            raise ToolFailure("invalid_arguments", f"The header {name[:60]!r} cannot be set")
        if not (value.isascii() and (value.isprintable() or not value)):
            raise ToolFailure("invalid_arguments", f"The header {name} holds a character that it cannot")
    return dict(values)

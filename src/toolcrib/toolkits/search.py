"""Search: the web by Brave Search, and a folder of documentation by words."""

from __future__ import annotations

import asyncio
import html
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from pydantic import Field

from toolcrib.errors import BadTool, ToolFailure
from toolcrib.extras import install
from toolcrib.http import Anywhere, Client, Request, Response, Unanswered
from toolcrib.policy import urls
from toolcrib.policy.errors import UnfitArgument
from toolcrib.schema.redaction import without
from toolcrib.toolkits.collection import FunctionEntry, Toolkit, kit
from toolcrib.toolkits.document_index import Documents
from toolcrib.toolkits.egress import masks_of
from toolcrib.types import AntiPattern, Example, Result, block

BRAVE = "https://api.search.brave.com"
_PATH = "/res/v1/web/search"
_TRIES = 3
_PATIENCE_S = 5.0
_WORDS = 50
_FRESH = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
_SPAN = r"day|week|month|year|\d{4}-\d{2}-\d{2}to\d{4}-\d{2}-\d{2}"

Query = Annotated[str, Field(min_length=1, max_length=400)]


def tools(
    key: str | None = None, *, url: str = BRAVE, docs: str | os.PathLike[str] | None = None, timeout: float = 30.0
) -> Toolkit:
    """`brave_search`, which is offered to a model only with a key; with a folder `docs` also `search_docs`.

    Raises:
        BadTool: httpx is not installed, the address is none, or there is no such folder.
    """
    try:
        import httpx  # noqa: F401 - fails here, and not in the first call
    except ImportError:
        raise BadTool("search", "toolkit", f"needs httpx: {install('http')}") from None
    try:
        urls.canonical(url)
    except UnfitArgument as problem:
        raise BadTool("search", "url", str(problem)) from None
    brave = _Brave(key, url.rstrip("/"), timeout)
    data: dict[str, Any] = {
        "read_only": True,
        "open_world": True,
        "timeout": timeout * _TRIES + 3 * _PATIENCE_S,
        "metadata": {"offered": key is not None},
        "examples": [
            Example({"query": "python asyncio taskgroup", "count": 5}),
            Example({"query": "uniswap v4 release", "freshness": "month"}, "Only what is new"),
        ],
        "anti_patterns": [
            AntiPattern("50 words", "Search for the few words that matter, not for a whole text."),
            AntiPattern("BRAVE_SEARCH_API_KEY", "There is no web search here. Go on with what you know, and say so."),
        ],
    }
    functions: list[FunctionEntry] = [(brave.brave_search, data)]
    if docs is None:
        return kit("search", functions)
    documents = Documents(docs)
    functions.append((documents.search_docs, {"read_only": True, "timeout": 30, **Documents.DATA}))
    return kit("search", functions, documents.close)


class _Brave:
    """The tool, with its account. One request is made at a time, as the service allows."""

    def __init__(self, key: str | None, url: str, timeout: float) -> None:
        self._key, self._url = key, url
        self._headers = {} if key is None else {"X-Subscription-Token": key, "Accept": "application/json"}
        self._masks = masks_of([self._headers])
        self._client, self._timeout = Client(largest=2 * 1024 * 1024, connect_s=10.0, redirects=0), timeout
        self._turn: asyncio.Lock | None = None
        self._wait_s = 0.0

    async def brave_search(  # noqa: PLR0913 - the arguments of the tool
        self,
        query: Query,
        count: Annotated[int, Field(ge=1, le=20)] = 10,
        offset: Annotated[int, Field(ge=0, le=9)] = 0,
        lang: Annotated[str | None, Field(max_length=10)] = None,
        country: Annotated[str | None, Field(max_length=3)] = None,
        safesearch: Literal["strict", "moderate", "off"] | None = None,
        freshness: Annotated[str | None, Field(pattern=f"^(?:{_SPAN})$")] = None,
    ) -> Result:
        """Search the web, and give titles, addresses and descriptions of what was found.

        Args:
            query: What to look for: 400 characters and 50 words at the most.
            count: How many results.
            offset: Which page of results, from 0.
            lang: The language of the results, such as en.
            country: The country to search from, such as US.
            safesearch: How much to leave out.
            freshness: Only what is as new as day, week, month or year, or 2026-01-01to2026-01-31.
        """
        if self._key is None:
            raise ToolFailure("unavailable", "BRAVE_SEARCH_API_KEY is not set", retryable=False)
        if len(query.split()) > _WORDS:
            raise ToolFailure("invalid_arguments", f"query: it has more than {_WORDS} words")
        params = {"q": query, "count": count, "offset": offset, "search_lang": lang, "country": country}
        params |= {"safesearch": safesearch, "freshness": _FRESH.get(freshness or "", freshness)}
        encoded = urlencode({name: value for name, value in params.items() if value is not None})
        return _result(await self._ask(f"{self._url}{_PATH}?{encoded}"))

    async def _ask(self, url: str) -> dict[str, Any]:
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            for left in range(_TRIES - 1, -1, -1):
                await asyncio.sleep(self._wait_s)
                self._wait_s = 0.0
                answer = await self._send(url)
                second, month = _numbers(answer, "remaining")
                if second == 0:
                    self._wait_s = min(_numbers(answer, "reset")[0] or 1, _PATIENCE_S)
                if answer.status != 429 or month == 0 or not left:
                    return self._read(answer, month)
        raise AssertionError("the last try returns")

    async def _send(self, url: str) -> Response:
        try:
            request = Request.to(url, headers=self._headers)
            return await self._client.send(request, Anywhere(), total_s=self._timeout)
        except Unanswered as error:
            raise ToolFailure(error.code, error.message) from None

    def _read(self, answer: Response, month: int | None) -> dict[str, Any]:
        try:
            data = msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, RecursionError):
            data = None
        if answer.status == 200 and isinstance(data, dict):
            return data
        error = data.get("error") if isinstance(data, dict) else None
        raise self._failure(answer.status, error if isinstance(error, Mapping) else {}, month)

    def _failure(self, status: int, error: Mapping[str, Any], month: int | None) -> ToolFailure:
        code, detail = _clean(error.get("code")), _clean(error.get("detail"))
        message = without(self._masks, f"Brave Search API error {status}: {code} {detail}".strip()[:300])
        if status == 429:
            return ToolFailure("rate_limited", message, retryable=month != 0)
        if code == "VALIDATION":
            wrong = _wrong(error)
            if "token" in wrong.lower():
                return ToolFailure("unavailable", message, retryable=False)
            return ToolFailure("invalid_arguments", without(self._masks, f"{wrong or detail}"[:300]))
        if "TOKEN" in code or status in (401, 403):
            return ToolFailure("unavailable", message, retryable=False)
        return ToolFailure("unavailable" if status >= 500 or not code else "failed", message)


def _wrong(error: Mapping[str, Any]) -> str:
    """Which parameter the service does not take, and why."""
    meta = error.get("meta")
    errors = meta.get("errors") if isinstance(meta, Mapping) else None
    first = errors[0] if isinstance(errors, Sequence) and errors and isinstance(errors[0], Mapping) else {}
    place = first.get("loc")
    name = str(place[-1]) if isinstance(place, Sequence) and place else ""
    return f"{_clean(name)}: {_clean(first.get('msg'))}" if name else ""


def _numbers(answer: Response, name: str) -> tuple[int | None, int | None]:
    """The two numbers of a header: of this second, and of this month."""
    parts = answer.headers.get(f"x-ratelimit-{name}", "").split(",")
    read = [int(part) if part.strip().isdecimal() else None for part in (*parts, "", "")[:2]]
    return read[0], read[1]


def _clean(value: Any) -> str:
    """A text of the web without marks, entities and control characters."""
    plain = html.unescape(re.sub(r"</?\w+[^<>]*>", "", value)) if isinstance(value, str) else ""
    return "".join(" " if unicodedata.category(char).startswith("C") else char for char in plain).strip()


def _result(answer: Mapping[str, Any]) -> Result:
    web, query = answer.get("web"), answer.get("query")
    listed = web.get("results") if isinstance(web, Mapping) else None
    results = [_page(one) for one in listed or () if isinstance(one, Mapping)]
    more = bool(query.get("more_results_available")) if isinstance(query, Mapping) else False
    data: dict[str, Any] = {"results": results, "more": more}
    shown = [
        f"{number}. {one['title']}\n   URL: {one['url']}\n   {one['description'] or 'No description provided.'}"
        for number, one in enumerate(results, 1)
    ]
    text = f"Found {len(results)} results:\n\n" + "\n\n".join(shown) if results else "No web results found."
    if answer.get("infobox"):
        data["infobox"] = answer["infobox"]
        text += f"\n\nInfo Box:\n{msgspec.json.encode(answer['infobox']).decode()}"
    return Result(data, [block("text", text=text)])


def _page(one: Mapping[str, Any]) -> dict[str, Any]:
    page = {name: _clean(one.get(name)) for name in ("title", "url", "description")}
    return {**page, "age": _clean(one["age"])} if one.get("age") else page

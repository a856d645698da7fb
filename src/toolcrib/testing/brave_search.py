"""What Brave Search would say if the web were a folder of pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from typing import Any
from urllib.parse import quote

from toolcrib.toolkits.document_index import Documents

SHOWN, LONGEST, WORDS = 200, 400, 50
RESET_S, MONTH_S = 1, 2_592_000
_BOUNDS = {"count": (1, 20), "offset": (0, 9)}

Answered = tuple[int, Any, dict[str, str]]
"""Status, JSON and headers."""


class FakeBraveSearch:
    """`GET /res/v1/web/search`."""

    def __init__(self, docs: str | PathLike[str] | None, quota: int) -> None:
        self._documents = None if docs is None else Documents(docs)
        self._quota, self._used = quota, 0

    def close(self) -> None:
        """Forgets the pages."""
        if self._documents is not None:
            self._documents.close()

    def answer(self, query: Mapping[str, str], token: str | None, key: str, left: int) -> Answered:
        """Answer a request, of which `left` more may come in this second."""
        if token is None:
            return self._refused(
                422, "VALIDATION", left, [{"loc": ["header", "x-subscription-token"], "msg": "missing"}]
            )
        if token != key:
            return self._refused(422, "SUBSCRIPTION_TOKEN_INVALID", left)
        if left < 0 or self._used >= self._quota:
            return self._refused(429, "RATE_LIMITED", left)
        wrong = _wrong(query)
        if wrong is not None:
            return self._refused(422, "VALIDATION", left, [{"loc": ["query", wrong], "msg": "it does not hold"}])
        self._used += 1
        return 200, self._results(query), self._headers(left)

    def _results(self, params: Mapping[str, str]) -> dict[str, Any]:
        count, page = int(params.get("count", 20)), int(params.get("offset", 0))
        pages = [] if self._documents is None else self._documents.find(params["q"], (page + 1) * count + 1)
        shown = [_result(params["q"], *one[:3]) for one in pages[page * count : (page + 1) * count]]
        query = {"original": params["q"], "more_results_available": len(pages) > (page + 1) * count}
        web = {"type": "search", "results": shown, "family_friendly": True}
        return {"type": "search", "query": query, **({"web": web} if shown else {})}

    def _refused(self, status: int, code: str, left: int, errors: list[Any] | None = None) -> Answered:
        error = {"id": "00000000-0000-4000-8000-000000000000", "status": status, "code": code}
        error |= {"detail": "The request was refused", "meta": {"errors": errors or []}}
        return status, {"type": "ErrorResponse", "error": error, "time": 0}, self._headers(left)

    def _headers(self, left: int) -> dict[str, str]:
        """Two numbers each: of this second, and of this month."""
        return {
            "X-RateLimit-Limit": f"1, {self._quota}",
            "X-RateLimit-Policy": f"1;w=1, {self._quota};w={MONTH_S}",
            "X-RateLimit-Remaining": f"{max(left, 0)}, {self._quota - self._used}",
            "X-RateLimit-Reset": f"{RESET_S}, {MONTH_S}",
        }


def _wrong(query: Mapping[str, str]) -> str | None:
    """The first parameter that the service does not take."""
    if not 0 < len(query.get("q", "")) <= LONGEST or len(query["q"].split()) > WORDS:
        return "q"
    for name, (low, high) in _BOUNDS.items():
        if not re.fullmatch(r"[0-9]{1,3}", query.get(name, str(low))) or not low <= int(query.get(name, low)) <= high:
            return name
    return None if query.get("safesearch", "moderate") in ("off", "moderate", "strict") else "safesearch"


def _result(query: str, category: str, title: str, content: str) -> dict[str, Any]:
    words = "|".join(map(re.escape, re.findall(r"\w+", query)))
    shown = re.sub(f"({words})", r"<strong>\1</strong>", content[:SHOWN], flags=re.IGNORECASE) if words else content
    return {
        "title": title,
        "url": f"https://pages.example/{quote(category)}#{quote(title)}",
        "description": shown,
        "language": "en",
        "family_friendly": True,
        "type": "search_result",
        "subtype": "generic",
        "is_live": False,
        "is_source_local": False,
        "is_source_both": False,
    }

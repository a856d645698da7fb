"""Search on the web and in documentation; the service is played by a server that answers as it is said to."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.requirements import requirement
from tests.shared import case_data
from tests.toolkits.place import Seen, opened, reply, web
from toolcrib import BadTool
from toolcrib.toolkits import search
from toolcrib.toolkits.document_index import Documents

KEY = "test-token"


def answers(*replies: dict[str, Any]) -> Any:
    """A handler that gives these replies in order, the last one again and again."""
    left = list(replies)

    def handler(seen: Seen) -> bytes:
        one = left.pop(0) if len(left) > 1 else left[0]
        headers = {name.replace("-", "_"): value for name, value in one.get("headers", {}).items()}
        body = json.dumps(one["json"]) if "json" in one else one.get("text", "")
        return reply(body, one["status"], **{"content_type": "application/json", **headers})

    return handler


def found(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"status": 200, "json": {"type": "search", "web": {"results": list(results)}, **more}}


def refused(status: int, code: str, remaining: str = "1, 10", **meta: Any) -> dict[str, Any]:
    error = {"status": status, "code": code, "detail": f"about {KEY}", "meta": meta}
    headers = {"X-RateLimit-Remaining": remaining, "X-RateLimit-Reset": "0, 9"}
    return {"status": status, "headers": headers, "json": {"type": "ErrorResponse", "error": error}}


@requirement("search.brave.1", "search.brave.2")
async def test_the_service_is_asked_in_its_own_words() -> None:
    async with web(answers(found())) as site, opened(search.tools(KEY, url=site.url)) as session:
        args = {"query": "a b", "count": 3, "offset": 2, "lang": "en", "country": "US", "safesearch": "off"}
        assert (await session.call("brave_search", {**args, "freshness": "week"})).text == "No web results found."
        assert (await session.call("brave_search", {"query": "x", "freshness": "2026-01-01to2026-01-31"})).ok
        first, second = site.seen
        assert parse_qs(urlsplit(first.path).query) == {
            "q": ["a b"],
            "count": ["3"],
            "offset": ["2"],
            "search_lang": ["en"],
            "country": ["US"],
            "safesearch": ["off"],
            "freshness": ["pw"],
        }
        assert (urlsplit(first.path).path, first.headers["x-subscription-token"]) == ("/res/v1/web/search", KEY)
        assert parse_qs(urlsplit(second.path).query)["freshness"] == ["2026-01-01to2026-01-31"]


@requirement("search.brave.1")
@pytest.mark.parametrize(
    "wrong",
    [
        *({"count": 21}, {"count": 0}, {"offset": 10}, {"freshness": "hour"}, {"safesearch": "none"}),
        *({"query": "x" * 401}, {"query": ""}, {"query": "w " * 51}),
    ],
)
async def test_what_the_service_does_not_take_is_not_sent(wrong: dict[str, Any]) -> None:
    async with web(answers(found())) as site, opened(search.tools(KEY, url=site.url)) as session:
        failure = (await session.call("brave_search", {"query": "x", **wrong})).failure
        assert failure is not None
        assert failure.code == "invalid_arguments"
        assert site.seen == []


@requirement("search.brave.3")
async def test_results_are_plain_text() -> None:
    one = {"title": "A &amp; <strong>B</strong>", "url": "https://a.test/", "description": "x\x00y", "age": "2 days"}
    box = found(one, {"title": "C", "url": "https://c.test/"}, infobox={"kind": "box"})
    async with web(answers(box)) as site, opened(search.tools(KEY, url=site.url)) as session:
        result = await session.call("brave_search", {"query": "x"})
        assert result.data["results"][0] == {
            "title": "A & B",
            "url": "https://a.test/",
            "description": "x y",
            "age": "2 days",
        }
        assert result.text == (
            "Found 2 results:\n\n1. A & B\n   URL: https://a.test/\n   x y\n\n2. C\n   URL: https://c.test/\n"
            '   No description provided.\n\nInfo Box:\n{"kind":"box"}'
        )


@requirement("search.brave.4")
async def test_a_full_second_is_waited_for_and_a_spent_month_is_not() -> None:
    busy = refused(429, "RATE_LIMITED", "0, 7")
    async with web(answers(busy, busy, found())) as site, opened(search.tools(KEY, url=site.url)) as session:
        assert (await session.call("brave_search", {"query": "x"})).ok
        assert len(site.seen) == 3
    async with web(answers(busy)) as site, opened(search.tools(KEY, url=site.url)) as session:
        failure = (await session.call("brave_search", {"query": "x"})).failure
        assert failure is not None
        assert (failure.code, failure.retryable, len(site.seen)) == ("rate_limited", True, 3)
    spent = refused(429, "RATE_LIMITED", "0, 0")
    async with web(answers(spent)) as site, opened(search.tools(KEY, url=site.url)) as session:
        failure = (await session.call("brave_search", {"query": "x"})).failure
        assert failure is not None
        assert (failure.code, failure.retryable, len(site.seen)) == ("rate_limited", False, 1)


@requirement("search.brave.4", "search.brave.5")
@pytest.mark.parametrize(
    ("answer", "code", "retryable"),
    [
        (refused(422, "VALIDATION", errors=[{"loc": ["query", "country"], "msg": "no"}]), "invalid_arguments", True),
        (refused(422, "VALIDATION", errors=[{"loc": ["header", "x-subscription-token"]}]), "unavailable", False),
        (refused(422, "SUBSCRIPTION_TOKEN_INVALID"), "unavailable", False),
        (refused(500, "INTERNAL"), "unavailable", True),
        ({"status": 502, "text": f"<html>{KEY}"}, "unavailable", True),
        ({"status": 200, "text": "<html>"}, "unavailable", True),
    ],
)
async def test_what_goes_wrong_is_said_without_the_key(answer: dict[str, Any], code: str, retryable: bool) -> None:
    async with web(answers(answer)) as site, opened(search.tools(KEY, url=site.url)) as session:
        failure = (await session.call("brave_search", {"query": "x"})).failure
        assert failure is not None
        assert (failure.code, failure.retryable) == (code, retryable)
        events = [event async for event in session.events(follow=False)]
        assert KEY not in repr(events)


@requirement("search.brave.5")
async def test_without_a_key_a_model_does_not_see_it() -> None:
    async with opened(search.tools()) as session:
        assert "brave_search" not in session.model_tools()
        failure = (await session.call("brave_search", {"query": "x"})).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("unavailable", "BRAVE_SEARCH_API_KEY is not set")
    async with opened(search.tools(KEY)) as session:
        assert "brave_search" in session.model_tools()


@requirement("shape.brave.1")
async def test_every_recorded_shape_gives_what_is_expected() -> None:
    cases = [case for case in case_data("chain-shapes/shapes.jsonl") if case["service"] == "brave"]
    assert cases
    for case in cases:
        async with web(answers(*case["replies"]["brave"])) as site, opened(search.tools(KEY, url=site.url)) as session:
            result, expect = await session.call("brave_search", case["args"]), case["expect"]
            assert result.ok is expect["ok"], case["id"]
            if "data" in expect:
                assert result.data == expect["data"], case["id"]
            assert expect.get("text", result.text) == result.text
            if result.failure is not None:
                assert result.failure.code == expect["code"]
                assert result.failure.retryable is expect.get("retryable", result.failure.retryable)
                assert expect.get("message_contains", "") in result.failure.message
                assert expect.get("message_not_contains", "\0") not in result.text
            assert len(site.seen) <= expect.get("max_requests", {}).get("brave", 9)


@requirement("search.docs.1")
async def test_documentation_is_found_by_its_words(tmp_path: Path) -> None:
    (tmp_path / "guides").mkdir()
    (tmp_path / "guides/retry.md").write_text("# Retries\nCalls are tried again.\n\n## Limits\nThree attempts.\n")
    (tmp_path / "other.txt").write_text("nothing of interest")
    async with opened(search.tools(docs=tmp_path)) as session:
        text = (await session.call("search_docs", {"query": "retry", "limit": 1})).data
        assert text.startswith("[guides] Retries (")
        assert text.endswith(")\nCalls are tried again.")
        assert (
            await session.call("search_docs", {"query": 'zzz" OR'})
        ).data == "No documentation found for query: 'zzz\" OR'"
    with pytest.raises(BadTool, match="docs"):
        search.tools(docs=tmp_path / "none")
    with pytest.raises(BadTool, match="url"):
        search.tools(KEY, url="nowhere")


async def test_pages_are_let_go_when_the_crib_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    close = Documents.close

    def heard(documents: Documents) -> None:
        closed.append(documents._database is not None)
        close(documents)

    monkeypatch.setattr(Documents, "close", heard)
    (tmp_path / "page.txt").write_text("something of interest")
    kit = search.tools(docs=tmp_path)
    for _ in range(2):  # a crib that starts again finds them again
        async with opened(kit) as session:
            assert "interest" in (await session.call("search_docs", {"query": "interest"})).data
    assert closed == [True, True]

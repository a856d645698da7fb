"""Lists over very many sessions: every call and every entry of the audit once, page by page, whatever is asked for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.api.place import Desk, desk
from tests.serve.tools import TOOLS
from toolcrib import Context, Crib, tool
from toolcrib.serve.api import audit, call_list
from toolcrib.store import Row, Write
from toolcrib.store.codec import Stored, encode

SESSIONS = 1300


@tool(read_only=True)
async def around(ctx: Context, a: int) -> Any:
    """Call another."""
    return (await ctx.call("add", {"a": a})).data


@pytest.fixture(params=["memory:", "sqlite"])
async def served(request: Any, tmp_path: Path) -> AsyncIterator[Desk]:
    store = request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'log.db'}"
    async with desk(Crib([*TOOLS, around], store=store)) as made:
        yield made


async def fill(served: Desk) -> None:
    """One call in each of many sessions: the first ended nobody knows how, each hundredth failed."""
    crib = served.api.crib
    now = crib.pipeline.clock.now()
    for number in range(SESSIONS):
        session, call, at = f"s{number}", f"c{number}", now - SESSIONS + number
        code = "unknown" if number == 0 else "internal" if number % 100 == 0 else None
        name = "desk.print" if number == 7 else "shop.refund"
        await crib.store.open(session, "ada" if number % 2 else "bob", at)
        done: dict[str, Any] = {"ok": True, "data": number}
        if code is not None:
            done = {"ok": False, "failure": {"code": code, "message": "It went wrong", "retryable": False}}
        accepted = {"tool": name, "label": name, "args": {"n": number}, "digest": "d", "by": {"kind": "user"}}
        row = Row(call, session, name, "once", "done", attempt=1, accepted_at=at, code=code)
        begun = (at, call, "accepted", Stored(encode(accepted)))
        ended = (at + 0.5, call, "done", Stored(encode(done)))
        crib.store.put(Write(session, [begun, ended], row))
    await crib.store.flush()


async def pages(served: Desk, path: str, **query: Any) -> list[list[Any]]:
    """All pages of a list."""
    page = await served.get(path, **query)
    found = [page["items"]]
    while "next" in page:
        page = await served.get(path, **query, after=page["next"])
        found.append(page["items"])
    return found


async def ids(served: Desk, path: str, **query: Any) -> list[str]:
    """The calls of all pages of a list."""
    return [one.get("call", one.get("id")) for page in await pages(served, path, **query) for one in page]


async def test_calls_are_listed_of_any_number_of_sessions(served: Desk) -> None:
    await fill(served)
    newest_first = [f"c{number}" for number in reversed(range(SESSIONS))]
    assert await ids(served, "/calls", limit=400) == newest_first
    assert await ids(served, "/calls", state="unknown") == ["c0"]
    assert await ids(served, "/calls", state="failed", limit=5) == [f"c{n}" for n in range(1200, 0, -100)]
    assert await ids(served, "/calls", tool="print") == await ids(served, "/calls", tool="desk.print") == ["c7"]
    assert await ids(served, "/calls", state="waiting") == []
    assert await ids(served, "/calls", owner="ada", limit=1000) == newest_first[::2]
    (one,) = (await served.get("/calls", state="unknown"))["items"]
    assert (one["session"], one["owner"], one["status"]) == ("s0", "bob", "unknown")
    assert await served.refused("GET", "/calls", params={"after": "WzEsMl0"}) == (400, "invalid_arguments")


async def test_the_audit_finds_what_it_is_asked_for_among_very_many(served: Desk) -> None:
    await fill(served)
    newest_first = [f"c{number}" for number in reversed(range(SESSIONS))]
    assert await ids(served, "/audit", limit=400) == newest_first
    assert await ids(served, "/audit", outcome="unknown") == ["c0"]
    assert len(await ids(served, "/audit", outcome="failed")) == 13
    assert await ids(served, "/audit", tool="desk.*") == await ids(served, "/audit", tool="print") == ["c7"]
    assert await ids(served, "/audit", session="s9") == await ids(served, "/audit", q='"n":9}') == ["c9"]
    assert await ids(served, "/audit", who="ada", limit=1000) == newest_first[::2]
    entry = (await served.get("/audit", session="s9"))["items"][0]
    since = {"since": entry["ended_at"], "until": entry["ended_at"] + 3}
    assert await ids(served, "/audit", **since) == ["c12", "c11", "c10", "c9"]


async def test_a_page_that_looked_long_enough_tells_how_far_and_the_next_goes_on(
    served: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(served)
    for module in (audit, call_list):
        monkeypatch.setattr(module, "LOOK_S", -1.0)
    first = await served.get("/audit", q='"n":3}')
    assert (first["items"], "next" in first) == ([], True)
    reached = (await served.get("/audit", session=f"s{SESSIONS - audit.PIECE}"))["items"][0]["ended_at"]
    assert first["reached"] == reached
    found = await pages(served, "/audit", q='"n":3}')
    assert [one["call"] for page in found for one in page] == ["c3"]
    assert len(found) == 7
    assert await ids(served, "/calls", tool="print") == ["c7"]


async def test_pages_of_the_audit_say_what_its_lines_say(served: Desk) -> None:
    session = await served.open()
    await served.call(session, "around", {"a": 1})
    await served.call(session, "fails", {"how": "plainly"}, background=False)
    await served.post(f"/sessions/{session}/calls", tool="erase", args={"what": "x"}, wait=False)
    (question,) = (await served.get("/questions"))["items"]
    await served.post(f"/sessions/{session}/answers", question=question["id"], action="decline", reason="no")
    answer = await served.ask("GET", "/audit", headers={"Accept": "application/x-ndjson"})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    sealed = ("number", "prev", "hash")
    plain = [{name: value for name, value in line.items() if name not in sealed} for line in lines]
    assert [one for page in await pages(served, "/audit", limit=2) for one in page] == plain[::-1]
    assert [len(line["chain"]) for line in lines] == [2, 1, 1, 1]


async def test_the_calls_of_a_session_come_in_pages(served: Desk) -> None:
    session = await served.open()
    made = [(await served.call(session, "add", {"a": n}))["call"] for n in range(5)]
    await served.call(session, "fails", {"how": "plainly"}, background=False)
    path = f"/sessions/{session}/calls"
    found = await pages(served, path, limit=2, state="succeeded")
    assert [[one["id"] for one in page] for page in found] == [made[:2], made[2:4], made[4:]]
    assert [one["tool"] for one in (await served.get(path, state="failed"))["items"]] == ["default.fails"]

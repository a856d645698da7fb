"""The log over the API: pages, streams that replay and follow, readers that stall or are cut off, and the end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.requirements import requirement
from tests.serve.api.place import SOON_S, Desk, Sent, desk, until
from tests.serve.tools import TOOLS, Doors
from toolcrib import Context, Crib, tool
from toolcrib.serve.api import ServeLimits


@tool(read_only=True)
async def chunks(ctx: Context, count: int = 20, size: int = 10) -> int:
    """Give pieces."""
    for n in range(count):
        ctx.output({"n": n, "text": "x" * size})
        await asyncio.sleep(0)
    return count


@pytest.fixture(params=["memory:", "sqlite"])
async def served(request: Any, tmp_path: Path, doors: Doors) -> AsyncIterator[Desk]:
    store = request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'log.db'}"
    crib = Crib([*TOOLS, chunks], store=store, deps={"doors": doors})
    async with desk(crib, limits=ServeLimits(ping_s=0.2, streams_each=50)) as made:
        yield made


async def test_a_log_is_read_in_pages(served: Desk) -> None:
    session = await served.open()
    call = (await served.call(session, "add", {"a": 1}))["call"]
    found: list[Any] = []
    after: str | None = "0"
    while after is not None:
        page = await served.get(f"/sessions/{session}/events", after=after, limit=2)
        found += page["items"]
        after = page.get("next")
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    assert [event["kind"] for event in found] == ["opened", "accepted", "started", "done"]
    assert {event["session"] for event in found} == {session}
    of_call = await served.get(f"/sessions/{session}/events", call=call)
    assert [event["kind"] for event in of_call["items"]] == ["accepted", "started", "done"]


@requirement("aomi.stream.7")
async def test_a_stream_replays_follows_and_resumes_after_the_last_id(served: Desk) -> None:
    session = await served.open()
    path = f"/sessions/{session}/events"
    async with served.stream(path) as events:
        opened = await anext(events)
        assert (opened.id, opened.kind, opened.data["seq"]) == ("1", "opened", 1)
        await served.call(session, "add", {"a": 1})
        last = await until(events, "done")
    await served.call(session, "add", {"a": 2})
    async with served.stream(path, **{"Last-Event-ID": last.id}) as events:
        first = await anext(events)
        assert (first.kind, first.data["seq"]) == ("accepted", int(last.id) + 1)
        assert (await until(events, "done")).data["data"]["data"] == 3
    for wrong in ("999", "x", "-1"):
        headers = {"Accept": "text/event-stream", "Last-Event-ID": wrong}
        assert await served.refused("GET", path, headers=headers) == (400, "invalid_arguments")


@requirement("aomi.stream.7")
async def test_a_silent_stream_says_that_it_is_there(served: Desk) -> None:
    session = await served.open()
    async with (
        asyncio.timeout(SOON_S),
        served.http.stream("GET", f"/v1/sessions/{session}/events?follow=1") as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines) == "retry: 1000"
        while not (line := await anext(lines)).startswith(":"):
            pass
        assert line == ": still here"


async def test_the_stream_of_a_call_ends_with_it(served: Desk, doors: Doors) -> None:
    session = await served.open()
    call = (await served.post(f"/sessions/{session}/calls", tool="hold", wait=False))["id"]
    path = f"/sessions/{session}/events?call={call}"
    async with served.stream(path) as events:
        await until(events, "started")
        await served.call(session, "add", {"a": 1})
        doors.go.set()
        rest = [event async for event in events]
    assert [(event.kind, event.data.get("call")) for event in rest[:-1]] == [("done", call)]
    assert (rest[-1].kind, rest[-1].data) == ("end", {"reason": "done"})
    async with served.stream(path) as events:
        assert [event.kind async for event in events] == ["accepted", "started", "done", "end"]
    async with served.stream(path, **{"Last-Event-ID": rest[-2].id}) as events:
        assert [event.kind async for event in events] == ["end"]
    headers = {"Accept": "text/event-stream"}
    assert await served.refused("GET", f"/sessions/{session}/events?call=none", headers=headers) == (404, "not_found")


async def _numbers(served: Desk, path: str, cuts: list[int]) -> list[int]:
    """The chunks that a reader saw who was cut off after so many of them, and came back."""
    found: list[int] = []
    last: dict[str, str] = {}
    for cut in [*cuts, None]:
        async with served.stream(path, **last) as events:
            async for event in events:
                if event.id:
                    last = {"Last-Event-ID": event.id}
                if event.kind == "output":
                    found.append(event.data["data"]["value"]["n"])
                if event.kind == "done" or len(found) == cut:
                    break
    return found


@requirement("aomi.stream.2")
async def test_every_reader_sees_every_chunk_once_also_when_cut_off(served: Desk) -> None:
    session = await served.open()
    path = f"/sessions/{session}/events"
    readers = [asyncio.ensure_future(_numbers(served, path, cuts)) for cuts in ([], [3, 50, 51, 120, 199], [])]
    await served.call(session, "chunks", {"count": 200})
    assert await asyncio.gather(*readers) == [list(range(200))] * 3


async def test_a_reader_that_stalls_hurts_nobody_and_is_cut_off(tmp_path: Path) -> None:
    crib = Crib([chunks], store=f"sqlite:///{tmp_path / 'log.db'}")
    async with desk(crib, limits=ServeLimits(drain_s=0.5)) as served:
        session = await served.open()
        url = httpx.URL(served.http.base_url)
        stalled = socket.create_connection((url.host, url.port or 0))
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        path = f"/v1/sessions/{session}/events?follow=1"
        stalled.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        async with served.stream(f"/sessions/{session}/events") as events:
            for _ in range(8):
                call = (await served.call(session, "chunks", {"count": 30, "size": 50_000}))["call"]
                while (await until(events, "done")).data["call"] != call:
                    pass
        async with asyncio.timeout(SOON_S):
            while served.api.gate.open:  # noqa: ASYNC110 - it is the server that lets go, and tells nobody
                await asyncio.sleep(0.05)
        stalled.close()


async def test_so_many_streams_and_no_more(served: Desk) -> None:
    session = await served.open()
    path = f"/sessions/{session}/events"
    opened = [served.stream(path) for _ in range(50)]
    streams = [await one.__aenter__() for one in opened]
    headers = {"Accept": "text/event-stream"}
    assert await served.refused("GET", path, headers=headers) == (429, "too_many")
    await served.call(session, "add", {"a": 1})
    await asyncio.gather(*(until(events, "done") for events in streams))
    for one in opened:
        await one.__aexit__(None, None, None)


async def test_streams_end_when_the_server_stops(served: Desk) -> None:
    session = await served.open()
    async with (
        served.stream(f"/sessions/{session}/events") as events,
        served.stream("/live") as live,
        served.stream("/questions/events") as asked,
    ):
        await anext(events)
        await served.api.quiet()
        ends = [await until(stream, "end") for stream in (events, live, asked)]
    assert [end.data["reason"] for end in ends] == ["stopping"] * 3


async def test_live_tells_of_all_sessions_from_now_on(served: Desk) -> None:
    first, second = await served.open(), await served.open()
    await served.call(first, "add", {"a": 0})
    async with served.stream("/live") as live:
        for session in (first, second):
            await served.call(session, "add", {"a": 1})
        seen: list[Sent] = []
        while len(seen) < 2:
            seen.append(await until(live, "done"))
    assert {event.data["session"] for event in seen} == {first, second}
    assert [event.data["data"]["data"] for event in seen] == [2, 2]
    await served.call(second, "add", {"a": 5})
    async with served.stream("/live", **{"Last-Event-ID": seen[-1].id}) as live:
        assert (await until(live, "done")).data["data"]["data"] == 6

"""Readers that do not read: they hold little memory, and nobody waits for them. The server is a process of its own."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.soak.place import MB, SOON_S, Follower, Served, served
from toolcrib.client import RemoteCrib
from toolcrib.store.codec import PAGE_BYTES

pytestmark = pytest.mark.process

LARGE, MANY = 900_000, 120
SEQ = re.compile(rb"^id: (\d+)$", re.MULTILINE)


async def filled(server: Served, session: str = "s", count: int = MANY) -> None:
    """A session with many large results."""
    await server.open(session)
    for _ in range(count):
        assert len(await server.call(session, size=LARGE)) == LARGE


async def unread(server: Served, session: str, count: int, undo: ExitStack) -> list[Follower]:
    """Streams that nobody reads."""
    made = [await server.follow(session) for _ in range(count)]
    for one in made:
        undo.callback(one.close)
    return made


@requirement("reliability.stream.2")
async def test_readers_that_never_read_large_results_hold_little_memory_and_nobody_waits(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await server.open("s")
        await server.call("s", size=LARGE)
        before = server.rss
        with ExitStack() as undo:
            await unread(server, "s", 50, undo)
            await filled(server)
            async with asyncio.timeout(SOON_S):
                assert await server.call("s", size=3) == "xxx"
                assert (await server.get("/healthz")).json() == {"ok": True}
            assert server.rss - before < 150 * MB


@requirement("reliability.stream.2")
async def test_readers_that_never_read_a_replay_hold_little_memory(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await filled(server)
        await server.call("s", tool="pieces", size=50_000, count=400)
        before = server.rss
        with ExitStack() as undo:
            await unread(server, "s", 100, undo)
            last = await server.follow("s")
            undo.callback(last.close)
            await last.until(b'"delta":"y')  # it comes after all results: those before it had their turn
            assert await server.call("s", size=3) == "xxx"
            assert server.rss - before < 150 * MB


@requirement("reliability.stream.3")
async def test_a_page_of_the_log_is_bounded_in_bytes_and_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await filled(server, count=3)
        await server.call("s", tool="pieces", size=50_000, count=60)
        place, seen = "0", list[int]()
        while True:
            page = await server.get("/v1/sessions/s/events", limit=1000, after=place)
            assert len(page.content) < PAGE_BYTES + 100_000
            seen += [event["seq"] for event in page.json()["items"]]
            if "next" not in page.json():
                break
            place = page.json()["next"]
        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) > 60


@requirement("reliability.stream.3")
async def test_large_values_are_references_in_streams_and_pages_and_are_read_one_by_one(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await filled(server, count=1)
        page = (await server.get("/v1/sessions/s/events")).json()["items"]
        (done,) = [event for event in page if event["kind"] == "done"]
        reference = done["data"]["data"]["$large"]
        assert done["large"] == {"data": LARGE + 2}
        assert reference == {"bytes": LARGE + 2, "href": f"/v1/sessions/s/events/{done['seq']}"}
        whole = (await server.get(reference["href"])).json()
        del done["large"]
        done["data"]["data"] = "x" * LARGE
        assert whole == done
        assert (await server.http.get("/v1/sessions/s/events/999")).status_code == 404
        assert (await server.http.get("/v1/sessions/s/events/none")).status_code == 404
        stream = await server.follow("s")
        said = await stream.until(b'"kind":"done"')
        stream.close()
        assert len(said) < 100_000


@requirement("reliability.stream.3")
async def test_the_client_reads_events_with_their_large_values(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await filled(server, count=2)
        async with RemoteCrib(f"http://127.0.0.1:{server.port}") as crib:
            session = await crib.open("s")
            past = [event async for event in session.events(follow=False)]
            assert [len(one.fields["data"]) for one in past if one.kind == "done"] == [LARGE, LARGE]
            call = await session.submit("sized", {"size": LARGE})
            done = [event async for event in session.events(call=call.id)][-1]
            assert done.fields["data"] == "x" * LARGE


async def pages(server: Served, path: str) -> list[dict[str, Any]]:
    """All items of a list, each page of which is bounded in bytes."""
    place, found = None, list[dict[str, Any]]()
    while True:
        page = await server.get(path, limit=1000, **({} if place is None else {"after": place}))
        assert len(page.content) < PAGE_BYTES + 2 * LARGE
        found += page.json()["items"]
        place = page.json().get("next")
        if place is None:
            return found


@requirement("reliability.stream.5")
async def test_lists_of_calls_and_the_audit_are_bounded_in_bytes_and_go_on(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await filled(server, count=10)
        for _ in range(5):
            assert await server.call("s", tool="length", text="y" * LARGE) == LARGE
        for path in ("/v1/sessions/s/calls", "/v1/calls"):
            calls = await pages(server, path)
            assert len({call["id"] for call in calls}) == len(calls) == 15
            assert [len(one["result"]["data"]) for one in calls if one["tool"] == "default.sized"] == [LARGE] * 10
        entries = await pages(server, "/v1/audit")
        assert len({entry["cursor"] for entry in entries}) == len(entries) == 15


@requirement("reliability.stream.5")
async def test_the_three_lists_leave_out_old_results_past_a_bound_and_the_client_reads_them(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await filled(server, count=6)
        said = await server.get("/v1/sessions/s/lists", limit=1000)
        assert len(said.content) < PAGE_BYTES + 2 * LARGE
        completed = said.json()["completed"]
        assert ["result" in one for one in completed] == [False] * 5 + [True]
        assert all(one["large"]["result"] > LARGE for one in completed[:5])
        async with RemoteCrib(f"http://127.0.0.1:{server.port}") as crib:
            entries = await (await crib.open("s")).completed()
            assert [entry.seq for entry in entries] == [one["seq"] for one in completed]
            assert [len(entry.result.data) for entry in entries if entry.result is not None] == [LARGE] * 6


@requirement("reliability.stream.4")
async def test_a_thousand_readers_who_replay_at_once_get_all_of_it_and_others_are_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await server.open("s")
        for _ in range(200):
            await server.call("s", size=10)
        last = (await server.get("/v1/sessions/s")).json()["seq"]
        before, stop = server.rss, threading.Event()

        async def replay() -> None:
            reader = await server.follow("s")
            said = await reader.until(b"id: %d\n" % last)
            reader.close()
            assert [int(seq) for seq in SEQ.findall(said)] == list(range(1, last + 1))

        health = asyncio.create_task(asyncio.to_thread(server.healthy, stop))
        try:
            await asyncio.gather(*(replay() for _ in range(1000)))
        finally:
            stop.set()
        assert await health > 5
        assert server.rss - before < 150 * MB

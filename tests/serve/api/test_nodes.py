"""Two servers over one store: what one did the other shows, follows, answers and goes on with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.place import SOON_S, Desk, desk, until
from tests.serve.tools import TOOLS
from toolcrib import Crib


@pytest.fixture(params=["sqlite", "cluster"])
async def desks(request: Any, tmp_path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    place: dict[str, Any] = {"store": f"sqlite:///{tmp_path / 'crib.db'}"}
    if request.param == "cluster":
        place = {"store": request.getfixturevalue("postgres_url"), "engine": request.getfixturevalue("nats_url")}
    async with desk(Crib(TOOLS, **place)) as first, desk(Crib(TOOLS, **place)) as second:
        yield first, second


@requirement("aomi.open.7")
async def test_a_question_asked_at_one_server_is_answered_at_the_other(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    session = await first.open()
    async with second.stream(f"/sessions/{session}/events") as events, second.stream("/questions/events") as badge:
        call = (await first.post(f"/sessions/{session}/calls", tool="greet", wait=False))["id"]
        asked = await until(badge, "asked")
        answer = {"question": asked.data["id"], "action": "accept", "value": {"name": "Ada"}}
        await second.post(f"/sessions/{session}/answers", **answer)
        assert (await until(events, "done")).data["data"]["data"] == "Hello, Ada!"
        assert (await until(badge, "gone")).data == {"id": asked.data["id"]}
    assert (await first.get(f"/sessions/{session}/calls/{call}/result", wait=SOON_S))["data"] == "Hello, Ada!"


async def test_a_stream_goes_on_at_the_other_server(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    session = await first.open()
    async with first.stream(f"/sessions/{session}/events") as events:
        await first.call(session, "add", {"a": 1})
        last = await until(events, "done")
        await first.api.quiet()
        assert (await until(events, "end")).data == {"reason": "stopping"}
    async with second.stream(f"/sessions/{session}/events", **{"Last-Event-ID": last.id}) as events:
        assert (await second.call(session, "add", {"a": 2}))["data"] == 3
        assert (await until(events, "done")).data["data"]["data"] == 3


async def test_the_same_key_at_both_servers_is_one_call(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    session = await first.open()
    one = await first.call(session, "add", {"a": 1}, key="k")
    assert await second.call(session, "add", {"a": 1}, key="k") == one


async def test_the_nodes_of_a_cluster_are_shown(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    said = await first.get("/cluster")
    shared = first.api.crib.pipeline.engine is not None
    assert sum(node["state"] == "alive" for node in said["nodes"]) >= (2 if shared else 0)
    assert (await second.get("/me"))["features"]["cluster"] is shared

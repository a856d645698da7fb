"""A lane asks for as many hints as its node has room for, and for none while it is quiet or not connected."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest

from toolcrib.engine.lanes import Lane
from toolcrib.engine.nats import SOON_S, Nats
from toolcrib.engine.worker import LATER_S


class Server:
    """What JetStream would hear of a lane, and say to it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.asked: asyncio.Queue[int] = asyncio.Queue()
        self.inbox = ""

    async def heard(self, msg: Any) -> None:
        self.inbox = msg.reply
        self.asked.put_nowait(json.loads(msg.data)["batch"])

    async def hint(self) -> None:
        await self.client.publish(self.inbox, b"")

    async def nothing_more(self) -> bool:
        """Whether nothing was asked for up to now: both sides have said all that they had to say."""
        await asyncio.sleep(0)
        await self.client.flush()
        return self.asked.empty()


@pytest.fixture
async def server(nats_url: str) -> AsyncIterator[Server]:
    client = await nats.connect(nats_url)
    made = Server(client)
    await client.subscribe("$JS.API.CONSUMER.MSG.NEXT.S.default", cb=made.heard)
    await client.flush()
    yield made
    await client.close()


async def opened(server: Server, slots: int) -> tuple[Lane, asyncio.Queue[Lane]]:
    """A lane with so many slots, and what it gets; its client is the server's, so that a flush orders both."""
    got: asyncio.Queue[Lane] = asyncio.Queue()
    lane = Lane("default", lambda lane, msg: got.put_nowait(lane), lambda: None, lambda msg: None)
    lane.slots = slots
    await lane.open(server.client, "S")
    return lane, got


async def test_a_lane_asks_for_its_free_slots_once_and_for_one_more_when_a_call_is_over(server: Server) -> None:
    lane, got = await opened(server, 2)
    lane.ask()
    assert await server.asked.get() == 2
    await server.hint()
    await got.get()
    lane.ask()
    assert await server.nothing_more()
    lane.free()
    assert await server.asked.get() == 1


async def test_a_lane_without_room_asks_for_nothing(server: Server) -> None:
    lane, _ = await opened(server, 0)
    assert await server.nothing_more()
    lane.slots = 3
    lane.ask()
    assert await server.asked.get() == 3
    lane.slots, lane.held = 3, 5
    lane.ask()
    assert await server.nothing_more()


async def test_a_lane_that_became_quiet_asks_for_nothing_even_where_it_was_about_to(server: Server) -> None:
    lane, _ = await opened(server, 0)
    await asyncio.sleep(0)
    lane.slots = 1
    lane.ask()
    await lane.quiet()
    lane.ask()
    assert await server.nothing_more()


async def test_a_lane_that_is_not_connected_asks_for_everything_when_it_is_opened_anew(
    server: Server, nats_url: str
) -> None:
    lane, _ = await opened(server, 0)
    gone = await nats.connect(nats_url)
    await lane.open(gone, "S")
    await gone.close()
    lane.slots = 2
    lane.ask()
    assert await server.nothing_more()
    await lane.open(server.client, "S")
    assert await server.asked.get() == 2


@pytest.mark.parametrize("status", ["404 No Messages", "408 Request Timeout"])
async def test_a_request_whose_time_is_over_is_made_again(server: Server, status: str) -> None:
    lane, _ = await opened(server, 2)
    assert await server.asked.get() == 2
    assert not lane.silent()
    await server.client.publish(server.inbox, b"", headers={"Status": status.split()[0]})
    assert await server.asked.get() == 2


async def test_of_a_request_that_was_partly_answered_only_the_rest_is_made_again(server: Server) -> None:
    _, got = await opened(server, 3)
    assert await server.asked.get() == 3
    await server.hint()
    await got.get()
    await server.client.publish(server.inbox, b"", headers={"Status": "408", "Nats-Pending-Messages": "2"})
    assert await server.asked.get() == 2


async def test_a_consumer_that_is_gone_is_told(server: Server) -> None:
    lost = asyncio.Event()
    lane = Lane("default", lambda lane, msg: None, lost.set, lambda msg: None)
    lane.slots = 1
    await lane.open(server.client, "S")
    await server.asked.get()
    await server.client.publish(server.inbox, b"", headers={"Status": "409"})
    await lost.wait()
    assert await server.nothing_more()


def test_a_hint_that_goes_back_to_the_lane_of_its_tool_waits_longer_each_time_up_to_a_bound() -> None:
    engine = Nats("nats://127.0.0.1:1")
    lane = Lane("tool_a", lambda lane, msg: None, lambda: None, lambda msg: None)
    waits = [engine._pass_on(lane, f"$JS.ACK.S.tool_a.{times}.1.1.1.0", "c", "node") for times in (1, 2, 3, 99)]
    assert waits == [SOON_S, 2 * SOON_S, 4 * SOON_S, LATER_S]

"""Heartbeats for messages: each that is held is told of, and a server that is not there yet is waited for."""

import asyncio

import nats

from tests.engine.place import soon
from toolcrib.engine.heartbeat import PROGRESS, MessageHeartbeat
from toolcrib.testing.services import NatsServer


async def test_a_heartbeat_tells_of_all_that_is_held_also_where_its_server_comes_later(own_nats: NatsServer) -> None:
    own_nats.kill()
    held = ["reply.one"]
    beats = MessageHeartbeat([own_nats.url], 0.02, lambda: list(held))
    try:
        own_nats.start()
        client = await nats.connect(own_nats.url)
        heard = await client.subscribe("reply.*")
        async with soon():
            first = await heard.next_msg(60)
            assert (first.subject, first.data) == ("reply.one", PROGRESS)
            held.append("reply.two")
            while (await heard.next_msg(60)).subject != "reply.two":
                pass
        await client.close()
    finally:
        await asyncio.to_thread(beats.stop)
    assert not beats._thread.is_alive()

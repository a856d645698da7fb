"""Usage: rawnats <in flight> <seconds> <hops>. What plain nats-py reaches: publish, pull and acknowledge, by JetStream.

One process with a connection for each side. Then one message at a time, from its publication to whoever pulls it, and
one plain request with its answer.
"""

import asyncio
import json
import sys
import time
from typing import Any

import nats
from nats.aio.msg import Msg
from nats.js import api

from bench.probes.cluster.measures import lags
from bench.probes.cluster.node import engine_url

STREAM, SUBJECT, CONSUMER = "raw", "raw.call", "raw"
NEXT = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}"
BODY = b"c0123456789ab1f"
WARM = 20


class Puller:
    """Asks for messages, takes them and acknowledges them; as many are asked for as are in flight."""

    def __init__(self, client: Any, width: int) -> None:
        self.taken = 0
        self.got = asyncio.Event()
        self._client = client
        self._width = width
        self._asked = 0
        self._inbox = client.new_inbox()

    async def start(self) -> None:
        """Begins to ask."""
        await self._client.subscribe(self._inbox, cb=self._message, pending_msgs_limit=0, pending_bytes_limit=0)
        await self._ask()

    async def _ask(self) -> None:
        wanted = 2 * self._width - self._asked
        self._asked += wanted
        await self._client.publish(NEXT, json.dumps({"batch": wanted}).encode(), reply=self._inbox)

    async def _message(self, msg: Msg) -> None:
        self.taken += 1
        self._asked -= 1
        await self._client.publish(msg.reply, b"+ACK")
        self.got.set()
        if self._asked <= self._width:
            await self._ask()


async def _stream(client: Any) -> None:
    js = client.jetstream()
    await js.add_stream(
        api.StreamConfig(
            name=STREAM, subjects=[SUBJECT], retention=api.RetentionPolicy.WORK_QUEUE, storage=api.StorageType.FILE
        )
    )
    await js.add_consumer(
        STREAM,
        api.ConsumerConfig(
            durable_name=CONSUMER, ack_policy=api.AckPolicy.EXPLICIT, max_ack_pending=65_536, max_waiting=65_536
        ),
    )


async def _many(client: Any, puller: Puller, width: int, seconds: float) -> float:
    """Keeps so many messages on their way; how many a second came."""
    sent, before, start = puller.taken, puller.taken, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(width - (sent - puller.taken)):
            await client.publish(SUBJECT, BODY)
            sent += 1
        puller.got.clear()
        await puller.got.wait()
    rate = (puller.taken - before) / (time.perf_counter() - start)
    while puller.taken < sent:
        puller.got.clear()
        await puller.got.wait()
    return rate


async def _hops(client: Any, puller: Puller, count: int) -> list[float]:
    found = []
    for _ in range(WARM + count):
        puller.got.clear()
        start = time.perf_counter()
        await client.publish(SUBJECT, BODY)
        await puller.got.wait()
        found.append(time.perf_counter() - start)
    return found[WARM:]


async def _requests(client: Any, other: Any, count: int) -> list[float]:
    async def answer(msg: Msg) -> None:
        await msg.respond(b"+")

    await other.subscribe("raw.stop", cb=answer)
    await other.flush()
    found = []
    for _ in range(WARM + count):
        start = time.perf_counter()
        await client.request("raw.stop", BODY)
        found.append(time.perf_counter() - start)
    return found[WARM:]


async def main(width: int, seconds: float, hops: int) -> None:
    """Many on their way first, then one at a time."""
    client, other = await nats.connect(engine_url()), await nats.connect(engine_url())
    await _stream(client)
    puller = Puller(other, width)
    await puller.start()
    await _many(client, puller, width, seconds / 3)
    rate = await _many(client, puller, width, seconds)
    found = {
        "messages_s": round(rate),
        "hop_ms": lags(await _hops(client, puller, hops)),
        "request_ms": lags(await _requests(client, other, hops)),
    }
    await client.jetstream().delete_stream(STREAM)
    await client.close()
    await other.close()
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))

"""NATS on three machines with every message on all of them: one of the three is killed, and nobody notices."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import nats
import pytest
from nats.js import api

from tests.cluster.place import PATIENCE_S, Place, codes, results, submit
from tests.requirements import requirement
from toolcrib.testing.services import NatsServer


class OneOfThree(NatsServer):
    """A server that knows where the others are."""

    def __init__(self, own: int, all: list[int]) -> None:
        super().__init__()
        self._own, self._all = own, all

    def _command(self) -> list[str]:
        words = super()._command()
        path = Path(words[-1])
        routes = [f"nats://127.0.0.1:{port}" for port in self._all]
        cluster = {"name": "three", "listen": f"127.0.0.1:{self._own}", "routes": routes}
        path.write_text(json.dumps({**json.loads(path.read_text()), "cluster": cluster}), "utf-8")
        return words

    @property
    def called(self) -> str:
        """Its name in the cluster."""
        return self._called


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


@pytest.fixture
def three() -> Iterator[list[OneOfThree]]:
    ports = free_ports(3)
    with ExitStack() as stack:
        yield [stack.enter_context(OneOfThree(port, ports)) for port in ports]


async def leader(three: list[OneOfThree]) -> OneOfThree | None:
    """Who leads the queue."""
    (found,) = await _streams(three)
    name = None if found.cluster is None else found.cluster.leader
    return next((server for server in three if server.called == name), None)


async def _streams(three: list[OneOfThree]) -> list[api.StreamInfo]:
    """All queues, as soon as the servers have agreed on who knows."""
    client = await nats.connect([server.url for server in three])
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return await client.jetstream(timeout=1).streams_info()
                except (nats.errors.Error, TimeoutError):
                    await asyncio.sleep(0.1)
    finally:
        await client.close()


@requirement("engine.7")
async def test_of_three_nats_servers_the_leader_is_killed_and_calls_go_on(
    postgres_url: str, three: list[OneOfThree], tmp_path: Path
) -> None:
    await _streams(three)
    place = Place(postgres_url, ",".join(server.url for server in three), tmp_path)
    place.engine += "&replicas=3"
    try:
        await place.workers(2, "--slots", "50")
        async with place.session() as session:
            running = await submit(session, "charge", range(100), wait="go")
            queued = await submit(session, "charge", range(100, 150))
            await place.happened(100, "charge")
            dead = await leader(three)
            assert dead is not None
            dead.kill()
            begun = asyncio.get_running_loop().time()
            place.open("go")
            later = await submit(session, "charge", range(1000, 1050))
            calls = running | queued | later
            assert codes(await results(session, calls)) == {"ok": 200}
            print(f"all ended {asyncio.get_running_loop().time() - begun:.1f} s after the leader was killed")
            assert place.effects("charge") == dict.fromkeys(calls, 1)
            assert await leader(three) not in (None, dead)
    finally:
        place.close()

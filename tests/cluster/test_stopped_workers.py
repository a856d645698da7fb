"""Acceptance 5: a worker is told to stop in mid-stream. No call is lost, and its stream goes on at its last event."""

import asyncio
import signal

import pytest

from tests.cluster.place import Place, codes, log, results, submit, until
from tests.requirements import requirement
from toolcrib import Event, Session
from toolcrib.testing.services import NatsServer, PostgresServer, Service

UPTO = 400


async def _followed(session: Session, call: str, seen: list[Event]) -> None:
    async for event in session.events(call=call):
        seen.append(event)  # noqa: PERF401 - it is looked at while it grows


def _numbers(events: list[Event]) -> list[int]:
    return [event.fields["value"]["number"] for event in events if event.kind == "output"]


@requirement("engine.6")
@pytest.mark.parametrize(("grace", "runs"), [("20", 1), ("0.2", 2)])
async def test_told_to_stop_in_mid_stream_no_call_is_lost(place: Place, grace: str, runs: int) -> None:
    one = await place.worker("w1", "--grace", grace)
    async with place.session() as session:
        call = await session.submit("stream", {"upto": UPTO, "wait": "go"})
        seen: list[Event] = []
        following = asyncio.ensure_future(_followed(session, call.id, seen))
        await until(lambda: len(_numbers(seen)) == UPTO // 2)
        await place.worker("w2")
        one.send(signal.SIGTERM)
        if runs == 2:
            await one.ended()
            await place.happened(2, "stream")
        place.open("go")
        await asyncio.wait_for(following, 30)
        assert await one.ended() == 0
        assert place.effects("stream") == {0: runs}
        assert (await session.result(call.id)).data == UPTO
        again = list(range(UPTO // 2)) if runs == 2 else []  # a body that runs again makes its chunks again
        assert _numbers(seen) == [*again, *range(UPTO)]
        assert [event for event in await log(session) if event.call == call.id] == seen


@requirement("engine.6")
async def test_a_worker_that_stops_takes_no_more_calls_and_gives_back_what_it_cannot_finish(place: Place) -> None:
    one = await place.worker("w1", "--grace", "0.2")
    async with place.session() as session:
        once = await session.submit("charge", {"n": 1, "wait": "go"})
        peeked = await session.submit("peek", {"n": 1, "wait": "go"})
        await place.happened(2, "charge", "peek")
        assert await one.stop() == 0
        later = await session.submit("charge", {"n": 2})
        place.open("go")
        await place.worker("w2")
        async with asyncio.timeout(30):
            unknown = await session.result(once.id)
            assert unknown.failure is not None
            assert unknown.failure.code == "unknown"
            assert (await session.result(peeked.id)).data == "peeked 1"
            assert (await session.result(later.id)).data == "charged 2"
        assert place.effects("charge") == {1: 1, 2: 1}


@requirement("engine.6")
@pytest.mark.parametrize("away", ["nats", "both"])
async def test_a_worker_leaves_in_time_also_while_a_server_is_away(
    frail: Place, own_nats: NatsServer, own_postgres: PostgresServer, away: str
) -> None:
    worker = await frail.worker("w1", "--grace", "1")
    async with frail.session() as session:
        calls = await submit(session, "index", range(10), wait="go")
        await frail.happened(10, "index")
        servers: list[Service] = [own_nats] if away == "nats" else [own_postgres, own_nats]
        for server in servers:
            server.kill()
        assert await worker.stop() == 0, worker.said
        for server in servers:
            await asyncio.to_thread(server.start)
        frail.open("go")
        await frail.worker("w2")
        assert codes(await results(session, calls)) == {"ok": 10}
        assert not [line for line in worker.said if "Traceback" in line]

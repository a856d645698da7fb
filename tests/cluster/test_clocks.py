"""A machine's clock that jumps: leases are the store's matter, timeouts are no matter of the hour."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.cluster.place import Place, Process, codes, kinds, log, results, submit
from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib import Session

CLOCK = Path(__file__).resolve().parent / "clock"


async def wrong_clock(place: Place, label: str) -> Process:
    """A worker whose clock is wrong by as many seconds as the file `clock` says."""
    path = os.pathsep.join(map(str, (CLOCK, ROOT / "src", ROOT)))
    return await place.worker(label, PYTHONPATH=path, TOOLCRIB_TEST_CLOCK=str(place.folder / "clock"))


async def _busy(session: Session, first: int, seconds: float) -> dict[int, str]:
    """Calls one after the other for a while; all end well."""
    calls: dict[int, str] = {}
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        n = first + len(calls)
        calls[n] = (await session.submit("charge", {"n": n})).id
        assert (await asyncio.wait_for(session.result(calls[n]), 30)).ok
    return calls


@requirement("engine.3")
@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_jumps_loses_no_call_and_doubles_none(place: Place, hours: int) -> None:
    one = await wrong_clock(place, "w1")
    async with place.session() as session:
        charges = await submit(session, "charge", range(20), wait="go")
        indexed = await submit(session, "index", range(20), wait="go")
        await place.happened(40, "charge", "index")
        await place.worker("w2")
        (place.folder / "clock").write_text(str(hours * 3600))
        charges |= await _busy(session, 1000, 1.5 * place.lease)
        (place.folder / "clock").write_text("0")
        charges |= await _busy(session, 2000, 0.5 * place.lease)
        place.open("go")
        assert codes(await results(session, charges)) == {"ok": len(charges)}
        assert codes(await results(session, indexed)) == {"ok": 20}
        assert place.effects("charge") == dict.fromkeys(charges, 1)
        assert place.effects("index") == dict.fromkeys(indexed, 1)
        assert one.pid in place.by("index")
        events = await log(session)
        assert all(kinds(events, call).count("done") == 1 for call in (*charges.values(), *indexed.values()))


@requirement("engine.3")
async def test_a_clock_that_is_ahead_ends_no_question_of_others(place: Place) -> None:
    (place.folder / "clock").write_text("3600")
    async with place.session() as session:
        await session.offer([{"name": "pick", "description": "Pick a colour in the browser."}])
        call = await session.submit("client.pick", {})  # open for a quarter of an hour
        await wrong_clock(place, "ahead")
        await asyncio.sleep(2.5 * place.lease)  # so that it looks more than once for what has expired
        assert (await session.status(call.id)).status == "waiting"

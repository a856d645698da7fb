"""Machines that are cut off for longer than their lease, and come back: nothing happens twice, everything ends."""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.network import Network, OpenNats, OpenPostgres, network, possible
from tests.cluster.place import Place, Process, codes, kinds, log, logged, node, results, submit, until
from tests.requirements import requirement

PROBLEM = possible()
pytestmark = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM or "it works here")


@pytest.fixture
def net() -> Iterator[Network]:
    with network() as made:
        yield made


@pytest.fixture
def wide(net: Network, tmp_path: Path) -> Iterator[Place]:
    """A cluster whose nodes are on machines of their own."""
    with OpenPostgres(net.address) as postgres, OpenNats(net.second) as nats:
        place = Place(postgres.far, nats.far, tmp_path)
        yield place
        place.close()


async def on(place: Place, machine: str, label: str) -> Process:
    """A worker on that machine."""
    words = [sys.executable, "-m", "toolcrib", "worker", "--crib", "tests.cluster.cribs:crib"]
    words += ["--store", place.store, "--engine", place.engine, "--label", label]
    return await place.run(["ip", "netns", "exec", machine, *words], label).ready()


@requirement("engine.2", "engine.3", "store.3")
async def test_a_worker_that_was_cut_off_doubles_nothing_and_all_calls_end(wide: Place, net: Network) -> None:
    far, near = net.machine(), net.machine()
    one = await on(wide, far, "w1")
    async with wide.session() as session:
        charges = await submit(session, "charge", range(30), wait="go")
        indexed = await submit(session, "index", range(30), wait="go")
        await wide.happened(60, "charge", "index")
        two = await on(wide, near, "w2")
        net.cut(far)
        await wide.happened(90, "charge", "index")  # the lease is over: the other one runs what may be repeated
        wide.open("go")  # also where nobody can hear of it
        assert codes(await results(session, charges)) == {"unknown": 30}
        assert codes(await results(session, indexed)) == {"ok": 30}
        later = await submit(session, "charge", range(100, 110))
        assert codes(await results(session, later)) == {"ok": 10}
        net.heal(far)
        await until(lambda: sum(wide.effects("indexed").values()) == 60)
        for call in charges.values():  # it tells what it knows, as soon as it can
            await logged(session, call, "settled")
        assert codes(await results(session, charges)) == {"ok": 30}
        assert wide.effects("charge") == dict.fromkeys([*charges, *later], 1)
        assert set(wide.effects("index").values()) == {2}
        assert wide.by("index") == {one.pid, two.pid}
        await node(session.crib, lambda found: found.facts.get("label") == "w1")
        events = await log(session)
        assert all(kinds(events, call).count("done") == 1 for call in (*charges.values(), *indexed.values()))
        assert codes(await results(session, await submit(session, "charge", range(200, 240)))) == {"ok": 40}


@requirement("engine.3", "engine.4")
async def test_nobody_takes_over_from_a_worker_that_only_nats_does_not_hear(wide: Place, net: Network) -> None:
    far, near = net.machine(), net.machine()
    one = await on(wide, far, "w1")
    async with wide.session() as session:
        charges = await submit(session, "charge", range(30), wait="go")
        indexed = await submit(session, "index", range(30), wait="go")
        await wide.happened(60, "charge", "index")
        await on(wide, near, "w2")
        net.lose(far, net.second)
        later = await submit(session, "charge", range(100, 110))
        assert codes(await results(session, later)) == {"ok": 10}
        await asyncio.sleep(2.5 * wide.lease)  # long enough for its messages to be delivered to the other one
        wide.open("go")
        assert codes(await results(session, charges)) == {"ok": 30}
        assert codes(await results(session, indexed)) == {"ok": 30}
        assert wide.by("index") == {one.pid}
        assert wide.effects("charge") == dict.fromkeys([*charges, *later], 1)
        net.find(far, net.second)
        async with asyncio.timeout(60):  # it is heard again, and works
            for n in itertools.count(1000):
                await session.result((await session.submit("peek", {"n": n})).id)
                if one.pid in wide.by("peek"):
                    break


@requirement("store.9", "engine.2")
async def test_an_api_node_that_was_cut_off_goes_on_when_it_is_back(wide: Place, net: Network) -> None:
    machines = [net.machine() for _ in range(3)]
    await on(wide, machines[0], "w1")
    loader = ["-m", "tests.cluster.loader", wide.store, wide.engine]
    for number, label in ((1, "api-1"), (2, "api-2")):
        words = ["ip", "netns", "exec", machines[number], sys.executable, *loader, label, f"{number}000000", "40"]
        wide.run(words, label)
    for process in wide.processes:
        await process.ready()
    await until(lambda: min(len(_acknowledged(wide, f"api-{n}")) for n in (1, 2)) > 10)
    net.cut(machines[1])
    first, other = len(_acknowledged(wide, "api-1")), len(_acknowledged(wide, "api-2"))
    await until(lambda: len(_acknowledged(wide, "api-2")) > other + 60 * wide.lease)  # beyond its lease
    cut, healed = len(_acknowledged(wide, "api-1")), time.monotonic()
    assert cut - first < 10, "it was not cut off"
    net.heal(machines[1])
    await until(lambda: len(_acknowledged(wide, "api-1")) > cut + 40)
    print(f"back at work {time.monotonic() - healed:.1f} s after the cable was back")
    wide.open("stop")
    assert [await process.ended() for process in wide.processes[1:]] == [0, 0]
    async with wide.api() as crib:
        for n, call in (_acknowledged(wide, "api-1") | _acknowledged(wide, "api-2")).items():
            row = await crib.store.call(call)
            assert row is not None, n
            assert (row.state, row.code) == ("done", None)
    for kind in ("charge", "mail", "ask"):
        assert set(wide.effects(kind).values()) == {1}


def _acknowledged(place: Place, label: str) -> dict[int, str]:
    path = place.folder / f"{label}.told"
    said = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {words[1]: words[3] for words in said if words[0] == "acknowledged"}

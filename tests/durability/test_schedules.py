"""schedules.call.6: scheduled calls survive a kill at every phase, each made once; several processes make each once."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.durability.processes import lines, script
from tests.requirements import requirement
from toolcrib import Crib, Event
from toolcrib.cli.verify import differences

Start = Callable[..., Any]


@pytest.fixture(params=["sqlite", "postgres", "cluster"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The store, and the engine of a cluster."""
    if request.param == "sqlite":
        return [f"sqlite:///{tmp_path}/log.db?lease=1"]
    store = f"{request.getfixturevalue('postgres_url')}?lease=2"
    return [store] if request.param == "postgres" else [store, f"{request.getfixturevalue('nats_url')}?lease=2"]


@pytest.fixture
def store(where: list[str]) -> str:
    return where[0]


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    return tmp_path / "effects"


@pytest.fixture
def start(where: list[str], effects: Path) -> Start:
    return lambda point="none": script("planner.py", where[0], effects, point, *where[1:])


def sent(effects: Path) -> Counter[str]:
    """How often each call had its effect, by its argument and its id."""
    return Counter(line for line in lines(effects) if not line.startswith("order"))


async def _log(store: str) -> tuple[list[Event], list[Any]]:
    async with Crib(store=store) as crib:
        session = await crib.open("s", owner="ada")
        return [event async for event in session.events(follow=False)], await differences(crib.store, "s")


def whole(store: str) -> list[Event]:
    """The log, which the index agrees with."""
    events, different = asyncio.run(_log(store))
    assert different == []
    return events


BEFORE_IT_RAN = ["before scheduled", "after scheduled", "before fired", "after fired", "before started"]
WHILE_IT_RAN = ["after started", "before done"]


@requirement("schedules.call.6")
@pytest.mark.parametrize("point", BEFORE_IT_RAN)
def test_a_kill_before_the_call_runs_loses_nothing(start: Start, store: str, effects: Path, point: str) -> None:
    with start(point) as first:
        first.until("ready")
        first.say(["once", "a", 0.2])
        first.until(point)
    with start() as second:
        second.until("ready")
        call = second.ask(["once", "a", 0.2])
        assert second.ask(["end", call]) == "ok"
    assert sent(effects) == {f"a {call}": 1}
    kinds = Counter(event.kind for event in whole(store) if event.call == call)
    assert (kinds["accepted"], kinds["fired"], kinds["done"]) == (1, 1, 1)


@requirement("schedules.call.6")
@pytest.mark.parametrize("point", WHILE_IT_RAN)
def test_a_kill_while_the_call_runs_makes_it_unknown_and_never_twice(
    start: Start, store: str, effects: Path, point: str
) -> None:
    with start(point) as first:
        first.until("ready")
        call = first.ask(["once", "a", 0.2])
        first.until(point)
    with start() as second:
        second.until("ready")
        assert second.ask(["end", call]) == "unknown"
    assert sent(effects)[f"a {call}"] <= 1
    assert Counter(event.kind for event in whole(store) if event.call == call)["done"] == 1


@requirement("schedules.call.6", "contract.result.7")
@pytest.mark.parametrize("point", ["before done", "after done", "before fired", "after fired"])
def test_what_a_tool_hands_back_is_written_with_its_end_or_not_at_all(
    start: Start, store: str, effects: Path, point: str
) -> None:
    with start(point) as first:
        first.until("ready")
        first.say(["order", "a"])
        first.until(point)
    with start() as second:
        second.until("ready")
        call = second.ask(["order", "a"])
        ended = second.ask(["end", call])
        made = second.ask(["scheduled", call])
        assert (ended, len(made)) == (("unknown", 0) if point == "before done" else ("ok", 1))
        assert [second.ask(["end", one]) for one in made] == ["ok"] * len(made)
    assert sent(effects) == {f"a {one}": 1 for one in made}
    whole(store)


@requirement("schedules.call.6")
def test_a_process_that_lives_makes_what_a_dead_one_had_scheduled(start: Start, effects: Path) -> None:
    with start() as second:
        second.until("ready")
        with start() as first:
            first.until("ready")
            call = first.ask(["once", "a", 3])
        assert second.ask(["end", call]) == "ok"
    assert sent(effects) == {f"a {call}": 1}


@requirement("schedules.call.6", "schedules.cron.1")
def test_two_processes_and_kills_make_each_run_of_a_cron_expression_once(
    start: Start, store: str, effects: Path
) -> None:
    with start() as one:
        one.until("ready")
        schedule = one.ask(["cron", "tick", "* * * * * *"])
        with start() as two:
            two.until("ready")
            for _ in range(3):
                with start() as three:
                    three.until("ready")
                    _wait_for(effects, len(lines(effects)) + 2)
        assert one.ask(["cancel", schedule]) is True
    counts = sent(effects)
    assert set(counts.values()) == {1}
    events = whole(store)
    dues = [event.fields["due"] for event in events if event.kind == "fired"]
    assert dues == [dues[0] + number for number in range(len(dues))]
    ended = [event for event in events if event.kind == "done"]
    assert len(ended) == len(dues) + 1
    unknown = [event for event in ended if (event.fields.get("failure") or {}).get("code") == "unknown"]
    assert len(counts) >= len(dues) - len(unknown)


def _wait_for(effects: Path, count: int) -> None:
    """Returns when so many calls had their effect."""
    until = time.monotonic() + 60
    while len(lines(effects)) < count:
        assert time.monotonic() < until, f"{len(lines(effects))} of {count}"
        time.sleep(0.05)

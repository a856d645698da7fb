"""Acceptance 1: ten kills of the embedded process under load; then one more process ends what is open."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.durability.processes import Script, lines, script
from tests.requirements import requirement
from tests.shared import nonempty
from toolcrib import Crib, Event
from toolcrib._call.history import History, fold
from toolcrib.cli.verify import differences

KILLS = 10
MOST_LINES = 400


class Past(NamedTuple):
    """What ten processes said before they were killed, what they did, and what is left of it."""

    accepted: dict[str, tuple[str, str]]
    done: dict[str, Any]
    direct: dict[tuple[str, str], Any]
    effects: Counter[str]
    events: list[Event]
    calls: dict[str, History]
    differences: list[Any]

    def of(self, tool: str) -> dict[str, History]:
        """The calls of a tool by their argument."""
        named = [call for call in self.calls.values() if call.accepted.tool == f"default.{tool}"]
        return {call.accepted.args["n"]: call for call in named}


def one_life(store: str, effects: Path, life: int, chance: random.Random) -> list[Any]:
    """Starts the process and kills it at a random point of its work; what it said."""
    running = Script("busy.py", store, effects, life)
    running.until("ready")
    said = [running.hear() for _ in range(chance.randint(1, MOST_LINES))]
    return said + running.kill()


async def what_is_left(store: str) -> tuple[list[Event], list[Any]]:
    async with Crib(store=store) as crib:
        session = await crib.open("s", owner="ada")
        events = [event async for event in session.events(follow=False)]
        return events, await differences(crib.store, "s")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    folder = tmp_path_factory.mktemp("killed")
    store, effects, chance = f"sqlite:///{folder}/log.db", folder / "effects", random.Random(7)
    said = [line for life in range(KILLS) for line in one_life(store, effects, life, chance)]
    with script("busy.py", store, effects, "last") as last:
        assert last.process.wait(60) == 0
    events, different = asyncio.run(what_is_left(store))
    return Past(
        accepted={line[1]: (line[2], line[3]) for line in said if line[0] == "accepted"},
        done={line[1]: line[2] for line in said if line[0] == "done"},
        direct={(line[1], line[2]): line[3] for line in said if line[0] == "direct"},
        effects=Counter(lines(effects)),
        events=events,
        calls=fold("s", events),
        differences=different,
    )


def code(call: History) -> str | None:
    assert call.done is not None
    return None if call.done.failure is None else call.done.failure.code


@requirement("store.5")
def test_every_call_that_was_accepted_is_in_the_log(past: Past) -> None:
    assert past.accepted
    assert {
        id: (call.accepted.tool, call.accepted.args["n"]) for id, call in past.calls.items() if id in past.accepted
    } == {id: (f"default.{tool}", n) for id, (tool, n) in past.accepted.items()}


def test_every_call_that_was_reported_done_is_done_with_that_result(past: Past) -> None:
    assert past.done
    assert {id: past.calls[id].done.data for id in past.done} == past.done  # type: ignore[union-attr]


def test_every_result_that_a_caller_got_directly_is_in_the_log_unless_it_only_read(past: Past) -> None:
    assert past.direct
    for (tool, n), data in past.direct.items():
        if tool != "look_up":
            assert past.of(tool)[n].done.data == data  # type: ignore[union-attr]


@requirement("engine.1")
def test_every_accepted_call_ends_with_exactly_one_done_and_nothing_follows_it(past: Past) -> None:
    last: dict[str, str] = {}
    for event in past.events:
        if event.call is not None:
            assert last.get(event.call) != "done"
            last[event.call] = event.kind
    assert set(last.values()) == {"done"}


@requirement("store.4")
def test_numbers_have_no_gap(past: Past) -> None:
    assert [event.seq for event in past.events] == list(range(1, len(past.events) + 1))


@requirement("store.2")
def test_the_index_of_calls_says_what_the_log_says(past: Past) -> None:
    assert past.differences == []


def test_no_body_of_a_call_that_may_happen_once_ran_twice(past: Past) -> None:
    guarded = {line: n for line, n in past.effects.items() if line.split()[0] in ("once", "traced", "stepped")}
    assert guarded
    assert set(guarded.values()) == {1}


@requirement("engine.1")
def test_calls_that_may_happen_once_end_known_or_unknown_by_what_can_be_said_of_them(past: Past) -> None:
    for tool in ("once", "traced", "stepped"):
        for n, call in past.of(tool).items():
            assert call.done is not None
            if call.done.ok:
                assert call.done.data in (f"{tool} {n}", f"found {n}")
            else:
                assert code(call) == "unknown"
            if call.done.data == f"{tool} {n}":
                assert past.effects[f"{tool} {n}"] == 1
            assert not (tool == "traced" and code(call) == "unknown" and n.endswith("0"))
    ended = Counter(code(call) for call in past.of("once").values())
    assert ended["unknown"] > 0, "no kill met a started call: the test is too gentle"


@requirement("engine.1")
def test_calls_that_may_be_repeated_are_repeated_until_they_succeed(past: Past) -> None:
    for tool in ("again", "look_up"):
        assert {code(call) for call in past.of(tool).values()} == {None}
    attempts = [call.started.attempt for call in past.of("again").values() if call.started is not None]
    assert max(attempts) > 1, "no kill met a started call: the test is too gentle"


def test_no_effect_is_without_a_call(past: Past) -> None:
    for effect in nonempty(past.effects):
        tool, n = effect.split()
        if tool != "again":  # what may be repeated is written behind: after a kill it may never have been accepted
            assert n in past.of(tool)

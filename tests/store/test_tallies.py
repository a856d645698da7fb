"""What each event of a log adds to the numbers, and how numbers are put together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcrib.events import Event
from toolcrib.store.rollups import (
    BOUNDS,
    HOUR,
    MINUTE,
    CountedCall,
    LogTallies,
    Sum,
    Tallies,
    TallyFilter,
    TallyKey,
    add,
    by_hours,
    cubes,
    lines_of,
    merged,
    milliseconds,
    narrowed,
    of_one,
    packed,
    quantiles,
    slot_of,
    tallied,
    unpacked,
)

AT = 10 * HOUR + 3 * MINUTE + 7.5
MINUTE_OF_AT = 10 * HOUR + 3 * MINUTE
CALL = CountedCall("shop.pay", "clerk")
WAITED = CountedCall("shop.pay", "clerk", AT - 2)
TIMED = ("call", "settled", "wait", "turn")


def counted(kind: str, data: Any, call: CountedCall = CALL) -> list[Any]:
    """What an event adds: what, tool, agent, code, slot, number and time."""
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    made = []
    for key, one in tallied("ada", AT, kind, text, call):
        assert (key.at, key.owner) == (MINUTE_OF_AT, "ada")
        assert one.slots == ({slot_of(one.total): 1} if key.what in TIMED else {})
        made.append((key.what, key.tool, key.agent, key.code, slot_of(one.total), one.count, one.total))
    return made


@pytest.mark.parametrize(
    ("kind", "data", "call", "expected"),
    [
        ("done", {"duration_ms": 2}, CALL, [("call", "shop.pay", "clerk", "", slot_of(2000), 1, 2000)]),
        ("done", {}, CALL, [("call", "shop.pay", "clerk", "", 0, 1, 0)]),
        ("done", {"duration_ms": -5}, CALL, [("call", "shop.pay", "clerk", "", 0, 1, 0)]),
        ("done", {"duration_ms": 0.0004}, CALL, [("call", "shop.pay", "clerk", "", 0, 1, 0)]),
        ("done", {"duration_ms": 0.0006}, CALL, [("call", "shop.pay", "clerk", "", 0, 1, 1)]),
        ("done", {"failure": {"code": "denied"}}, CALL, [("call", "shop.pay", "clerk", "denied", 0, 1, 0)]),
        ("done", {"failure": {}}, CALL, [("call", "shop.pay", "clerk", "failed", 0, 1, 0)]),
        ("done", b"no json", CALL, [("call", "shop.pay", "clerk", "", 0, 1, 0)]),
        ("settled", {"duration_ms": 1}, CALL, [("settled", "shop.pay", "clerk", "", slot_of(1000), 1, 1000)]),
        ("settled", {}, WAITED, [("settled", "shop.pay", "clerk", "", 0, 1, 0)]),
        ("answered", {}, CALL, []),
        ("answered", {}, WAITED, [("wait", "shop.pay", "clerk", "", slot_of(2_000_000), 1, 2_000_000)]),
        ("answered", {}, CALL._replace(waits_since=AT + 1), [("wait", "shop.pay", "clerk", "", 0, 1, 0)]),
        ("opened", {}, CountedCall(), [("session", "", "", "", 0, 1, 0)]),
        ("opened", {"restored": True}, CountedCall(), []),
        ("waiting", {}, WAITED, []),
        ("progress", {}, CALL, []),
    ],
)
def test_an_event_is_counted_by_what_it_tells(kind: str, data: Any, call: CountedCall, expected: list[Any]) -> None:
    assert counted(kind, data, call) == expected


def test_the_end_of_a_call_that_waits_is_the_end_of_its_wait() -> None:
    assert [(what, total) for what, *_, total in counted("done", {}, WAITED)] == [("call", 0), ("wait", 2_000_000)]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({}, []),
        ({"input": 3, "output": 4, "cost": 0.002}, [("input", 3), ("output", 4), ("cost", 2_000_000)]),
        ({"input": 0, "output": None, "cost": "much"}, []),
        ({"input": 2.6}, [("input", 3)]),
        ({"cost": 0.0000000016}, [("cost", 2)]),
    ],
)
def test_a_turn_is_counted_with_its_tokens_and_its_cost(usage: dict[str, Any], expected: list[Any]) -> None:
    data = {"agent": "clerk", "model": "large", "usage": usage, "duration_ms": 3}
    turn, *amounts = counted("turn_finished", data, CountedCall())
    assert turn == ("turn", "large", "clerk", "", slot_of(3000), 1, 3000)
    assert [(what, number) for what, _, _, _, _, number, _ in amounts] == expected
    assert {amount[1:5] + amount[6:] for amount in amounts} <= {("large", "clerk", "", 0, 0)}
    assert counted("turn_finished", {"agent": "clerk"}, CountedCall())[0][:3] == ("turn", "", "clerk")


def test_what_a_call_is_stands_in_its_beginning() -> None:
    assert CountedCall.read(b'{"tool": "shop.pay", "agent": "clerk"}') == CALL
    assert CountedCall.read(b'{"tool": "shop.pay", "agent": null}') == CountedCall("shop.pay", "")
    assert CountedCall.read(b"no json") == CountedCall()


def test_a_call_tells_which_agent_an_agent_led_to() -> None:
    handover = {"handover": {"to": "billing", "reason": "money"}}
    assert counted("done", handover)[1:] == [("transfer", "shop.pay", "clerk", "billing", 0, 1, 0)]
    assert [what for what, *_ in counted("done", handover, CountedCall("shop.pay", ""))] == ["call"]
    asks = CountedCall.read(b'{"tool": "builtin.call_agent", "agent": "clerk", "args": {"agent": "stock"}}')
    ended = counted("done", {"failure": {"code": "timeout"}}, asks)
    assert ended[1] == ("delegation", "builtin.call_agent", "clerk", "stock", 0, 1, 0)
    assert CountedCall.read(b'{"tool": "shop.pay", "agent": "clerk", "args": {"agent": "stock"}}') == CALL


def fold(*events: tuple[str | None, str, Any, float]) -> dict[tuple[str, str, str, str], tuple[int, int]]:
    """The numbers of a log by what, tool, agent and code."""
    log, tallies = LogTallies("ada"), Tallies()
    for seq, (call, kind, data, at) in enumerate(events, 1):
        log.take(Event(seq, at, call, kind, json.dumps(data).encode()), tallies)
        assert log.seq == seq
    found: dict[tuple[str, str, str, str], tuple[int, int]] = {}
    for key, one in tallies.items():
        known = found.get((key.what, key.tool, key.agent, key.code), (0, 0))
        found[key.what, key.tool, key.agent, key.code] = known[0] + one.count, known[1] + one.total
    return found


def test_a_log_is_folded_call_by_call() -> None:
    begun = {"tool": "shop.pay", "agent": "clerk"}
    numbers = fold(
        (None, "opened", {}, 0.0),
        ("1", "accepted", begun, 1.0),
        ("2", "accepted", {"tool": "shop.find"}, 1.0),
        ("1", "waiting", {}, 2.0),
        ("2", "done", {"duration_ms": 5}, 3.0),
        ("1", "answered", {}, 4.0),
        ("1", "done", {"failure": {"code": "unknown"}}, 9.0),
        ("1", "settled", {}, 10.0),
        ("1", "settled", {}, 11.0),
    )
    assert numbers == {
        ("session", "", "", ""): (1, 0),
        ("call", "shop.find", "", ""): (1, 5000),
        ("wait", "shop.pay", "clerk", ""): (1, 2_000_000),
        ("call", "shop.pay", "clerk", "unknown"): (1, 0),
        ("settled", "shop.pay", "clerk", ""): (1, 0),
        ("settled", "", "", ""): (1, 0),
    }


def test_a_call_that_is_done_is_forgotten_and_one_that_waits_again_waits_from_then_on() -> None:
    numbers = fold(
        ("1", "accepted", {"tool": "t"}, 0.0),
        ("1", "waiting", {}, 1.0),
        ("1", "answered", {}, 2.0),
        ("1", "waiting", {}, 5.0),
        ("1", "done", {}, 8.0),
        ("1", "done", {}, 9.0),
    )
    assert numbers == {
        ("wait", "t", "", ""): (2, 4_000_000),
        ("call", "t", "", ""): (1, 0),
        ("call", "", "", ""): (1, 0),
    }


def test_a_call_may_be_begun_without_its_event() -> None:
    log, tallies = LogTallies("ada"), Tallies()
    log.begin("1", "shop.pay", "clerk")
    log.begin("2", "shop.pay", None)
    for seq, call in enumerate(("1", "2"), 1):
        log.take(Event(seq, AT, call, "done", b"{}"), tallies)
    assert [(key.tool, key.agent, numbers) for key, numbers in tallies.items()] == [
        ("shop.pay", "clerk", Sum(1, 0, {0: 1})),
        ("shop.pay", "", Sum(1, 0, {0: 1})),
    ]


def key(at: int = 0, owner: str = "ada", tool: str = "t", agent: str = "a") -> TallyKey:
    return TallyKey(at, "call", owner, tool, agent, "")


def some(number: int) -> Sum:
    return Sum(number, 10 * number, {1: number})


def test_numbers_of_one_key_are_added_and_those_of_one_hour_and_of_one_thing_too() -> None:
    tallies: Tallies = {}
    for at, owner, number in (
        (0, "ada", 1),
        (0, "ada", 2),
        (HOUR - MINUTE, "ada", 4),
        (HOUR, "ada", 8),
        (0, "bob", 16),
    ):
        add(tallies, key(at, owner), some(number))
    assert tallies[key(0)] == some(3)
    hours = by_hours(tallies)
    assert hours == {key(0): some(7), key(HOUR): some(8), key(0, "bob"): some(16)}
    assert of_one(hours, "tool") == {key(0, "", agent=""): some(23), key(HOUR, "", agent=""): some(8)}
    rows = {cube: len(lines_of(cube, part)) for cube, part in cubes(tallies)}
    assert rows == {
        "minutes": 4,
        "hours": 3,
        "tool": 2,
        "agent": 2,
        "owner": 3,
    }


def test_slots_are_kept_as_bytes_and_put_together() -> None:
    assert unpacked(packed({1: 2, 300: 4})) == {1: 2, 300: 4}
    assert unpacked(merged(packed({1: 2, 3: 4}), packed({3: 1, 9: 5}))) == {1: 2, 3: 5, 9: 5}
    assert some(2) != Sum(2, 20, {2: 2})
    assert some(2) != 2


def test_a_key_keeps_what_it_is_counted_by() -> None:
    assert narrowed(key(), "tool") == key(owner="", agent="")
    assert narrowed(key(), "agent") == key(owner="", tool="")
    assert narrowed(key(), "owner") == key(tool="", agent="")


@pytest.mark.parametrize(
    ("fields", "cube"),
    [
        ({}, "tool"),
        ({"by": "agent"}, "agent"),
        ({"by": "owner"}, "owner"),
        ({"step": MINUTE}, "minutes"),
        ({"step": MINUTE, "owner": "ada"}, "minutes"),
        ({"owner": "ada"}, "hours"),
        ({"agent": "a"}, "hours"),
        ({"tools": ()}, "hours"),
    ],
)
def test_numbers_are_read_from_the_smallest_table_that_has_them(fields: dict[str, Any], cube: str) -> None:
    assert TallyFilter(0, 1, **fields).cube == cube


def test_slots_begin_at_a_tenth_of_a_millisecond_and_end_after_a_year() -> None:
    assert (BOUNDS[:3], BOUNDS[-2] < 400 * 24 * HOUR * 1_000_000 <= BOUNDS[-1]) == ((100, 110, 121), True)
    assert (slot_of(99), slot_of(100), slot_of(110)) == (0, 1, 2)
    assert (milliseconds(-1), milliseconds(0), milliseconds(1), milliseconds(2)) == (0.05, 0.05, 0.105, 0.1155)
    last = BOUNDS[-1] / 1000
    assert milliseconds(len(BOUNDS)) == milliseconds(len(BOUNDS) + 5) == last


def test_quantiles_leave_out_what_is_not_there() -> None:
    assert quantiles({1: 1, 2: 1}, (0.5, 0.51, 1.0)) == [milliseconds(1), milliseconds(2), milliseconds(2)]
    assert quantiles({1: 0, 2: 3, 5: -1}, (0.0, 1.0)) == [milliseconds(2), milliseconds(2)]
    assert quantiles({1: 0}, (0.5, 0.9)) == [None, None]

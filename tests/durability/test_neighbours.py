"""Several processes on one SQLite file: nobody takes up what a living process runs, anybody may answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.durability.processes import lines, script
from tests.requirements import requirement

Start = Callable[[], Any]


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    return tmp_path / "effects"


@pytest.fixture
def start(tmp_path: Path, effects: Path) -> Start:
    return lambda: script("neighbour.py", f"sqlite:///{tmp_path}/log.db", effects)


@requirement("engine.1")
def test_calls_that_run_in_a_living_process_are_not_taken_up_by_another(start: Start, effects: Path) -> None:
    with start() as one, start() as two:
        one.until("ready")
        two.until("ready")
        calls = [one.ask(["submit", name, {"n": "1"}]) for name in ("pay", "put")]
        heard = {*calls} - {"pay 1", "put 1"}
        while len(heard) < 2:
            heard |= {one.hear()} - {"pay 1", "put 1"}
        with start() as three:
            three.until("ready")
            assert two.ask(["open"]) == "opened"
        one.say(["go on"])
        assert sorted(two.ask(["result", call]) for call in heard) == ["paid 1", "was put 1"]
    assert sorted(lines(effects)) == ["pay 1", "put 1"]


@requirement("engine.1")
def test_when_a_process_dies_another_takes_up_its_calls_at_the_next_open(start: Start, effects: Path) -> None:
    with start() as two:
        two.until("ready")
        with start() as one:
            one.until("ready")
            one.say(["submit", "pay", {"n": "1"}])
            said = [one.hear(), one.hear()]
            one.say(["submit", "put", {"n": "1"}])
            said += [one.hear(), one.hear()]
        pay, put = (line for line in said if line not in ("pay 1", "put 1"))
        two.say(["go on"])
        two.say(["open"])
        two.until("opened")
        two.say(["result", pay])
        two.until("unknown")
        two.say(["result", put])
        two.until("was put 1")
    assert sorted(lines(effects)) == ["pay 1", "put 1", "put 1"]


def test_a_question_is_answered_in_another_process_and_the_call_runs_there_once(start: Start, effects: Path) -> None:
    with start() as one, start() as two:
        one.until("ready")
        two.until("ready")
        call = one.ask(["submit", "greet", {}])
        (question,) = one.ask(["questions"])
        two.say(["answer", question, "bob"])
        one.say(["answer", question, "eve"])
        answers = {two.hear(), one.hear()}
        (name,) = answers - {"already_answered", "expired"}
        assert name in ("bob", "eve")
        assert one.ask(["result", call]) == two.ask(["result", call]) == f"hello {name}"
    assert lines(effects) == [f"greet {name}"]


def test_a_call_that_was_answered_elsewhere_is_not_lost_when_the_answering_process_dies(
    start: Start, effects: Path
) -> None:
    with start() as one:
        one.until("ready")
        call = one.ask(["submit", "greet", {}])
        (question,) = one.ask(["questions"])
        with start() as two:
            two.until("ready")
            two.ask(["answer", question, "bob"])
        assert one.ask(["open"]) == "opened"
        assert one.ask(["result", call]) in ("hello bob", "unknown")
    assert len(lines(effects)) <= 1


@requirement("store.5")
def test_a_read_that_was_killed_on_the_fast_path_never_happened(start: Start, effects: Path) -> None:
    with start() as one:
        one.until("ready")
        one.say(["call", "stare", {"n": "1"}])
        one.until("stare 1")
    assert lines(effects) == ["stare 1"]
    with start() as two:
        two.until("ready")
        assert two.ask(["calls"]) == []
        assert two.ask(["call", "look", {"n": "2"}]) == "saw 2"


@requirement("store.5")
def test_everything_but_a_read_is_durable_before_it_is_acknowledged(start: Start, effects: Path) -> None:
    with start() as one:
        one.until("ready")
        submitted = one.ask(["submit", "look", {"n": "1"}])
        one.say(["go on"])
        one.say(["call", "pay", {"n": "2"}])
        one.until("paid 2")
        one.say(["call", "put", {"n": "3"}])
        one.until("was put 3")
    with start() as two:
        two.until("ready")
        assert two.ask(["result", submitted]) == "saw 1"
        assert two.ask(["calls"]) == ["default.look", "default.pay", "default.put"]


@requirement("aomi.drain.9")
def test_after_a_kill_in_the_middle_of_a_logout_the_next_open_finds_what_had_finished(start: Start) -> None:
    with start() as one:
        one.until("ready")
        looked = one.ask(["submit", "look", {"n": "1"}])
        assert one.ask(["result", looked]) == "saw 1"
        one.say(["submit", "pay", {"n": "2"}])
        said = [one.hear(), one.hear()]
        one.say(["submit", "put", {"n": "3"}])
        said += [one.hear(), one.hear()]
        assert one.ask(["close"]) == "closing"
    pay, put = (line for line in said if line not in ("pay 2", "put 3"))
    with start() as two:
        two.until("ready")
        two.say(["go on"])
        for call, outcome in ((looked, "saw 1"), (pay, "unknown"), (put, "was put 3")):
            two.say(["result", call])
            two.until(outcome)

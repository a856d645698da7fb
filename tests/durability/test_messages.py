"""Messages that several processes send to one session: each is one message, and one process goes on with its run."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.place import until
from tests.durability.processes import Script, lines
from tests.requirements import requirement
from toolcrib import Crib, Event

ROUNDS = 6
SOON_S = 0.3
PROCESSES = ("one", "two")
Senders = Callable[..., AbstractContextManager[list[Script]]]


@pytest.fixture(params=["sqlite", "postgres", "cluster"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The store, and the engine where there is one."""
    if request.param == "sqlite":
        return [f"sqlite:///{tmp_path}/log.db"]
    store = f"{request.getfixturevalue('postgres_url')}?lease=2"
    return [store] if request.param == "postgres" else [store, f"{request.getfixturevalue('nats_url')}?lease=2"]


@pytest.fixture
def senders(where: list[str], tmp_path: Path) -> Senders:
    @contextmanager
    def start(*names: str) -> Iterator[list[Script]]:
        store, *engine = where
        made = [Script("sender.py", store, tmp_path, name, *engine) for name in names or PROCESSES]
        try:
            for one in made:
                one.until("ready")
            yield made
        finally:
            for one in made:
                one.kill()  # also one that has ended, so that nothing of it is left open

    return start


async def log_of(where: list[str], id: str) -> list[Event]:
    async with Crib(store=where[0]) as crib:
        session = await crib.open(id, owner="ada")
        return [event async for event in session.events(follow=False)]


def outcome(sender: Script, text: str) -> list[Any]:
    """What became of a message: run, status and reason."""
    while (said := sender.hear())[0] != "sent" or said[2] != text:
        pass
    found: list[Any] = said[3:]
    return found


def turns(log: list[Event]) -> list[tuple[str, str]]:
    """The order of what runs did."""
    wanted = ("run_started", "turn_started", "turn_finished", "run_finished")
    return [(event.kind, event.fields["run"]) for event in log if event.kind in wanted]


def one_after_the_other(log: list[Event]) -> bool:
    """Whether each run is over before the next begins, and each turn before the next."""
    whole = ["run_started", "turn_started", "turn_finished", "run_finished"]
    told = turns(log)
    runs = [told[number : number + 4] for number in range(0, len(told), 4)]
    return all([kind for kind, _ in run] == whole and len({id for _, id in run}) == 1 for run in runs)


@requirement("reliability.send.1", "reliability.send.2")
async def test_the_same_key_sent_by_two_processes_at_once_is_one_message(
    senders: Senders, where: list[str], tmp_path: Path
) -> None:
    with senders() as both:
        (tmp_path / "gate-go").touch()
        for number in range(ROUNDS):
            at = time.time() + SOON_S
            for sender in both:
                sender.say(["send", at, f"s{number}", "go", {"key": "k"}])
            first, second = [outcome(sender, "go") for sender in both]
            assert first == second
            assert first[1:] == ["done", "answered"]
    for number in range(ROUNDS):
        log = await log_of(where, f"s{number}")
        assert [kind for kind, _ in turns(log)] == ["run_started", "turn_started", "turn_finished", "run_finished"]
        assert [event.fields["role"] for event in log if event.kind == "message"] == ["user", "assistant"]
    assert lines(tmp_path / "asked") == [f"s{number} go" for number in range(ROUNDS)]


@requirement("reliability.send.2")
async def test_different_messages_sent_at_once_are_answered_one_after_the_other(
    senders: Senders, where: list[str], tmp_path: Path
) -> None:
    with senders() as both:
        for number in range(ROUNDS):
            at = time.time() + SOON_S
            for name, sender in zip(PROCESSES, both, strict=True):
                (tmp_path / f"gate-{name}{number}").touch()
                sender.say(["send", at, f"s{number}", f"{name}{number}", {"key": name}])
            first, second = [outcome(sender, f"{name}{number}") for name, sender in zip(PROCESSES, both, strict=True)]
            assert first[1:] == second[1:] == ["done", "answered"]
            assert first[0] != second[0]
    for number in range(ROUNDS):
        log = await log_of(where, f"s{number}")
        assert one_after_the_other(log), "\n".join(f"{e.seq} {e.kind} {e.fields}" for e in log)
        assert [kind for kind, _ in turns(log)].count("run_started") == 2


@requirement("reliability.send.1")
async def test_a_key_that_was_queued_by_two_processes_at_once_is_queued_once(
    senders: Senders, where: list[str], tmp_path: Path
) -> None:
    with senders() as both:
        both[0].say(["send", 0, "s", "first", {"key": "a"}])
        both[0].until(["asked", "one", "first"])
        at = time.time() + SOON_S
        for sender in both:
            sender.say(["send", at, "s", "second", {"key": "b"}])
        while [event.kind for event in await log_of(where, "s")].count("message_queued") < 1:
            pass
        (tmp_path / "gate-first").touch()
        (tmp_path / "gate-second").touch()
        first, second = [outcome(sender, "second") for sender in both]
        assert first == second
    log = await log_of(where, "s")
    assert one_after_the_other(log)
    assert [event.kind for event in log].count("message_queued") == 1
    assert [kind for kind, _ in turns(log)].count("run_started") == 2


@requirement("reliability.send.4")
async def test_a_run_whose_process_died_is_taken_up_though_nobody_sends_again(
    senders: Senders, where: list[str], tmp_path: Path
) -> None:
    with senders() as (one, two):
        one.say(["send", 0, "s", "go", {"key": "k"}])
        one.until(["asked", "one", "go"])
        one.kill()
        two.until(["asked", "two", "go"])
        (tmp_path / "gate-go").touch()
        two.say(["send", 0, "s", "go", {"key": "k"}])
        assert outcome(two, "go")[1:] == ["done", "answered"]
    log = await log_of(where, "s")
    assert [kind for kind, _ in turns(log)] == ["run_started", "turn_started", "turn_finished", "run_finished"]
    assert lines(tmp_path / "asked") == ["s go", "s go"]


@requirement("reliability.send.4")
async def test_a_message_sent_again_elsewhere_follows_the_run_and_goes_on_with_it_when_its_process_dies(
    senders: Senders, where: list[str], tmp_path: Path
) -> None:
    with senders() as (one, two):
        one.say(["send", 0, "s", "call", {"key": "k"}])
        one.until(["asked", "one", "call"])
        (tmp_path / "gate-call").touch()
        one.until(["works", "one"], ["asked", "one", "call"]) if len(where) == 1 else None
        two.say(["send", 0, "s", "call", {"key": "k"}])
        one.kill()
        (tmp_path / "gate-work").touch()
        assert outcome(two, "call")[1:] == ["done", "answered"]
    log = await log_of(where, "s")
    assert [kind for kind, _ in turns(log)].count("run_finished") == 1
    assert [event.kind for event in log].count("done") == 1


@requirement("reliability.send.3")
@pytest.mark.parametrize("where", ["postgres", "cluster"], indirect=True)
async def test_a_process_that_was_paused_writes_nothing_more_of_a_run_that_another_took_up(
    senders: Senders, where: list[str], tmp_path: Path
) -> None:
    with senders() as (one, two):
        one.say(["send", 0, "s", "go", {"key": "k"}])
        one.until(["asked", "one", "go"])
        os.kill(one.process.pid, signal.SIGSTOP)
        two.until(["asked", "two", "go"])
        (tmp_path / "gate-go").touch()
        two.say(["send", 0, "s", "go", {"key": "k"}])
        ended = outcome(two, "go")
        assert ended[1:] == ["done", "answered"]
        os.kill(one.process.pid, signal.SIGCONT)
        assert outcome(one, "go") == ended
        one.say(["send", 0, "s", "next", {}])
        (tmp_path / "gate-next").touch()
        assert outcome(one, "next")[1:] == ["done", "answered"]
    log = await log_of(where, "s")
    assert one_after_the_other(log)
    answers = [
        event.fields["content"] for event in log if event.kind == "message" and event.fields["role"] == "assistant"
    ]
    assert answers[0] == "two says go"


async def asker(folder: Path, text: str) -> str:
    """The process that was the first to ask the model for a reply to that."""

    def askers() -> list[str]:
        return [line.split()[0] for line in lines(folder / "asked_by") if line.endswith(f" {text}")]

    await until(askers)
    return askers()[0]


async def runs_of(where: list[str], id: str) -> list[Event]:
    """All that runs wrote."""
    return [event for event in await log_of(where, id) if "run" in event.fields]


def over(log: list[Event]) -> bool:
    """Whether the first run has ended."""
    return bool(log) and (log[-1].kind, log[-1].fields["run"]) == ("run_finished", log[0].fields["run"])


@requirement("reliability.fence.7")
@pytest.mark.parametrize("where", ["postgres", "cluster"], indirect=True)
@pytest.mark.parametrize("how", ["send", "submit"])
async def test_an_agent_below_a_call_of_a_paused_process_writes_nothing_more(
    senders: Senders, where: list[str], tmp_path: Path, how: str
) -> None:
    for gate in ("delegate", "work"):
        (tmp_path / f"gate-{gate}").touch()
    with senders() as (one, two):
        if how == "send":
            one.say(["send", 0, "s", "delegate", {"key": "k"}])
        else:
            one.say(["submit", "s", "helper", {"prompt": "call-help"}])
        name = await asker(tmp_path, "call-help")
        (first, second), (other,) = ((one, two) if name == "one" else (two, one)), set(PROCESSES) - {name}
        os.kill(first.process.pid, signal.SIGSTOP)
        second.until(["asked", other, "call-help"])
        (tmp_path / "gate-call-help").touch()
        while not over(before := await runs_of(where, "s")):
            pass
        os.kill(first.process.pid, signal.SIGCONT)
        first.until(["replies", name, "call-help"])
        first.say(["send", 0, "t", "call-help", {}])  # when it is answered, all that came before it is written
        assert outcome(first, "call-help")[1:] == ["done", "answered"]
    assert await runs_of(where, "s") == before
    assert [event.kind for event in before].count("run_started") == (2 if how == "send" else 1)
    assert len(lines(tmp_path / "worked")) == 2  # one of them is that of the last message


@requirement("reliability.fence.8")
@pytest.mark.parametrize("where", ["postgres"], indirect=True)
async def test_a_paused_process_makes_no_call_of_a_run_that_another_has_ended(
    senders: Senders, where: list[str], tmp_path: Path
) -> None:
    for gate in ("gate-pay", "stop-one-accepted"):
        (tmp_path / gate).touch()
    with senders() as (one, two):
        one.say(["send", 0, "s", "pay", {}])
        one.until(["stops", "one", "accepted"])
        two.say(["interrupt", "s"])
        two.until("interrupted")
        while not over(before := await runs_of(where, "s")):
            pass
        os.kill(one.process.pid, signal.SIGCONT)
        one.say(["send", 0, "t", "next", {}])
        (tmp_path / "gate-next").touch()
        assert outcome(one, "next")[1:] == ["done", "answered"]
    assert await runs_of(where, "s") == before
    assert not [event for event in await log_of(where, "s") if event.kind == "accepted"]
    assert not lines(tmp_path / "paid")


@requirement("reliability.fence.8")
@pytest.mark.parametrize("where", ["postgres"], indirect=True)
async def test_a_paused_process_ends_no_run_below_a_call_that_another_has_ended_meanwhile(
    senders: Senders, where: list[str], tmp_path: Path
) -> None:
    for gate in ("one-attempt", "gate-delegate", "gate-again", "gate-next", "stop-two-run_finished-helper"):
        (tmp_path / gate).touch()
    with senders() as (one, two):
        one.say(["send", 0, "s", "delegate", {}])
        one.until(["asked", "one", "call-help"])
        os.kill(one.process.pid, signal.SIGSTOP)
        two.until(["stops", "two", "run_finished-helper"])  # the call was given up, and its run is about to be ended
        (tmp_path / "gate-call-help").touch()
        os.kill(one.process.pid, signal.SIGCONT)
        one.say(["send", 0, "s", "again", {}])
        assert outcome(one, "again")[1:] == ["done", "answered"]
        os.kill(two.process.pid, signal.SIGCONT)
        two.say(["send", 0, "s", "next", {}])
        assert outcome(two, "next")[1:] == ["done", "answered"]
    ends = [event.fields for event in await log_of(where, "s") if event.kind == "run_finished"]
    assert len({end["run"] for end in ends}) == len(ends) == 4
    assert [end["reason"] for end in ends if end["agent"] == "helper"] == ["cancelled"]


@requirement("reliability.send.3")
@pytest.mark.parametrize("where", ["postgres"], indirect=True)
async def test_a_process_that_was_paused_while_a_call_ran_follows_the_run_that_another_has_moved_on(
    senders: Senders, where: list[str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate-call"
    gate.touch()
    with senders() as (one, two):
        one.say(["send", 0, "s", "call", {"key": "k"}])
        one.until(["works", "one"])
        gate.unlink()
        os.kill(one.process.pid, signal.SIGSTOP)
        two.until(["works", "two"])
        (tmp_path / "gate-work").touch()
        two.until(["asked", "two", "call"])  # the turn of the call is over
        os.kill(one.process.pid, signal.SIGCONT)
        two.say(["send", 0, "s", "call", {"key": "k"}])
        (tmp_path / "gate-next").touch()
        one.say(["send", 0, "t", "next", {}])  # by the time it is answered, it has read of the turn of the other one
        assert outcome(one, "next")[1:] == ["done", "answered"]
        gate.touch()
        assert outcome(one, "call") == (ended := outcome(two, "call"))
        assert ended[1:] == ["done", "answered"]
    kinds = [kind for kind, _ in turns(await log_of(where, "s"))]
    assert kinds == ["run_started", *["turn_started", "turn_finished"] * 2, "run_finished"]
    # What a model is asked costs money: a process that has read that it lost the run asks nothing more for it.
    assert lines(tmp_path / "asked_by").count("one call") == 1

"""Contract, acceptance 3: a tool asks, sends a mail, asks again; its process is killed at each point."""

from pathlib import Path
from typing import Any

import pytest

from tests.durability.processes import Script, lines, script

POINTS = ["start", "named", "before mail", "after mail", "mailed", "confirmed"]


class Mailer:
    """Lives of one process after the other over one store."""

    def __init__(self, folder: Path) -> None:
        self.store, self.mails = f"sqlite:///{folder}/log.db", folder / "mails"

    def live(self, point: str = "none") -> Any:
        return script("mailer.py", self.store, self.mails, point)


@pytest.fixture
def mailer(tmp_path: Path) -> Mailer:
    return Mailer(tmp_path)


def drive(one: Script, point: str) -> str:
    """Takes the call to the point, where it stops; its id."""
    one.until("ready")
    one.say(["submit"])
    said = [one.hear()] if point != "start" else [one.hear(), one.hear()]
    (call,) = (line for line in said if line != point)
    if point != "start":
        one.ask(["waits for", "Name?"])
        one.say(["answer", "Name?", "bob"])
    if point == "confirmed":
        one.until("answered")
        one.ask(["waits for", "Good?"])
        one.say(["answer", "Good?", None])
    if point != "start":
        one.until(point)
    return str(call)


@pytest.mark.parametrize("point", POINTS)
def test_killed_while_it_runs_one_mail_is_sent_at_most_and_the_call_ends_unknown(mailer: Mailer, point: str) -> None:
    with mailer.live(point) as one:
        call = drive(one, point)
    with mailer.live() as two:
        two.until("ready")
        assert two.ask(["result", call]) == "unknown"
    sent = 0 if POINTS.index(point) < POINTS.index("after mail") else 1
    assert lines(mailer.mails) == ["bob"] * sent


def test_killed_while_it_waits_exactly_one_mail_is_sent_and_no_answer_is_asked_for_twice(mailer: Mailer) -> None:
    with mailer.live() as one:
        one.until("ready")
        call = one.ask(["submit"])
        assert one.ask(["waits for", "Name?"]) == "waiting"
    with mailer.live() as two:
        two.until("ready")
        assert two.ask(["submit"]) == call, "the key finds the first call"
        two.ask(["answer", "Name?", "bob"])
        assert two.ask(["waits for", "Good?"]) == "waiting"
    assert lines(mailer.mails) == ["bob"]
    with mailer.live() as three:
        three.until("ready")
        three.ask(["answer", "Good?", None])
        assert three.ask(["result", call]) == "mail to bob: accept"
    assert lines(mailer.mails) == ["bob"]


def test_an_answer_that_was_acknowledged_survives_a_kill_right_behind_it(mailer: Mailer) -> None:
    with mailer.live() as one:
        one.until("ready")
        call = one.ask(["submit"])
        one.ask(["waits for", "Name?"])
        one.ask(["answer", "Name?", "bob"])
    with mailer.live() as two:
        two.until("ready")
        if two.ask(["waits for", "Good?"]) == "waiting":
            two.ask(["answer", "Good?", None])
            assert two.ask(["result", call]) == "mail to bob: accept"
            assert lines(mailer.mails) == ["bob"]
        else:
            assert two.ask(["result", call]) == "unknown"
            assert len(lines(mailer.mails)) <= 1

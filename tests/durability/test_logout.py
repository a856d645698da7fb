"""Several processes over one store without an engine: a call is stopped and a logout holds wherever calls run."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.durability.processes import Script, lines, script
from tests.requirements import requirement

Start = Callable[[], AbstractContextManager[Script]]
CLOSED = ["unavailable", "Session is closed"]
LOGOUT = ["timeout", "Timed out during logout"]


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    return tmp_path / "effects"


@pytest.fixture(params=["sqlite", "postgres"])
def start(request: pytest.FixtureRequest, tmp_path: Path, effects: Path) -> Start:
    url = f"sqlite:///{tmp_path}/log.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return lambda: script("neighbour.py", url, effects)


@pytest.fixture
def two(start: Start) -> Iterator[tuple[Script, Script]]:
    """Two processes that both have the session open."""
    with start() as one, start() as other:
        one.until("ready")
        other.until("ready")
        yield one, other


def begun(process: Script, tool: str, n: str = "1") -> str:
    """The id of a call that a process has begun to run."""
    process.say(["submit", tool, {"n": n}])
    said = {process.hear(), process.hear()}
    (call,) = said - {f"{tool} {n}"}
    return str(call)


@requirement("reliability.logout.3")
@pytest.mark.parametrize("tool", ["pay", "put"])
def test_a_call_is_cancelled_in_the_process_that_runs_it(two: tuple[Script, Script], tool: str) -> None:
    one, other = two
    call = begun(one, tool)
    assert other.ask(["cancel", call]) is True
    assert other.ask(["cancel", call]) is False
    assert one.ask(["ended", call]) == other.ask(["ended", call]) == ["cancelled", "Cancelled"]


@requirement("reliability.logout.3")
def test_an_interrupt_stops_what_another_process_runs(two: tuple[Script, Script]) -> None:
    one, other = two
    calls = [begun(one, "pay"), begun(one, "put")]
    assert other.ask(["interrupt"]) == 2
    assert [one.ask(["ended", call]) for call in calls] == [["cancelled", "Interrupted"]] * 2


@requirement("reliability.logout.3")
def test_a_process_that_stands_still_loses_the_call_that_is_cancelled(
    two: tuple[Script, Script], effects: Path
) -> None:
    one, other = two
    call = begun(one, "pay")
    one.process.send_signal(signal.SIGSTOP)
    assert other.ask(["cancel", call]) is True
    one.process.send_signal(signal.SIGCONT)
    one.say(["go on"])
    assert one.ask(["ended", call]) == other.ask(["ended", call]) == ["cancelled", "Cancelled"]
    assert lines(effects) == ["pay 1"]


@requirement("reliability.logout.2")
def test_a_logout_waits_for_what_another_process_runs(two: tuple[Script, Script]) -> None:
    one, other = two
    call = begun(one, "pay")
    other.say(["logout", 60])
    assert one.ask(["logged", "closing"]) == "closing"
    assert one.ask(["code", "look", {"n": "2"}]) == CLOSED
    one.say(["go on"])
    assert other.hear()[:2] == [1, 0]
    assert one.ask(["result", call]) == "paid 1"


@requirement("reliability.logout.2")
def test_a_logout_ends_at_its_timeout_what_another_process_runs(two: tuple[Script, Script]) -> None:
    one, other = two
    calls = [begun(one, "pay"), begun(one, "put")]
    assert other.ask(["logout", 0.2])[:2] == [0, 2]
    assert [one.ask(["ended", call]) for call in calls] == [LOGOUT, LOGOUT]


@requirement("reliability.logout.1")
@pytest.mark.parametrize("how", ["code", "submitted"])
def test_after_a_logout_no_process_takes_calls_until_it_is_opened_again(
    two: tuple[Script, Script], effects: Path, how: str
) -> None:
    one, other = two
    assert other.ask(["logout", 5])[:2] == [0, 0]
    for tool in ("look", "pay", "put"):
        assert one.ask([how, tool, {"n": "1"}]) == CLOSED
    assert lines(effects) == []
    assert one.ask(["open"]) == "opened"
    assert one.ask([how, "look", {"n": "2"}]) == [None, None]
    assert lines(effects) == ["look 2"]


@requirement("reliability.logout.2")
def test_a_logout_ends_a_read_that_another_process_had_begun_and_not_written(
    two: tuple[Script, Script], effects: Path
) -> None:
    one, other = two
    one.say(["code", "gaze", {"n": "1"}])
    assert one.hear() == "gaze 1"
    assert other.ask(["logout", 5])[:2] == [0, 0]  # nobody can know of it
    Path(f"{effects}.go").touch()
    assert one.hear() == LOGOUT
    assert one.ask(["code", "look", {"n": "2"}]) == CLOSED


@requirement("reliability.state.4")
def test_who_saw_the_end_of_a_call_finds_its_state_in_another_process(two: tuple[Script, Script]) -> None:
    one, other = two
    for n in range(1, 6):
        mine, theirs = (one, other) if n % 2 else (other, one)
        call = mine.ask(["submit", "count", {"by": 1}])
        assert theirs.ask(["result", call]) == 1
        assert theirs.ask(["state"]) == [{"n": n}, n]


@requirement("reliability.state.4")
def test_the_next_call_in_another_process_sees_what_the_last_one_changed(two: tuple[Script, Script]) -> None:
    one, other = two
    for n in range(1, 11):
        mine, theirs = (one, other) if n % 2 else (other, one)
        assert mine.ask(["call", "rename", {"name": f"name {n}"}]) == f"name {n}"
        assert theirs.ask(["call", "seen", {}]) == {"name": f"name {n}"}

"""What a dead process left is taken up by whoever lives, without a second service, though nobody opens its session."""

import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.durability.processes import Script, lines, script
from tests.requirements import requirement
from toolcrib.testing import services
from toolcrib.testing.services import execute

Start = Callable[[], Any]
LEASE_S = 2


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    return tmp_path / "effects"


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/log.db?lease={LEASE_S}"
    return f"{request.getfixturevalue('postgres_url')}?lease={LEASE_S}"


@pytest.fixture
def start(store: str, effects: Path) -> Start:
    return lambda: script("crew.py", store, effects)


def told(process: Script, *command: Any) -> Any:
    """What a process answers, past what it says of effects."""
    process.say([*command])
    while not isinstance(line := process.hear(), dict):
        pass
    return line["told"]


def submit(process: Script, tool: str, n: int, effect: str | None) -> str:
    """Submits a call, and waits until it has begun."""
    process.say(["submit", tool, {"n": n}])
    call: str | None = None
    while call is None or effect is not None:
        line = process.hear()
        call = line["told"] if isinstance(line, dict) else call
        effect = None if line == effect else effect
    return call


def leave(process: Script) -> dict[str, str]:
    """Calls of every kind, all under way when their process is killed; by what becomes of each."""
    process.until("ready")
    return {
        "once": submit(process, "pay", 1, "pay 1"),
        "idempotent": submit(process, "put", 2, "put 2"),
        "read": submit(process, "look", 3, "look 3"),
        "first": submit(process, "line", 4, "line 4"),
        "queued": submit(process, "line", 5, None),
        "parent": submit(process, "errand", 6, "put 6"),
    }


def check(process: Script, calls: dict[str, str], effects: Path) -> None:
    """All have ended as they had to, and nothing that is once happened twice."""
    codes = {name: told(process, "ended", call) for name, call in calls.items()}
    assert codes == {name: "unknown" if name == "once" else "ok" for name in calls}
    assert lines(effects).count("pay 1") == 1


@requirement("reliability.rescue.1")
def test_after_a_restart_calls_go_on_though_nobody_opens_their_session(start: Start, effects: Path) -> None:
    with start() as one:
        calls = leave(one)
    with start() as two:
        two.until("ready")
        two.say(["go on"])
        check(two, calls, effects)


@requirement("reliability.rescue.2")
def test_a_process_that_lives_on_takes_up_what_another_left(start: Start, effects: Path) -> None:
    with start() as two:
        two.until("ready")
        two.say(["go on"])
        with start() as one:
            calls = leave(one)
        check(two, calls, effects)


@requirement("reliability.rescue.2")
def test_of_several_processes_each_call_is_taken_up_by_one(start: Start, effects: Path) -> None:
    with start() as two, start() as three:
        for process in (two, three):
            process.until("ready")
            process.say(["go on"])
        with start() as one:
            calls = leave(one)
        check(two, calls, effects)
        check(three, calls, effects)
    assert sorted(lines(effects)) == sorted(["pay 1", *["put 2", "look 3", "line 4", "put 6"] * 2, "line 5"]), (
        "each ran once more, the one in the queue for the first time"
    )


@requirement("reliability.rescue.2")
def test_nobody_takes_up_what_a_living_process_runs(start: Start, effects: Path) -> None:
    with start() as one, start() as two:
        one.until("ready")
        two.until("ready")
        long = submit(one, "pay", 1, "pay 1")
        with start() as three:
            three.until("ready")
            left = submit(three, "pay", 2, "pay 2")
        assert told(two, "ended", left) == "unknown"  # by then somebody has looked for what the dead left
        one.say(["go on"])
        assert told(two, "ended", long) == "ok"
    assert lines(effects).count("pay 1") == 1


@requirement("reliability.rescue.3")
def test_a_call_whose_child_waits_goes_on_after_its_process_died(start: Start, effects: Path) -> None:
    with start() as one:
        one.until("ready")
        call = told(one, "submit", "introduce", {})
        question = told(one, "asked")
    with start() as two:
        two.until("ready")
        assert told(two, "answer", question, "bob") == "bob"
        assert told(two, "ended", call) == "ok"


@requirement("reliability.rescue.4")
def test_calls_of_a_copied_file_go_on_though_their_old_place_lives(tmp_path: Path, effects: Path) -> None:
    with script("crew.py", f"sqlite:///{tmp_path}/log.db", effects) as one:
        calls = {}
        one.until("ready")
        calls["idempotent"] = submit(one, "put", 2, "put 2")
        calls["once"] = submit(one, "pay", 1, "pay 1")
        for end in ("", "-wal", "-workers"):
            shutil.copy(f"{tmp_path}/log.db{end}", f"{tmp_path}/copy.db{end}")
        with script("crew.py", f"sqlite:///{tmp_path}/copy.db", effects) as two:
            two.until("ready")
            two.say(["go on"])
            check(two, calls, effects)


@requirement("reliability.rescue.4")
def test_calls_of_a_restored_dump_go_on_though_their_old_place_lives(postgres_url: str, effects: Path) -> None:
    with script("crew.py", postgres_url, effects) as one:
        one.until("ready")
        calls = {"idempotent": submit(one, "put", 2, "put 2"), "once": submit(one, "pay", 1, "pay 1")}
        with restored(postgres_url) as url, script("crew.py", f"{url}?lease={LEASE_S}", effects) as two:
            two.until("ready")
            two.say(["go on"])
            check(two, calls, effects)


@contextmanager
def restored(url: str) -> Iterator[str]:
    """Another database of the same server, made from a dump of this one."""
    name = f"restored_{secrets.token_hex(6)}"
    server, _, _ = url.rpartition("/")
    dump = subprocess.run([services._postgres("pg_dump"), url], check=True, capture_output=True)
    execute(url, f"CREATE DATABASE {name}")
    try:
        command = [services._postgres("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", f"{server}/{name}"]
        subprocess.run(command, input=dump.stdout, check=True, stdout=subprocess.DEVNULL)
        yield f"{server}/{name}"
    finally:
        execute(url, f"DROP DATABASE {name} WITH (FORCE)")

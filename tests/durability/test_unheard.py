"""Processes over one Postgres database that hear nothing of each other: what one decides holds in the others."""

import asyncio
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tests.durability.processes import Script, lines, script
from tests.faults.proxy import Proxy
from tests.requirements import requirement

CLOSED = ["unavailable", "Session is closed"]


class Link:
    """The way of one process to the database, by a proxy with a thread of its own."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._proxy = Proxy(url)
        self._run(self._proxy.start())
        self.url = self._proxy.url

    def _run(self, work: object) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)  # type: ignore[arg-type]
        future.result(60)

    def deafen(self) -> None:
        """From now on the process hears of nothing that others tell."""

        async def deafen() -> None:
            self._proxy.deafen()

        self._run(deafen())

    def close(self) -> None:
        """Ends all connections, and the thread."""
        self._run(self._proxy.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def linked(url: str) -> Iterator[Link]:
    """A link that is gone at the end."""
    link = Link(url)
    try:
        yield link
    finally:
        link.close()


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    return tmp_path / "effects"


@pytest.fixture
def deaf(postgres_url: str, effects: Path) -> Iterator[tuple[Script, Script]]:
    """Two processes that have the session open; the first does not hear what the second tells."""
    with linked(postgres_url) as link, script("neighbour.py", link.url, effects) as one:
        one.until("ready")
        with script("neighbour.py", postgres_url, effects) as other:
            other.until("ready")
            assert one.ask(["code", "look", {"n": "0"}]) == [None, None]
            link.deafen()
            yield one, other


@requirement("reliability.logout.5")
@pytest.mark.parametrize("tool", ["look", "seen", "rename", "pay"])
def test_after_a_logout_a_process_that_did_not_hear_of_it_runs_nothing(
    deaf: tuple[Script, Script], effects: Path, tool: str
) -> None:
    one, other = deaf
    arguments = {"seen": {}, "rename": {"name": "x"}}.get(tool, {"n": "1"})
    assert other.ask(["logout", 5])[:2] == [0, 0]
    assert one.ask(["code", tool, arguments]) == CLOSED
    assert lines(effects) == ["look 0"]
    assert one.ask(["open"]) == "opened"
    assert one.ask(["code", "look", {"n": "2"}]) == [None, None]


@requirement("reliability.logout.5")
def test_after_a_logout_a_process_that_stood_still_meanwhile_runs_nothing(
    deaf: tuple[Script, Script], effects: Path
) -> None:
    one, other = deaf
    one.process.send_signal(signal.SIGSTOP)
    assert other.ask(["logout", 5])[:2] == [0, 0]
    one.process.send_signal(signal.SIGCONT)
    assert one.ask(["code", "look", {"n": "1"}]) == CLOSED
    assert lines(effects) == ["look 0"]


@requirement("reliability.logout.6")
def test_rights_that_were_taken_away_are_gone_in_a_process_that_did_not_hear_of_it(
    deaf: tuple[Script, Script], effects: Path
) -> None:
    one, other = deaf
    assert other.ask(["narrow"]) == "narrowed"
    assert one.ask(["code", "look", {"n": "1"}])[0] == "denied"
    assert lines(effects) == ["look 0"]

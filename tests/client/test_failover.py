"""A client whose server is killed while it sends: it goes to the next address, and gets the outcome of the one run."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.client import clerk
from tests.client.place import Node
from tests.cluster.place import Process, until
from tests.durability.processes import lines
from tests.requirements import requirement
from toolcrib import Event
from toolcrib.client import RemoteCrib, RemoteSession

pytestmark = pytest.mark.process

SOON_S = 60.0
FIRST, BODY, TOLD = "charge-new", "body", "charge-told"
ALL = (FIRST, BODY, TOLD)


class Server(Process):
    """`toolcrib serve` at a port that it keeps."""

    def __init__(self, folder: Path, store: str, *engine: str, port: int | None = None) -> None:
        self.port = Node(folder).port if port is None else port
        self.url = f"http://127.0.0.1:{self.port}"
        super().__init__(
            command("serve", "--port", str(self.port), store=store, engine=engine),
            folder / f"server-{self.port}.log",
            {clerk.FOLDER: str(folder)},
        )

    async def listening(self) -> None:
        """Returns when it is there for clients."""
        await until(lambda: self.code is not None or any(self.url in line for line in self.said))
        assert self.code is None, self.said


def command(*words: str, store: str, engine: Sequence[str]) -> list[str]:
    """A command of ours over the crib of this test."""
    more = [word for one in engine for word in ("--engine", one)]
    return [sys.executable, "-m", "toolcrib", *words, "--crib", "tests.client.clerk:crib", "--store", store, *more]


@pytest.fixture(params=["sqlite", "postgres", "cluster"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The store, and the engine where there is one."""
    if request.param == "sqlite":
        return [f"sqlite:///{tmp_path}/log.db"]
    store = f"{request.getfixturevalue('postgres_url')}?lease=2"
    return [store] if request.param == "postgres" else [store, f"{request.getfixturevalue('nats_url')}?lease=2"]


@pytest.fixture
async def servers(where: list[str], tmp_path: Path) -> AsyncIterator[tuple[Server, Server]]:
    """Two servers on one store; in a cluster a worker runs their calls."""
    store, *engine = where
    both = Server(tmp_path, *where), Server(tmp_path, *where)
    words, env = command("worker", store=store, engine=engine), {clerk.FOLDER: str(tmp_path)}
    workers = [Process(words, tmp_path / "worker.log", env)] if engine else []
    try:
        for one in both:
            await one.listening()
        for worker in workers:
            await worker.ready()
        yield both
    finally:
        for process in (*both, *workers):
            process.kill()


@asynccontextmanager
async def client(*servers: Server) -> AsyncIterator[RemoteSession]:
    """A session as a client of these servers has it."""
    async with RemoteCrib(*(one.url for one in servers), patience=SOON_S) as crib:
        yield await crib.open("s")


async def asked(folder: Path, step: str, by: Process) -> None:
    """Returns when a process has asked the model for a reply."""
    await until(lambda: f"{step} {by.pid}" in lines(folder / "asked"), what=lambda: f"{lines(folder / 'asked')}")


async def taken_up(folder: Path, step: str, lost: Process) -> None:
    """Returns when another process has asked for it again: a server, or the worker of a cluster."""
    seen = folder / "asked"
    await until(lambda: set(lines(seen)) - {f"{step} {lost.pid}", f"{FIRST} {lost.pid}"}, what=lambda: f"{lines(seen)}")


def open_gates(folder: Path, *steps: str) -> None:
    for step in steps:
        (folder / f"gate-{step}").touch()


async def whole(session: RemoteSession) -> list[Event]:
    return [event async for event in session.events(follow=False)]


def count(log: list[Event]) -> Counter[str]:
    """How many runs, messages of users and ends there are."""
    return Counter(
        event.kind if event.kind != "message" else event.fields["role"]
        for event in log
        if event.kind in ("message", "run_started", "run_finished", "done")
    )


ONE_RUN = Counter(run_started=1, user=1, assistant=2, done=1, run_finished=1)


@requirement("reliability.send.5")
@pytest.mark.parametrize("step", [FIRST, TOLD])
async def test_a_client_whose_server_is_killed_gets_the_one_run_from_the_next(
    servers: tuple[Server, Server], tmp_path: Path, step: str
) -> None:
    one, two = servers
    async with client(one, two) as session:
        sending = asyncio.ensure_future(session.send("charge", key="k"))
        open_gates(tmp_path, *ALL[: ALL.index(step)])
        await asked(tmp_path, step, one)
        one.kill()
        await taken_up(tmp_path, step, one)
        open_gates(tmp_path, *ALL)
        async with asyncio.timeout(SOON_S):
            outcome = await sending
        assert (outcome.status, outcome.reason, outcome.answer) == ("done", "answered", "I did charge")
        assert await session.send("charge", key="k") == outcome
        log = await whole(session)
        assert count(log) == ONE_RUN
        assert {event.fields["run"] for event in log if event.kind.startswith("run_")} == {outcome.run}
        assert len(lines(tmp_path / "charged")) == 1
        assert session.crib.link.url == two.url


@requirement("reliability.send.5")
async def test_a_body_that_ran_in_the_killed_server_does_not_run_again(
    servers: tuple[Server, Server], where: list[str], tmp_path: Path
) -> None:
    one, two = servers
    async with client(one, two) as session:
        sending = asyncio.ensure_future(session.send("charge", key="k"))
        open_gates(tmp_path, FIRST)
        await until(lambda: lines(tmp_path / "charged"))
        one.kill()
        open_gates(tmp_path, BODY, TOLD)
        async with asyncio.timeout(SOON_S):
            assert (await sending).answer == "I did charge"
        log = await whole(session)
        (done,) = (event.fields for event in log if event.kind == "done")
        assert done["ok"] is (len(where) == 2)  # the worker of a cluster lives on; else nobody knows what came of it
        assert count(log) == ONE_RUN
        assert len(lines(tmp_path / "charged")) == 1


@requirement("reliability.send.5")
async def test_a_message_that_was_queued_where_its_server_is_killed_is_answered_at_the_next(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    one, two = servers
    async with client(one, two) as session, client(two) as there:
        first = asyncio.ensure_future(session.send("charge"))
        await asked(tmp_path, FIRST, one)
        second = asyncio.ensure_future(session.send("sing"))
        async for event in there.events():
            if event.kind == "message_queued":
                break
        one.kill()
        open_gates(tmp_path, *ALL, "sing-new")
        async with asyncio.timeout(SOON_S):
            outcomes = [await first, await second]
        assert [outcome.answer for outcome in outcomes] == ["I did charge", "I did sing"]
        found = count(await whole(there))
        assert found == Counter(run_started=2, user=2, assistant=3, done=1, run_finished=2)
        assert len(lines(tmp_path / "charged")) == 1


@requirement("reliability.send.5")
async def test_clients_that_send_the_same_key_to_both_servers_get_one_run_when_either_is_killed(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    one, two = servers
    async with client(one, two) as here, client(two, one) as there:
        sending = [asyncio.ensure_future(session.send("charge", key="k")) for session in (here, there)]
        await until(lambda: lines(tmp_path / "asked"))
        (begun,) = lines(tmp_path / "asked")
        first = one if begun == f"{FIRST} {one.pid}" else two
        first.kill()
        await taken_up(tmp_path, FIRST, first)
        open_gates(tmp_path, *ALL)
        async with asyncio.timeout(SOON_S):
            outcomes = [await each for each in sending]
        assert outcomes[0] == outcomes[1]
        assert count(await whole(here)) == ONE_RUN
        assert len(lines(tmp_path / "charged")) == 1


@requirement("reliability.send.5")
@pytest.mark.parametrize("where", ["sqlite", "postgres"], indirect=True)
async def test_a_client_goes_back_to_a_server_that_was_started_again(
    servers: tuple[Server, Server], where: list[str], tmp_path: Path
) -> None:
    one, two = servers
    async with client(one, two) as session:
        sending = asyncio.ensure_future(session.send("charge"))
        await asked(tmp_path, FIRST, one)
        one.kill()
        await asked(tmp_path, FIRST, two)
        again = Server(tmp_path, *where, port=one.port)
        try:
            await again.listening()
            two.kill()
            await asked(tmp_path, FIRST, again)
            open_gates(tmp_path, *ALL)
            async with asyncio.timeout(SOON_S):
                assert (await sending).answer == "I did charge"
            assert count(await whole(session)) == ONE_RUN
            assert len(lines(tmp_path / "charged")) == 1
        finally:
            again.kill()

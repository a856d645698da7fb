"""A store that is away while a call ends: what has happened is written as soon as it can be, and told then."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Crib, tool
from toolcrib._call import late_writes
from toolcrib.store.sqlite import connection
from toolcrib.testing.services import PostgresServer
from toolcrib.types import Effect

PATIENCE_S = 60


class Body:
    """A tool whose body waits until it is told to end; how often it ran."""

    def __init__(self, effect: Effect) -> None:
        self.ran = 0
        self.reached, self.go = asyncio.Event(), asyncio.Event()

        @tool(effect=effect)
        async def pay(cents: int) -> dict[str, int]:
            """Pay."""
            self.ran += 1
            self.reached.set()
            await self.go.wait()
            return {"paid": cents}

        self.tool: Any = pay


async def tried(caplog: pytest.LogCaptureFixture) -> None:
    """Returns when the end of the call was tried to be written, in vain."""
    async with asyncio.timeout(PATIENCE_S):
        while "cannot be recorded yet" not in caplog.text:  # noqa: ASYNC110 - the log tells nobody
            await asyncio.sleep(0.01)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes are given up and tried again soon."""
    monkeypatch.setattr(connection, "BUSY_MS", 50)
    monkeypatch.setattr(late_writes, "RETRY_S", 0.05)


@requirement("reliability.proof.12")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_the_end_of_a_call_waits_for_a_locked_file(
    tmp_path: Path, effect: Effect, caplog: pytest.LogCaptureFixture
) -> None:
    body, file = Body(effect), tmp_path / "log.db"
    async with Crib([body.tool], store=f"sqlite:///{file}") as crib:
        session = await crib.open("s", owner="ada")
        caller = asyncio.ensure_future(session.call("pay", {"cents": 5}))
        await asyncio.wait_for(body.reached.wait(), PATIENCE_S)
        await crib.store.flush()
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            body.go.set()
            await tried(caplog)
            assert not caller.done()
            other.execute("ROLLBACK")
        assert (await asyncio.wait_for(caller, PATIENCE_S)).data == {"paid": 5}
    await once_in_the_log(f"sqlite:///{file}", body)


@requirement("reliability.proof.12")
@pytest.mark.usefixtures("impatient")
async def test_the_end_of_a_call_waits_for_a_database_that_was_killed(
    own_postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    body = Body("once")
    async with Crib([body.tool], store=own_postgres.url) as crib:
        session = await crib.open("s", owner="ada")
        caller = asyncio.ensure_future(session.call("pay", {"cents": 5}))
        await asyncio.wait_for(body.reached.wait(), PATIENCE_S)
        await asyncio.to_thread(own_postgres.kill)
        body.go.set()
        await tried(caplog)
        await asyncio.to_thread(own_postgres.start)
        assert (await asyncio.wait_for(caller, PATIENCE_S)).data == {"paid": 5}
    await once_in_the_log(own_postgres.url, body)


async def once_in_the_log(store: str, body: Body) -> None:
    """After a restart the call has its one end, and was not run again."""
    async with Crib([body.tool], store=store) as crib:
        session = await crib.open("s", owner="ada")
        ends = [event async for event in session.events(follow=False) if event.kind in ("done", "settled")]
        assert [(event.kind, event.fields["data"]) for event in ends] == [("done", {"paid": 5})]
    assert body.ran == 1

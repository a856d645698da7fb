"""Postgres with a standby that every commit waits for: the first is killed, the second takes its place and address."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cluster.place import Place, again, codes, kinds, log, results, submit, until
from tests.requirements import requirement
from toolcrib.testing import services
from toolcrib.testing.services import HOST, PostgresServer, execute


class Standby(PostgresServer):
    """A copy of another server, which it follows until it is promoted."""

    def __init__(self, first: PostgresServer) -> None:
        super().__init__()
        self._first = first

    def _make(self, data: Path) -> None:
        (self.folder / "password").write_text(self._first.password)
        user = self._user()
        if user is not None:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        words = ["-D", str(data), "-h", HOST, "-p", str(self._first.port), "-U", "postgres", "-R", "-c", "fast"]
        subprocess.run(
            [services._postgres("pg_basebackup"), *words, "--no-sync"],
            cwd=self.folder,
            env={"PGPASSWORD": self._first.password},
            check=True,
            capture_output=True,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
        )


class Address:
    """An address that moves from one server to another; whoever was connected is cut off."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self._to = port
        self._open: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def served(self) -> AsyncIterator["Address"]:
        server = await asyncio.start_server(self._client, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        yield self
        server.close()
        self.move(self._to)

    def move(self, port: int) -> None:
        """From now on it leads there."""
        self._to = port
        for writer in self._open:
            writer.transport.abort()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self._to)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.transport.abort()
        self._open.discard(writer)


@pytest.fixture
def standby(own_postgres: PostgresServer) -> Iterator[PostgresServer]:
    with Standby(own_postgres) as server:
        execute(own_postgres.url, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        execute(own_postgres.url, "SELECT pg_reload_conf()")
        yield server


@requirement("engine.7", "store.9")
async def test_after_a_fail_over_all_that_was_acknowledged_is_there_and_all_goes_on(
    own_postgres: PostgresServer, standby: PostgresServer, nats_url: str, tmp_path: Path
) -> None:
    async with Address(own_postgres.port).served() as address:
        parts = urlsplit(own_postgres.url)
        moving = parts._replace(netloc=parts.netloc.replace(str(parts.port), str(address.port))).geturl()
        place = Place(moving, nats_url, tmp_path, lease=5)
        try:
            await place.workers(2)
            async with place.session() as session:
                running = await submit(session, "charge", range(50), wait="go")
                await place.happened(50, "charge")
                acknowledged: dict[int, str] = {}

                async def load() -> None:
                    for n in range(1000, 100_000):
                        call = await again(lambda n=n: session.submit("charge", {"n": n}, key=f"k{n}"))  # type: ignore[misc]
                        acknowledged[n] = call.id

                loading = asyncio.ensure_future(load())
                await until(lambda: len(acknowledged) > 20)
                own_postgres.kill()
                before = len(acknowledged)
                await asyncio.to_thread(execute, standby.url, "SELECT pg_promote()")
                address.move(standby.port)
                await until(lambda: len(acknowledged) > before + 20)
                loading.cancel()
                await asyncio.wait([loading])
                place.open("go")
                calls = running | acknowledged
                assert codes(await results(session, calls)) == {"ok": len(calls)}
                effects = place.effects("charge")
                assert {n: effects[n] for n in calls} == dict.fromkeys(calls, 1)
                assert max(effects.values()) == 1
                events = await log(session)
                assert all(kinds(events, call)[-1] == "done" for call in calls.values())
        finally:
            place.close()

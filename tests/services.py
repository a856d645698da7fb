"""Servers for tests that need them: each process of the test run starts its own when the first test asks.

Both are up within half a second and take 60 MB, so that sharing them between processes is not worth a protocol.
`TOOLCRIB_TEST_POSTGRES` and `TOOLCRIB_TEST_NATS` name servers that run already (`make services` prints both); on that
PostgreSQL server each test makes a database and drops it.
"""

import asyncio
import gc
import os
import secrets
import select
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from toolcrib.store.postgres.connection import DatabaseAddress
from toolcrib.store.postgres.migrations import migrate
from toolcrib.testing.services import NatsServer, PostgresServer, execute

NO_PIDFD = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="only Linux tells of the end of a process that is no child"
)

SHORT_LIVED = {
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_senders": "0",
    "shared_buffers": "32MB",
    "wal_level": "minimal",
}
"""Settings of a server that nobody kills and whose data nobody needs: databases are made with a tenth of the work."""

ROOM = 4 << 30
"""How many free bytes of memory are enough for the servers of all processes of a run."""


def ends(pid: int) -> list[int]:
    """What tells of the ends of all children of a process, also when that process is gone."""
    return [os.pidfd_open(child.pid) for child in psutil.Process(pid).children()]


def await_end(fds: list[int]) -> None:
    """Waits for these ends."""
    for fd in fds:
        assert select.select([fd], [], [], 60)[0], "it still lives"
        os.close(fd)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user reaches too, as whom PostgreSQL runs where we are root.

    The folder of pytest is closed to others, and closed again by every run of pytest that starts meanwhile.
    """
    with tempfile.TemporaryDirectory(prefix="toolcrib-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server that all tests of this process share."""
    if given := os.environ.get("TOOLCRIB_TEST_POSTGRES"):
        yield given
        return
    with postgres_in_memory(SHORT_LIVED) as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The name of a database with the tables of a store, of which copies are made: they are made faster than tables."""
    name = f"test_template_{secrets.token_hex(6)}"
    execute(postgres_server, f"CREATE DATABASE {name}")
    with ThreadPoolExecutor(1) as other:  # there may be a loop in our thread
        other.submit(asyncio.run, migrated(urlsplit(postgres_server)._replace(path=f"/{name}").geturl())).result()
        yield name
        other.submit(asyncio.run, dropped(postgres_server, name)).result()


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A database with the tables of a store, and nothing in them."""
    with made_database(postgres_server, postgres_template) as url:
        execute(url, "UPDATE schema_version SET cluster = substr(md5(gen_random_uuid()::text), 1, 12)")
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """A database without any tables."""
    with made_database(postgres_server) as url:
        yield url


def postgres_in_memory(settings: dict[str, str] | None = None) -> PostgresServer:
    """A server whose files lie in memory where there is room: a disk has much work with the hundreds of a database."""
    memory, before = Path("/dev/shm"), tempfile.tempdir
    if memory.is_dir() and shutil.disk_usage(memory).free > ROOM:
        tempfile.tempdir = str(memory)
    try:
        return PostgresServer(settings=settings)
    finally:
        tempfile.tempdir = before


@contextmanager
def made_database(server: str, template: str = "template1") -> Iterator[str]:
    """A copy of a database, which is dropped at the end."""
    name = f"test_{secrets.token_hex(6)}"
    execute(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")  # the log stays small
    yield urlsplit(server)._replace(path=f"/{name}").geturl()
    gc.collect()  # a connection that was left open is told of by the test that left it
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


async def migrated(url: str) -> None:
    """Makes the tables of a store in a database."""
    address = DatabaseAddress(url)
    connection = await address.connect(60)
    await migrate(connection, address)
    await connection.close()


async def dropped(server: str, name: str) -> None:
    """Drops a database without a process: the last test of all, in which this happens, may be one that starts none."""
    connection = await DatabaseAddress(server).connect(60)
    await connection.execute(f"DROP DATABASE {name}")
    await connection.close()


@pytest.fixture
def nats_url() -> Iterator[str]:
    """A NATS server without any streams: to start one takes no longer than to clean one up."""
    if given := os.environ.get("TOOLCRIB_TEST_NATS"):
        yield given
        return
    with NatsServer() as server:
        yield server.url


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server that this test alone uses, and may kill."""
    with postgres_in_memory() as server:
        yield server
        gc.collect()


@pytest.fixture
def own_nats() -> Iterator[NatsServer]:
    """A server that this test alone uses, and may kill."""
    with NatsServer() as server:
        yield server

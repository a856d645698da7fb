"""Servers for tests that need them: each process of the test run starts its own when the first test asks.

Both are up within half a second and take 60 MB, so that sharing them between processes is not worth a protocol.
`TOOLCRIB_TEST_POSTGRES` and `TOOLCRIB_TEST_NATS` name servers that run already (`make services` prints both); on that
PostgreSQL server each test makes a database and drops it.
"""

import gc
import os
import secrets
import select
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from toolcrib.testing.services import NatsServer, PostgresServer, execute

NO_PIDFD = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="only Linux tells of the end of a process that is no child"
)


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
    with PostgresServer() as server:
        yield server.url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A database without any tables."""
    name = f"test_{secrets.token_hex(6)}"
    execute(postgres_server, f"CREATE DATABASE {name}")
    yield urlsplit(postgres_server)._replace(path=f"/{name}").geturl()
    gc.collect()  # a connection that was left open is told of by the test that left it
    execute(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


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
    with PostgresServer() as server:
        yield server
        gc.collect()


@pytest.fixture
def own_nats() -> Iterator[NatsServer]:
    """A server that this test alone uses, and may kill."""
    with NatsServer() as server:
        yield server

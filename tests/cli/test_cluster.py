"""`toolcrib cluster`: real servers, real nodes, real kills."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.project import Project, Screen, command, environment
from tests.services import NO_PIDFD, await_end, ends
from toolcrib.cli.cluster_processes import NodeProcess, ProcessGroups
from toolcrib.cli.cluster_status import Rate
from toolcrib.cli.terminal import CommandError
from toolcrib.store.shared import Node
from toolcrib.testing.services import NatsServer, PostgresServer

READY = "print('ready', flush=True); import signal; signal.pause()"
ORDER = ["worker-1, worker-2 stopped", "api-1 stopped", "nats stopped", "postgres stopped"]


@pytest.fixture
def project(open_folder: Path) -> Project:
    """A project whose cluster may keep its data beside it."""
    return Project(open_folder)


class Cluster:
    """A cluster that tells of itself in JSON."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.view: dict[str, Any] = {}

    def until(self, wanted: Callable[["Cluster"], Any]) -> "Cluster":
        """Reads on until a view is as wanted."""
        assert self.process.stdout is not None
        for _ in range(60):
            line = self.process.stdout.readline()
            assert line, self.process.stderr and self.process.stderr.read()
            self.view = json.loads(line)
            if wanted(self):
                return self
        raise AssertionError(f"it never came: {self.view}")

    @property
    def alive(self) -> dict[str, Any]:
        """The nodes that live, by label."""
        return {node["label"]: node for node in self.view["nodes"] if node["state"] == "alive"}

    @property
    def dead(self) -> set[int]:
        """The processes that died."""
        return {node["pid"] for node in self.view["nodes"] if node["state"] == "dead"}

    @property
    def done(self) -> int:
        """How many calls the living nodes have ended."""
        return sum(node.get("done") or 0 for node in self.alive.values())

    def stop(self, number: signal.Signals) -> str:
        """Ends it; what it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return said


@contextmanager
def cluster(folder: Path, *words: str) -> Iterator[Cluster]:
    with subprocess.Popen(
        command("cluster", "up", "--json", *words),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Cluster(process)
        finally:
            process.terminate()
            process.communicate(timeout=60)


def where(running: Cluster) -> tuple[str, ...]:
    """What a command says to work in that cluster."""
    return ("--store", running.view["store"], "--engine", running.view["engine"])


def password(running: Cluster) -> str:
    """The password in the URL of its store, as it stands there."""
    return f":{urlsplit(running.view['store']).password}"


def up(*labels: str) -> Callable[[Cluster], bool]:
    """All of these live."""
    return lambda seen: {*labels} <= seen.alive.keys()


ALL = up("postgres", "nats", "api-1", "worker-1", "worker-2")


def test_a_cluster_runs_a_load_until_it_is_told_to_stop(open_folder: Path) -> None:
    with cluster(open_folder, "--load", "40") as running:
        running.until(ALL).until(lambda seen: seen.done > 40 and seen.view["rate"])
        said = running.stop(signal.SIGTERM)
    assert running.process.returncode == 0
    assert [line for line in said.splitlines() if line in ORDER] == ORDER
    assert not (open_folder / ".toolcrib/cluster/postgres/data/postmaster.pid").exists()


def test_a_worker_that_is_killed_is_shown_dead_and_started_again(open_folder: Path) -> None:
    with cluster(open_folder, "--workers", "1") as running:
        pid = running.until(up("worker-1")).alive["worker-1"]["pid"]
        os.kill(pid, signal.SIGKILL)
        running.until(lambda seen: pid in seen.dead)
        running.until(lambda seen: seen.alive.get("worker-1", {"pid": pid})["pid"] != pid)
        said = running.stop(signal.SIGINT)
    assert running.process.returncode == 130
    assert said.index("worker-1 died") < said.index("worker-1 runs again")


def test_services_that_are_killed_are_started_again(open_folder: Path) -> None:
    with cluster(open_folder, "--workers", "1", "--load", "20") as running:
        running.until(lambda seen: up("worker-1")(seen) and seen.done)
        for label in ("nats", "postgres"):
            pid = running.alive[label]["pid"]
            os.kill(pid, signal.SIGKILL)
            running.until(lambda seen, name=label, old=pid: seen.alive.get(name, {"pid": old})["pid"] != old)  # type: ignore[misc]
        before = running.until(up("worker-1")).done
        running.until(lambda seen: seen.done > before)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Project, Cluster]]:
    """A cluster, and the project that runs in it."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-test-", ignore_cleanup_errors=True) as folder:
        project = Project(Path(folder))
        with cluster(project.folder) as running:
            yield project, running.until(ALL)


def test_a_call_of_another_terminal_runs_in_the_cluster(shared: tuple[Project, Cluster]) -> None:
    project, running = shared
    before = running.done
    ran = project.run("call", "refund", "-a", "order=7", "-a", "cents=500", "--yes", *where(running))
    assert "paid 500" in ran.out
    running.until(lambda seen: seen.done > before)
    assert project.paid == ["500"]


def test_the_status_of_a_cluster_is_shown_once(shared: tuple[Project, Cluster]) -> None:
    project, running = shared
    project.run("call", "refund", "-a", "order=7", "-a", "cents=500", *where(running), code=3)
    shown = project.run("cluster", "status", *where(running)).out
    assert all(word in shown for word in ("worker-2", "shop.refund", "1 waiting"))


def test_the_status_of_a_cluster_is_told_in_json(shared: tuple[Project, Cluster]) -> None:
    project, running = shared
    project.run("call", "send", *where(running), code=3)
    told = project.run("cluster", "status", "--json", *where(running)).json
    assert {"lane": "default", "tool": "mail.send", "queued": 0, "running": 0, "waiting": 1} in told["lanes"]
    assert {node["label"] for node in told["nodes"]} == {"postgres", "nats", "api-1", "worker-1", "worker-2"}
    assert told["store"] == running.view["store"].replace(password(running), "")


def test_services_that_are_named_are_used_and_not_started(
    project: Project, own_postgres: PostgresServer, own_nats: NatsServer
) -> None:
    with cluster(project.folder, "--store", own_postgres.url, "--engine", own_nats.url, "--workers", "1") as running:
        running.until(up("postgres", "nats", "worker-1"))
        assert running.alive["postgres"]["pid"] is None
        assert "postgres stopped" not in running.stop(signal.SIGTERM)
    assert own_postgres.pid is not None


def test_the_data_of_a_cluster_is_kept(project: Project) -> None:
    for _ in range(2):
        with cluster(project.folder, "--workers", "1", "--data", str(project.folder / "kept")) as running:
            running.until(up("worker-1"))
            project.run("call", "find", "-a", "order=7", "-s", "mine", *where(running))
            events = project.run("store", "check", "--json", *where(running)).json["events"]
            running.stop(signal.SIGTERM)
    assert events > 4


@NO_PIDFD
def test_nothing_outlives_a_cluster_that_is_killed(open_folder: Path) -> None:
    with cluster(open_folder, "--workers", "1") as running:
        running.until(up("worker-1"))
        left = ends(running.process.pid)
        assert len(left) == 2 * len(["postgres", "nats", "api-1", "worker-1"]), "each has its watch"
        running.process.kill()
        await_end(left)


def test_a_cluster_is_drawn_on_a_terminal(open_folder: Path) -> None:
    with Screen(["cluster", "up", "--workers", "1", "--load", "5"], open_folder) as screen:
        screen.expect("export TOOLCRIB_STORE=").expect("call desk.").expect("calls/s").expect("worker-1")
        screen.press("\x03").expect("worker-1 stopped").expect("postgres stopped")
        assert screen.ended() == 130


def test_a_cluster_is_told_in_lines_through_a_pipe(project: Project) -> None:
    with project.start("cluster", "up", "--workers", "1") as process:
        assert process.stdout is not None
        assert "0 queued  0 running  0 waiting" in process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=60) == 0


def test_a_crib_that_does_not_hold_is_said_before_anything_starts(project: Project) -> None:
    project.write("crib.yaml", "sources: [no_such_module]\n")
    assert "no_such_module" in project.run("cluster", "up", code=2).err
    assert not (project.folder / ".toolcrib").exists()


def test_a_load_needs_a_tool_to_call(project: Project) -> None:
    project.write("crib.yaml", "sources: []\n")
    assert "no read-only tool with an example" in project.run("cluster", "up", "--load", "1", code=2).err


def test_a_store_of_one_machine_has_no_cluster(project: Project) -> None:
    assert "a store that machines share" in project.run("cluster", "status", code=2).err


# Minding


def child(tmp_path: Path, program: str) -> NodeProcess:
    return NodeProcess("one", [sys.executable, "-c", program], dict(os.environ), tmp_path, 5)


async def test_a_process_that_dies_is_started_again_three_times_and_then_left_alone(tmp_path: Path) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    crew = ProcessGroups(lambda text, style: said.put_nowait(text))
    await crew.start(one := child(tmp_path, READY))
    crew.mind()
    for _ in range(4):
        while await said.get() not in ("one runs", "one runs again"):
            pass
        assert one.pid is not None
        os.kill(one.pid, signal.SIGKILL)
    assert await said.get() == "one died"
    assert (await said.get()).startswith("one died 3 times within a minute")
    await crew.stop()


async def test_a_process_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="one did not start: nothing is as it was"):
        await ProcessGroups(lambda text, style: None).start(
            child(tmp_path, "raise SystemExit('Error: nothing is as it was')")
        )


async def test_a_process_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"
    one = NodeProcess("one", [sys.executable, "-c", stubborn], dict(os.environ), tmp_path, -4.9)
    await one.start()
    await one.stop()
    assert one.pid is None


def beat(name: str, done: int, age: float) -> Node:
    return Node(name, {"done": done}, 0, age, alive=True)


def test_a_rate_is_told_from_heartbeats_and_not_from_when_they_were_looked_at() -> None:
    rate = Rate()
    assert rate.take([beat("a", 1000, 0)], 1.0) is None
    assert rate.take([beat("a", 1000, 1)], 2.0) is None
    assert rate.take([beat("a", 1020, 1)], 4.0) == 10
    assert rate.take([beat("a", 1020, 2)], 5.0) == 10


def test_a_node_that_starts_anew_or_is_gone_does_not_spoil_the_rate() -> None:
    rate = Rate()
    rate.take([beat("a", 1000, 0), beat("b", 0, 0)], 1.0)
    assert rate.take([beat("a", 1010, 0), beat("c", 0, 0)], 2.0) == 10
    assert rate.take([beat("c", 5, 0)], 3.0) == 15
    assert rate.take([beat("c", 5 * 20, 0)], 22.0) is None
    assert rate.take([beat("c", 5 * 21, 0)], 23.0) == 5

"""Whatever tools, servers and disks do, a process ends in time; and it starts without what is not there yet."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.durability.processes import script
from tests.faults.shim import NONE, Page, build
from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib.client import RemoteCrib
from toolcrib.testing.services import PostgresServer

PATIENCE_S = 60.0
TOOLS = """
import asyncio
from toolcrib import tool

@tool(idempotent=True)
async def stubborn() -> None:
    "Goes on when it is cancelled."
    while True:
        try:
            await asyncio.sleep(1000)
        except BaseException:
            continue

@tool(read_only=True)
async def ping() -> str:
    "Answers."
    return "pong"
"""


def toolcrib(folder: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    """A command of ours as a process of its own."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}", "PYTHONUNBUFFERED": "1", **more}
    return subprocess.Popen(
        [sys.executable, "-m", "toolcrib", *words],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until(process: subprocess.Popen[str], word: str) -> list[str]:
    """What it prints up to a line with that word."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"it ended with {process.wait()}: {''.join(lines)}")


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Tells it to stop; its exit code, and what else it printed."""
    process.send_signal(number)
    said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


@requirement("reliability.stop.1")
@pytest.mark.parametrize("name", ["again", "swallow", "thread"])
def test_a_program_ends_though_a_tool_does_not(name: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    with script("stubborn.py", url, name) as program:
        call = program.hear()
        program.until("stopped")
        assert program.process.wait(PATIENCE_S) == 0
    assert _state(tmp_path / "log.db", call) == "running"  # it is left to recovery


def _state(file: Path, call: str) -> str:
    with sqlite3.connect(file) as db:
        ((state,),) = db.execute("SELECT state FROM calls WHERE id = ?", (call,)).fetchall()
    return str(state)


@requirement("reliability.stop.1")
def test_a_server_ends_though_a_tool_swallows_its_cancellation(tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(TOOLS)
    (tmp_path / "crib.yaml").write_text("sources: [kit]\nstore: sqlite:///log.db\n")
    server = toolcrib(tmp_path, "serve", "--port", "0", "--json")
    asyncio.run(_begin(json.loads(until(server, "ready")[-1])["ready"]))
    code, said = end(server)
    assert code == 0, said


async def _begin(url: str) -> None:
    async with RemoteCrib(url) as crib:
        session = await crib.open("s", namespaces=["*"])
        call = await session.submit("stubborn")
        async for event in session.events(call=call.id):
            if event.kind == "started":
                return


MUTE = """
sources:
  - kit
  - {mcp: "sleep 1000", name: mute%s}
store: sqlite:///log.db
"""


@requirement("reliability.stop.5")
def test_a_server_is_ready_though_an_mcp_server_never_answers(tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(TOOLS)
    (tmp_path / "crib.yaml").write_text(MUTE % "")
    server = toolcrib(tmp_path, "serve", "--port", "0")
    try:
        said = "".join(until(server, "Ctrl-C stops"))
        if "mute has not answered" not in said:  # which may come first where all else takes long
            said += "".join(until(server, "mute has not answered"))
        assert "did not answer within" not in said  # which comes when its time to start is up
    finally:
        code, said = end(server)
    assert code == 0, said


@requirement("reliability.stop.5")
def test_a_required_mcp_server_is_waited_for_and_missed(tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(TOOLS)
    (tmp_path / "crib.yaml").write_text((MUTE % ", required: true").replace("sleep 1000", "false"))
    server = toolcrib(tmp_path, "serve", "--port", "0")
    said, _ = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 1
    assert "A required MCP server is missing: mute" in said


@requirement("reliability.stop.6")
def test_a_server_waits_for_postgres_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(TOOLS)
    (tmp_path / "crib.yaml").write_text("sources: [kit]\n")
    with PostgresServer() as postgres:
        postgres.stop()
        server = toolcrib(tmp_path, "serve", "--port", "0", "--store", postgres.url, TOOLCRIB_WAIT="120")
        try:
            until(server, "waiting for it, up to")
            postgres.start()
            until(server, "Ctrl-C stops")
        finally:
            code, said = end(server)
        assert code == 0, said


@requirement("reliability.stop.6")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_waits_for_postgres_ends_when_it_is_told_to(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(TOOLS)
    (tmp_path / "crib.yaml").write_text("sources: [kit]\n")
    places = ("--store", "postgresql://nobody@127.0.0.1:1/none", "--engine", "nats://127.0.0.1:1")
    worker = toolcrib(tmp_path, "worker", *places, TOOLCRIB_WAIT="600")
    until(worker, "waiting for it, up to")
    code, said = end(worker, number)
    assert code == 0, said


@requirement("reliability.stop.6")
def test_a_server_gives_up_when_its_wait_is_over(tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(TOOLS)
    (tmp_path / "crib.yaml").write_text("sources: [kit]\n")
    place = "postgresql://nobody@127.0.0.1:1/none"
    server = toolcrib(tmp_path, "serve", "--port", "0", "--store", place, TOOLCRIB_WAIT="1")
    said, _ = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 1
    assert "nothing listens at 127.0.0.1:1" in said


@contextmanager
def small_disk(folder: Path, size: str = "64k") -> Iterator[Path]:
    """A disk that is full very soon."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False).returncode:
        pytest.skip("a small disk can only be made by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@requirement("reliability.stop.4")
@pytest.mark.parametrize("size", ["8k", "64k", "120k"])
def test_a_full_disk_at_the_first_start_is_one_clear_error(size: str, tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(TOOLS)
    (tmp_path / "crib.yaml").write_text("sources: [kit]\nstore: sqlite:///disk/log.db\n")
    with small_disk(tmp_path / "disk", size):
        server = toolcrib(tmp_path, "serve", "--port", "0")
        said, _ = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 1
    assert len([line for line in said.splitlines() if "is full" in line]) == 1, said


FILLED = """
import ctypes
import os
import struct
from pathlib import Path

from toolcrib import Crib
from toolcrib.sources import Source

PAGE, DISK = os.environ["FULL_PAGE"], os.environ["FULL_BELOW"]
ctypes.CDLL(None).faults_attach(PAGE.encode(), DISK.encode(), b"", 0)


class Filler(Source):
    name = "filler"

    async def start(self, changed):
        "The store is open, and nothing is recovered yet: from here on the disk is as full as the test says."
        with open(PAGE, "r+b") as page:
            page.seek(8)
            page.write(struct.pack("=q", int(Path("full").exists())))
        return []

    async def stop(self):
        pass


@tool(idempotent=True)
async def again() -> str:
    "Is done at once when it runs again."
    return "done"


crib = Crib([Filler(), again], store=f"sqlite:///{DISK}log.db")
"""


@requirement("reliability.stop.4")
def test_a_disk_without_space_for_recovery_is_one_clear_error_and_the_next_start_recovers(tmp_path: Path) -> None:
    shim, disk = build(tmp_path), tmp_path / "disk"
    if shim is None:
        pytest.skip(NONE)
    disk.mkdir()
    (tmp_path / "kit.py").write_text(TOOLS + FILLED)
    (tmp_path / "full").touch()
    with script("stubborn.py", f"sqlite:///{disk}/log.db", "again") as program:
        call = program.hear()
    page = Page(tmp_path / "page", disk, None, sockets=False)
    words = ("serve", "--port", "0", "--crib", "kit:crib")
    preloaded = {"LD_PRELOAD": str(shim), "FULL_PAGE": page.config["page"], "FULL_BELOW": page.config["below"]}
    server = toolcrib(tmp_path, *words, **preloaded)
    said, _ = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 1
    assert len([line for line in said.splitlines() if "is full" in line]) == 1, said
    assert _state(disk / "log.db", call) == "running"
    (tmp_path / "full").unlink()
    page.reset()
    server = toolcrib(tmp_path, *words, **preloaded)
    until(server, "Ctrl-C stops")
    end(server)
    assert _state(disk / "log.db", call) == "done"

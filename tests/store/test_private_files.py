"""Files that hold a log, or a copy of one, belong to their owner alone, whatever the umask."""

import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import requirement
from toolcrib import Crib, tool
from toolcrib.store.private_files import create_private

SCRIPT = """
import asyncio, os, signal, sys
from toolcrib import Crib, tool

@tool
async def note(text: str) -> str:
    "Note."
    return text

async def main():
    async with Crib([note], store="sqlite:///log.db") as crib:
        session = await crib.open("s-1", owner="ada")
        await session.call("note", {"text": "x"})
        os.kill(os.getpid(), signal.SIGKILL)  # so that WAL and index stay as they are

asyncio.run(main())
"""


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *words], cwd=folder, umask=0, capture_output=True, timeout=120, check=False)


@requirement("security.secret.5")
@pytest.mark.process
def test_no_file_of_a_store_is_for_others(tmp_path: Path) -> None:
    run(tmp_path, "-c", SCRIPT)
    assert modes(tmp_path) == dict.fromkeys(("log.db", "log.db-wal", "log.db-shm", "log.db-workers"), 0o600)


@requirement("security.secret.5")
@pytest.mark.process
def test_no_backup_restored_file_or_export_is_for_others(tmp_path: Path) -> None:
    run(tmp_path, "-c", SCRIPT)
    (tmp_path / "crib.yaml").write_text("store: sqlite:///log.db\n")
    for words in (
        ("store", "backup", "log.backup"),
        ("store", "restore", "log.backup", "--store", "sqlite:///again.db"),
        ("store", "vacuum"),
        ("sessions", "export", "s-1", "s-1.jsonl"),
    ):
        ran = run(tmp_path, "-m", "toolcrib", *words)
        assert ran.returncode == 0, ran.stderr.decode()
    open_to_others = {name for name, mode in modes(tmp_path).items() if mode & 0o077}
    assert open_to_others == {"crib.yaml"}
    assert {"again.db", "log.backup", "s-1.jsonl"} <= set(modes(tmp_path))


@requirement("security.secret.5")
async def test_a_file_that_was_open_to_others_is_closed_when_it_is_used(tmp_path: Path) -> None:
    @tool
    async def note() -> str:
        """Note."""
        return "noted"

    path = tmp_path / "log.db"
    sqlite3.connect(path).close()
    path.touch()
    path.chmod(0o664)
    async with Crib([note], store=f"sqlite:///{path}") as crib:
        await (await crib.open(owner="ada")).call("note")
        assert {mode & 0o077 for mode in modes(tmp_path).values()} == {0}


@requirement("security.secret.5")
def test_a_link_in_the_place_of_a_new_file_leads_nowhere(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "log.backup.part"
    victim.write_text("mine")
    path.symlink_to(victim)
    with create_private(path) as file:
        file.write(b"theirs")
    assert victim.read_text() == "mine"
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

"""The archive on the command line: sweeping, listing, reading, checking, backing up."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.archive.test_archive import files_of
from tests.cli.project import Project
from tests.requirements import requirement

pytestmark = pytest.mark.process
SHOP = "sources: [shop_tools]\nstore: sqlite:///shop.db\nretention: 1d\narchive: file:old\n"


@pytest.fixture
def archived(project: Project) -> Project:
    """A project whose one session is in the archive."""
    project.write("crib.yaml", SHOP)
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    with closing(sqlite3.connect(project.folder / "shop.db")) as db, db:
        db.execute("UPDATE sessions SET updated_at = 1")
    assert "1 session put into the archive" in project.run("sweep").out
    return project


@requirement("scale.archive.2", "scale.archive.8")
def test_archived_sessions_are_listed_and_read_by_every_command(archived: Project) -> None:
    assert archived.run("sessions", "list", "--json").json == []
    (one,) = archived.run("sessions", "list", "--archived", "--json").json
    assert one["id"] == "s-1"
    assert "s-1" in archived.run("sessions", "list", "--archived").out
    assert "find" in archived.run("sessions", "show", "s-1").out
    archived.run("sweep")
    assert "done" in archived.run("sessions", "watch", "s-1", "--no-follow").out
    archived.run("sweep")
    archived.run("sessions", "export", "s-1", "s-1.jsonl")
    assert (archived.folder / "s-1.jsonl").read_text().startswith('{"toolcrib":"session"')


@requirement("scale.archive.7")
def test_a_backup_has_what_is_archived_and_a_check_reads_every_file(archived: Project) -> None:
    assert "1 session more in the archive" in archived.run("store", "backup", "shop.backup").out
    archived.run("sessions", "show", "s-1")  # it is back, and its file stays for the backup
    assert "are of no archived session" in archived.run("store", "verify", "--archive").out
    for path in archived.folder.glob("shop.db*"):
        path.unlink()
    archived.run("store", "restore", "shop.backup")
    assert "1 archived session read" in archived.run("store", "verify", "--archive").out
    assert "find" in archived.run("sessions", "show", "s-1").out
    archived.run("sweep")
    (path,) = files_of(f"file://{archived.folder / 'old'}")
    path.write_bytes(b"damaged")
    checked = archived.run("store", "verify", "--archive", "--json", code=1)
    assert [one["session"] for one in checked.json["differences"]] == ["s-1"]


def test_an_archive_that_is_none_is_told_with_its_line(project: Project) -> None:
    project.write("crib.yaml", SHOP.replace("file:old", "ftp://old"))
    assert "crib.yaml:4: archive" in project.run("tools", "list", code=2).err


def test_a_check_without_an_archive_says_so(project: Project, tmp_path: Path) -> None:
    project.write("crib.yaml", SHOP.replace("archive: file:old\n", ""))
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    assert "has no archive" in project.run("store", "verify", "--archive", code=1).err

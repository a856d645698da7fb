"""`toolcrib store` and `toolcrib sweep`."""

import sqlite3
from contextlib import closing

from tests.cli.project import Project


def test_a_store_is_checked(project: Project) -> None:
    project.run("call", "find", "-a", "order=1")
    project.wait_for_refund()
    found = project.run("store", "check", "--json").json
    assert found["url"].endswith("/shop.db")
    assert found["schema"] >= 1
    assert (found["sessions"], found["events"]) == (2, 7)
    assert (found["calls"]["done"], found["calls"]["waiting"]) == (1, 1)


def test_a_store_that_is_not_there_is_said_and_not_made(project: Project) -> None:
    ran = project.run("store", "check", code=1)
    assert "There is no store yet" in ran.err
    assert not (project.folder / "shop.db").exists()


def test_a_file_that_is_no_store_is_said_without_a_stack(project: Project) -> None:
    project.write("shop.db", "this is no database " * 100)
    ran = project.run("store", "check", code=1)
    assert "Can not open" in ran.err
    assert "Traceback" not in ran.err


def test_log_and_index_agree(project: Project) -> None:
    project.run("call", "rows")
    question = project.wait_for_refund()["question"]["id"]
    project.run("call", "send", code=3)
    project.run("answer", question, "accept")
    assert "3 sessions folded: log and index agree." in project.run("store", "verify").out


def test_an_index_that_lies_is_found(project: Project) -> None:
    call = project.wait_for_refund()["call"]
    with closing(sqlite3.connect(project.folder / "shop.db")) as db, db:
        db.execute("UPDATE calls SET state = 'done' WHERE id = ?", (call,))
    db.close()
    ran = project.run("store", "verify", code=1)
    assert "state: the log says 'waiting', the index 'done'" in ran.out


def test_sweeping_counts_first_and_then_deletes(project: Project) -> None:
    project.write("crib.yaml", "sources: [shop_tools]\nstore: sqlite:///shop.db\nretention: 1d\n")
    project.run("call", "find", "-a", "order=1")
    with closing(sqlite3.connect(project.folder / "shop.db")) as db, db:
        db.execute("UPDATE sessions SET updated_at = 0")
    db.close()
    assert "1 session would be deleted, unused for 24 h." in project.run("sweep", "--dry-run").out
    assert project.run("sweep", "--json").json["swept"] == 1
    assert project.run("sessions", "list", "--json").json == []


def test_nothing_is_swept_without_retention(project: Project) -> None:
    project.write("crib.yaml", "sources: [shop_tools]\nstore: sqlite:///shop.db\nretention: null\n")
    project.run("call", "find", "-a", "order=1")
    assert "Retention is off" in project.run("sweep").out

"""`toolcrib store` and `toolcrib sweep`."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.cli.project import Project, Screen, until
from tests.requirements import requirement
from toolcrib.cli.store import without_password
from toolcrib.store.schema import migrations


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
    assert "Cannot open" in ran.err
    assert "Traceback" not in ran.err


def test_log_and_index_agree(project: Project) -> None:
    project.run("call", "rows")
    question = project.wait_for_refund()["question"]["id"]
    project.run("call", "send", code=3)
    project.run("answer", question, "accept")
    assert "3 sessions folded: log, index and roll-ups agree." in project.run("store", "verify").out


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


# The schema


def sql(project: Project, *statements: str) -> list[tuple[Any, ...]]:
    """What plain SQL does to the file; the rows of the last statement."""
    with closing(sqlite3.connect(project.folder / "shop.db")) as db, db:
        return [db.execute(statement).fetchall() for statement in statements][-1]


@requirement("store.7")
def test_migrating_tells_from_which_schema_to_which(project: Project) -> None:
    newest = migrations()[-1][0]
    assert f"Migrated from schema 0 to {newest}." in project.run("store", "migrate").out
    assert f"Schema {newest} is up to date." in project.run("store", "migrate").out
    found = project.run("store", "migrate", "--json").json
    assert (found["from"], found["to"]) == (newest, newest)
    assert project.run("store", "check", "--json").json["schema"] == newest


@requirement("store.7")
def test_a_file_of_the_first_schema_is_migrated_with_all_that_is_in_it(project: Project) -> None:
    first = migrations()[0][1]
    with closing(sqlite3.connect(project.folder / "shop.db")) as db:
        db.executescript(f"{first} PRAGMA user_version = 1; INSERT INTO sessions VALUES (1, 's', 'ada', 0, 1, 1);")
    assert "Migrated from schema 1 to" in project.run("store", "migrate").out
    assert [row["id"] for row in project.run("sessions", "list", "--json").json] == ["s"]
    assert sql(project, "SELECT count(*) FROM session_tool_state") == [(1,)]


@requirement("store.7")
def test_a_store_of_a_newer_program_is_not_migrated(project: Project) -> None:
    project.run("store", "migrate")
    sql(project, "PRAGMA user_version = 99")
    assert "has schema 99" in project.run("store", "migrate", code=1).err


def test_a_store_without_a_schema_has_nothing_to_migrate(project: Project) -> None:
    project.write("crib.yaml", "sources: [shop_tools]\nstore: 'memory:'\n")
    assert "nothing to migrate" in project.run("store", "migrate").out


@requirement("scale.partitions.4")
def test_a_store_in_postgresql_is_divided_with_its_sessions(project: Project, postgres_url: str) -> None:
    where = ("--store", postgres_url)
    project.run("call", "find", "-a", "order=1", *where)
    before = project.run("sessions", "list", "--json", *where).json
    assert "up to date" in project.run("store", "migrate", "--partitions", "2", *where).out
    assert project.run("sessions", "list", "--json", *where).json == before
    assert len(before) == 1
    project.run("store", "verify", *where)
    project.run("call", "find", "-a", "order=2", *where)


def test_only_a_store_in_postgresql_is_divided(project: Project) -> None:
    assert "Only a store in PostgreSQL" in project.run("store", "migrate", "--partitions", "2", code=2).err


def test_a_password_is_never_shown() -> None:
    shown = [without_password(f"postgresql://{who}db.example:5432/shop?x=a:b@c") for who in ("ada:geheim@", "ada@", "")]
    assert shown == [f"postgresql://{who}db.example:5432/shop?x=a:b@c" for who in ("ada@", "ada@", "")]


# Rebuilding


WRONG = {
    "a row is gone": "DELETE FROM calls WHERE id = (SELECT max(id) FROM calls WHERE state = 'done')",
    "all rows are gone": "DELETE FROM calls",
    "a wrong state": "UPDATE calls SET state = 'running' WHERE state = 'done'",
    "a wrong code": "UPDATE calls SET code = 'failed' WHERE code IS NULL",
    "a wrong end": "UPDATE calls SET done_seq = done_seq + 1 WHERE state = 'done'",
    "a wrong beginning": "UPDATE calls SET accepted_seq = 1",
    "a wrong effect": "UPDATE calls SET effect = 'read'",
    "a wrong question": "UPDATE calls SET question = 'x-1' WHERE state = 'waiting'",
    "a wrong expiry": "UPDATE calls SET expires_at = 1 WHERE state = 'waiting'",
    "a row too many": "INSERT INTO calls SELECT 'extra', session, tool, effect, 'done', 1, NULL, 1, 0, NULL, NULL, "
    "NULL, NULL, NULL, 0, 1, 2 FROM calls LIMIT 1",
    "calls of another session": "UPDATE calls SET session = (SELECT max(n) FROM sessions)",
}


@requirement("store.2")
@pytest.mark.parametrize("statement", WRONG.values(), ids=WRONG.keys())
def test_an_index_that_lies_is_made_anew_from_the_log_and_calls_go_on(project: Project, statement: str) -> None:
    project.run("call", "find", "-a", "order=1")
    project.run("call", "find", "-a", "order=0", code=1)
    waiting = project.wait_for_refund()
    before = sql(project, "SELECT id, session, tool, effect, state, attempt, code, done_seq FROM calls ORDER BY id")
    sql(project, statement)
    project.run("store", "verify", code=1)
    assert "from the log." in project.run("store", "rebuild").out
    assert "log, index and roll-ups agree" in project.run("store", "verify").out
    after = sql(project, "SELECT id, session, tool, effect, state, attempt, code, done_seq FROM calls ORDER BY id")
    assert after == before
    assert project.run("answer", waiting["question"]["id"], "accept", "--json").json["data"] == "paid 500"


@requirement("store.2")
def test_a_dry_run_tells_what_is_wrong_and_changes_nothing(project: Project) -> None:
    project.wait_for_refund()
    sql(project, "DELETE FROM calls")
    ran = project.run("store", "rebuild", "--dry-run")
    assert "is in the log, not in the index" in ran.out
    assert "1 of 1 session would be rebuilt from the log." in ran.out
    assert sql(project, "SELECT count(*) FROM calls") == [(0,)]
    found = project.run("store", "rebuild", "--json").json
    assert (found["sessions"], found["rebuilt"], len(found["differences"]), found["left"]) == (1, 1, 1, [])
    assert "nothing to rebuild" in project.run("store", "rebuild").out


def test_what_the_log_itself_lacks_cannot_be_mended(project: Project) -> None:
    project.run("call", "find", "-a", "order=1")
    sql(project, "DELETE FROM events WHERE kind = 'started'")
    ran = project.run("store", "rebuild", code=1)
    assert "the log itself is damaged" in ran.err


def test_nothing_is_rebuilt_under_calls_that_are_running_unless_forced(project: Project) -> None:
    with project.start("call", "wait_for_ever") as running:
        until(running.stderr, "waiting")
        ran = project.run("store", "rebuild", code=1)
        assert "1 call is at work in a process that lives" in ran.err
        assert "--force" in ran.err
        assert "nothing to rebuild" in project.run("store", "rebuild", "--force").out
        assert project.run("store", "rebuild", "--dry-run").code == 0
    assert "nothing to rebuild" in project.run("store", "rebuild").out


def test_a_terminal_sees_the_rebuild_advance(project: Project) -> None:
    project.run("call", "find", "-a", "order=1")
    with Screen(["store", "rebuild"], project.folder) as screen:
        screen.expect("Rebuilding").expect("nothing to rebuild")
        assert screen.ended() == 0


# Backups


@requirement("reliability.keep.4", "reliability.keep.5")
def test_a_store_is_backed_up_and_restored_elsewhere(project: Project) -> None:
    project.run("call", "find", "-a", "order=1")
    made = project.run("store", "backup", "shop.backup", "--json").json
    assert (made["store"], made["sessions"], made["events"]) == ("sqlite", 1, 4)
    assert "exists" in project.run("store", "backup", "shop.backup", code=1).err
    assert "shop.db exists" in project.run("store", "restore", "shop.backup", code=1).err
    ran = project.run("store", "restore", "shop.backup", "--store", "sqlite:///other.db")
    assert "1 session with 4 events restored to sqlite:///other.db." in ran.out
    assert "1 session folded" in project.run("store", "verify", "--store", "sqlite:///other.db").out
    (project.folder / "shop.backup").write_bytes((project.folder / "shop.backup").read_bytes()[:100])
    refused = project.run("store", "restore", "shop.backup", "--store", "sqlite:///third.db", code=1)
    assert "nothing was restored" in refused.err
    assert not (project.folder / "third.db").exists()


@requirement("reliability.keep.2")
def test_a_copy_without_its_wal_is_used_once_its_loss_is_accepted(project: Project) -> None:
    project.run("call", "find", "-a", "order=1")
    sql(project, "PRAGMA application_id = 1413698133")
    assert "without its -wal" in project.run("store", "verify", code=1).out
    assert "without its -wal" in project.run("sessions", "list", code=1).err
    project.run("store", "rebuild", "--accept-loss")
    assert "1 session folded" in project.run("store", "verify").out


@requirement("console.overview.3")
def test_roll_ups_that_lie_are_found_and_made_anew(project: Project) -> None:
    project.run("call", "find", "-a", "order=1")
    assert project.run("store", "verify").err == ""
    with closing(sqlite3.connect(project.folder / "shop.db")) as db, db:
        assert db.execute("UPDATE rollups SET count = count + 1 WHERE cube = 'hours' AND what = 'call'").rowcount
    db.close()
    assert "the log says 1, the roll-up 2" in project.run("store", "verify", code=1).out
    assert "0 of 1 session, and the roll-ups rebuilt from the log." in project.run("store", "rebuild").out
    project.run("store", "verify")

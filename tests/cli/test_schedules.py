"""`toolcrib schedules`: calls that wait for their time, made by whoever runs when they are due."""

import sqlite3

from tests.cli.project import Project
from tests.requirements import requirement


@requirement("schedules.call.7")
def test_a_schedule_is_added_listed_and_cancelled(project: Project) -> None:
    assert "Nothing waits" in project.run("schedules", "list").err
    project.run("call", "find", "-a", "order=1", "--session", "s-1", "--owner", "ada")
    made = project.run("schedules", "add", "s-1", "find", '{"order": "7"}', "--cron", "0 9 * * 1-5", "--json").json
    (one,) = project.run("schedules", "list", "--owner", "ada", "--json").json
    assert (one["id"], one["args"], one["cron"], one["missed"]) == (made["id"], {"order": "7"}, "0 9 * * 1-5", "once")
    assert made["id"] in project.run("schedules", "list").out
    assert project.run("schedules", "list", "--owner", "bob", "--json").json == []
    assert "Cancelled" in project.run("schedules", "cancel", made["id"]).out
    assert "was over" in project.run("schedules", "cancel", made["id"]).out
    assert project.run("schedules", "list", "--json").json == []


@requirement("schedules.call.7")
def test_a_wrong_time_is_an_error_that_says_what_to_write(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    for times, text in (
        (("--after", "soon"), "write it as 90s"),
        (("--at", "tomorrow"), "2027-01-31T09:00"),
        (("--cron", "* *"), "cron"),
    ):
        done = project.run("schedules", "add", "s-1", "find", '{"order": "7"}', *times, code=None)
        assert (done.code != 0, text in done.err) == (True, True)


@requirement("schedules.call.7", "findings.words.7")
def test_a_session_that_is_not_there_and_a_time_that_is_past_are_told(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    assert "No such session: s-2" in project.run("schedules", "list", "--session", "s-2", code=1).err
    words = ("schedules", "add", "s-1", "find", '{"order": "7"}', "--at", "2001-01-01T00:00Z")
    assert "is called at once, since its time is past" in project.run(*words).err
    assert "No calls of a tool 'fnd'" in project.run("audit", "--tool", "fnd").err


@requirement("schedules.call.7")
def test_a_call_that_is_due_is_made_by_the_next_program(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    made = project.run("schedules", "add", "s-1", "find", '{"order": "7"}', "--after", "3s", "--json").json
    with sqlite3.connect(project.folder / "shop.db") as db:  # as if it had been due while nothing ran
        db.execute("UPDATE calls SET expires_at = expires_at - 10 WHERE id = ?", (made["id"],))
    project.run("call", "find", "-a", "order=2", "--session", "s-1")
    shown = project.run("sessions", "show", "s-1", "--json").json
    assert "7" in [call["result"]["data"]["order"] for call in shown["completed"]]

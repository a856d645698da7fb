"""`toolcrib sessions`: looking at what happened, which changes nothing."""

import json
import signal

from tests.cli.project import Project, until
from tests.requirements import requirement


def test_sessions_are_listed_with_what_waits(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1", "--owner", "ada")
    waiting = project.wait_for_refund()["session"]
    rows = {row["id"]: row for row in project.run("sessions", "list", "--json").json}
    assert (rows["s-1"]["owner"], rows["s-1"]["waiting"]) == ("ada", 0)
    assert rows[waiting]["waiting"] == 1


def test_the_list_is_narrowed_by_owner(project: Project) -> None:
    for owner in ("ada", "bob"):
        project.run("call", "find", "-a", "order=1", "--owner", owner)
    assert [row["owner"] for row in project.run("sessions", "list", "--owner", "bob", "--json").json] == ["bob"]


def test_no_sessions_yet_is_no_error_and_makes_no_store(project: Project) -> None:
    assert "No sessions yet" in project.run("sessions", "list").err
    assert not (project.folder / "shop.db").exists()


def test_a_session_is_shown_as_three_lists_and_its_questions(project: Project) -> None:
    waiting = project.wait_for_refund()
    project.run("call", "find", "-a", "order=1", "--session", waiting["session"])
    out = project.run("sessions", "show", waiting["session"]).out
    assert "Unresolved (1)" in out
    assert "Ongoing (0)" in out
    assert "Completed (1)" in out
    assert f"toolcrib answer {waiting['question']['id']} accept" in out


def test_a_long_session_shows_its_last_calls(project: Project) -> None:
    for order in "123":
        project.run("call", "find", "-a", f"order={order}", "--session", "s-1")
    shown = project.run("sessions", "show", "s-1", "--last", "2", "--json").json
    assert [call["result"]["data"]["order"] for call in shown["completed"]] == ["2", "3"]
    assert shown["completed_total"] == 3


def test_looking_writes_nothing_to_the_log(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    before = project.run("sessions", "watch", "s-1", "--no-follow", "--json").lines
    project.run("sessions", "show", "s-1")
    project.run("sessions", "list")
    assert project.run("sessions", "watch", "s-1", "--no-follow", "--json").lines == before


def test_looking_does_not_take_up_what_a_crash_left_behind(project: Project) -> None:
    with project.start("call", "wait_for_ever", "--session", "s-1") as process:
        until(process.stderr, "waiting")
        process.kill()
    (call,) = project.run("sessions", "show", "s-1", "--json").json["ongoing"]
    assert call["status"] == "running"


def test_an_unknown_session_names_the_nearest(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "invoices")
    assert "did you mean invoices?" in project.run("sessions", "show", "invoice", code=1).err


def test_the_log_is_told_line_by_line(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    lines = project.run("sessions", "watch", "s-1", "--no-follow").out.splitlines()
    assert [line.split()[2] for line in lines] == ["opened", "accepted", "started", "done"]
    assert 'shop.find {"order":"1"}' in lines[1]


def test_the_log_goes_on_past_an_event(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    events = project.run("sessions", "watch", "s-1", "--after", "2", "--no-follow", "--json").lines
    assert [event["seq"] for event in events] == [3, 4]


def test_a_session_is_followed_while_another_process_writes(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    with project.start("sessions", "watch", "s-1", "--json") as watch:
        until(watch.stdout, '"done"')
        project.run("call", "rows", "--session", "s-1")
        news = [json.loads(line)["kind"] for line in until(watch.stdout, '"done"').splitlines()]
        watch.send_signal(signal.SIGINT)
        _, err = watch.communicate(timeout=60)
    assert news[:3] == ["opened", "accepted", "started"]
    assert news.count("output") == 3
    assert err == ""


def test_a_reader_that_leaves_early_is_no_error(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    with project.start("sessions", "watch", "s-1", "--json") as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        until(watch.stdout, '"opened"')
        watch.stdout.close()
        project.run("call", "rows", "--session", "s-1")
        assert watch.stderr.read() == ""
    assert watch.returncode == 0


# Whole sessions


@requirement("reliability.keep.7", "reliability.keep.8")
def test_a_session_is_exported_deleted_and_imported_again(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    assert "events of s-1 written to s-1.jsonl." in project.run("sessions", "export", "s-1", "s-1.jsonl").out
    assert "exists" in project.run("sessions", "export", "s-1", "s-1.jsonl", code=1).err
    assert project.run("sessions", "delete", "s-1", "--json").json["session"] == "s-1"
    assert project.run("sessions", "list", "--json").json == []
    assert "toolcrib.delete_session" in project.run("audit").out
    assert project.run("sessions", "import", "s-1.jsonl", "--owner", "eve", "--json").json["owner"] == "eve"
    assert "There is a session 's-1'" in project.run("sessions", "import", "s-1.jsonl", code=1).err
    assert "folded: log, index and roll-ups agree" in project.run("store", "verify").out

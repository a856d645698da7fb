"""`toolcrib approvals`: questions of any session, seen and answered from any process."""

import json
import signal
import time
from pathlib import Path
from typing import Any

from tests.cli.project import Project, Screen, command, until
from tests.requirements import requirement

CTRL_C, CTRL_D = "\x03", "\x04"
EDITOR = """\
import json, sys
from pathlib import Path
path = Path(sys.argv[1])
said = json.loads(Path({answers!r}).read_text())
path.write_text(said.pop(0))
Path({answers!r}).write_text(json.dumps(said))
"""


def ask(project: Project, cents: int = 500, session: str = "s-1", owner: str = "ada") -> str:
    """A refund that waits; the id of its question."""
    given = ("-a", "order=7", "-a", f"cents={cents}", "-s", session, "-o", owner)
    return str(project.run("call", "refund", *given, "--json", code=3).json["question"]["id"])


def on_screen(project: Project, *words: str, **env: str) -> Screen:
    return Screen(["approvals", *words], project.folder, **env)


def editor(project: Project, *texts: str) -> dict[str, str]:
    """An editor that writes these texts, one each time it is opened."""
    answers = project.write("answers.json", json.dumps(texts))
    script = project.write("editor.py", EDITOR.format(answers=str(answers)))
    return {"EDITOR": f"{command()[0]} {script}", "VISUAL": ""}


# Looking


@requirement("policy.approve.6")
def test_questions_of_all_sessions_are_listed_also_after_their_processes_ended(project: Project) -> None:
    first, second = ask(project), ask(project, session="s-2", owner="bob")
    listed = project.run("approvals", "list", "--json").json
    assert [(one["id"], one["session"], one["owner"]) for one in listed] == [
        (first, "s-1", "ada"),
        (second, "s-2", "bob"),
    ]
    assert [one["id"] for one in project.run("approvals", "list", "--owner", "bob", "--json").json] == [second]
    assert [one["id"] for one in project.run("approvals", "list", "--session", "s-1", "--json").json] == [first]
    assert project.run("approvals", "list", "--session", "s-1", "--owner", "bob", "--json").json == []
    assert project.paid == []


def test_a_list_is_a_table_with_who_what_and_how_long(project: Project) -> None:
    question = ask(project)
    head, row = project.run("approvals", "list").out.splitlines()
    assert head.split() == ["Question", "Session", "Owner", "Tool", "Kind", "Prompt", "Asked", "Expires"]
    assert row.startswith(f"{question}  s-1      ada    shop.refund  confirm  Allow shop.refund?")
    assert row.endswith("in 24 h")


def test_a_list_of_nothing_says_so_and_makes_no_store(project: Project) -> None:
    assert "Nothing waits" in project.run("approvals", "list").err
    assert project.run("approvals", "list", "--json").json == []
    assert not (project.folder / "shop.db").exists()


def test_a_question_is_shown_with_arguments_reason_digest_and_who_asked(project: Project) -> None:
    question = ask(project)
    said = project.run("approvals", "show", question, "--json").json
    assert said["arguments"] == {"order": "7", "cents": 500}
    assert (said["reason"], said["state"], said["answer"]) == ("the tool is destructive", "open", None)
    assert said["verdict"]["effect"] == "ask"
    assert said["by"]["kind"] == "user"
    shown = project.run("approvals", "show", question)
    for words in ("Reason    the tool is destructive", f"Digest    {said['digest']}", "s-1, of ada", '"cents": 500'):
        assert words in shown.out
    assert f"toolcrib approvals approve {question}" in shown.err


def test_an_answered_question_shows_who_answered(project: Project) -> None:
    question = ask(project)
    project.run("approvals", "approve", question, "--actor", "ada", "--reason", "fine")
    said = project.run("approvals", "show", question, "--json").json
    assert (said["state"], said["answer"]["actor"], said["answer"]["reason"]) == ("answered", "ada", "fine")
    assert "accept by ada" in project.run("approvals", "show", question).out


def test_a_question_that_wants_a_value_shows_its_schema(project: Project) -> None:
    question = project.run("call", "send", "--json", code=3).json["question"]["id"]
    assert '"minLength":2' in project.run("approvals", "show", question).out
    refused = project.run("approvals", "approve", question, code=1)
    assert "The question wants an answer, not an approval" in refused.err
    assert f"toolcrib answer {question} accept VALUE" in refused.err


# Answering


def test_an_approval_runs_the_call_once_and_shows_its_result(project: Project) -> None:
    ran = project.run("approvals", "approve", ask(project), "--actor", "ada")
    assert (ran.out, project.paid) == ("paid 500\n", ["500"])


def test_a_second_approval_is_refused_and_the_same_key_is_not(project: Project) -> None:
    question = ask(project)
    words = ("approvals", "approve", question, "--actor", "ada")
    assert project.run(*words, "--key", "k-1").out == "paid 500\n"
    assert project.run(*words, "--key", "k-1").out == "paid 500\n"
    refused = project.run(*words, code=1)
    assert "Error: The question was answered by ada" in refused.err
    late = project.run("approvals", "decline", question, "--reason", "no", "--actor", "ada", code=1)
    assert "Error: The question was answered by ada" in late.err
    assert project.paid == ["500"]


def test_a_declined_call_ends_with_the_reason(project: Project) -> None:
    question = ask(project)
    ran = project.run("approvals", "decline", question, "--reason", "too much", "--actor", "ada")
    assert ran.out == "Declined: shop.refund (too much)\n"
    (call,) = project.run("sessions", "show", "s-1", "--json").json["completed"]
    assert call["result"]["failure"]["code"] == "declined"
    assert project.paid == []


def test_a_decline_needs_a_reason(project: Project) -> None:
    assert "--reason" in project.run("approvals", "decline", ask(project), code=2).err


def test_changed_arguments_run_and_unfit_ones_leave_the_question_open(project: Project) -> None:
    question = ask(project)
    words = ("approvals", "edit", question, "--actor", "ada", "--args")
    refused = project.run(*words, '{"cents": "lots"}', code=1)
    assert "The changed arguments do not fit: cents" in refused.err
    assert "the question is still open" in refused.err
    assert len(project.run("approvals", "list", "--json").json) == 1
    assert project.run(*words, '{"cents": 3}').out == "paid 3\n"
    assert project.paid == ["3"]


def test_an_edit_needs_a_terminal_or_what_changes(project: Project) -> None:
    assert "say what changes: --args" in project.run("approvals", "edit", ask(project), code=2).err


def test_a_question_that_was_never_asked_is_not_found(project: Project) -> None:
    question = ask(project)
    for forged in ("c0-1", f"{question}7", question.rpartition("-")[0]):
        for words in (("show",), ("approve",), ("decline", "--reason", "no"), ("edit", "--args", "{}")):
            ran = project.run("approvals", words[0], forged, *words[1:], code=1)
            assert f"Error: No such question: {forged}" in ran.err
    assert json.loads(project.run("approvals", "approve", "c0-1", "--json", code=1).err)["error"]["code"] == "not_found"


def test_an_expired_question_cannot_be_answered(project: Project) -> None:
    project.write("crib.yaml", "sources: [shop_tools]\nstore: sqlite:///shop.db\nlimits: {confirm_s: 0.2}\n")
    question = ask(project)
    time.sleep(0.3)
    ran = project.run("approvals", "approve", question, "--actor", "ada", code=1)
    assert ran.err.startswith("Error: The question")
    assert project.paid == []


def test_an_approval_for_the_session_settles_what_it_covers(project: Project) -> None:
    first, _ = ask(project), ask(project)
    offer = project.run("approvals", "show", first, "--json").json["offer"]
    assert offer is not None
    project.run("approvals", "approve", first, "--scope", "session", "--actor", "ada")
    assert project.run("approvals", "list", "--json").json == []
    assert project.paid == ["500", "500"]


def test_what_offers_nothing_for_the_session_can_be_approved_once(project: Project) -> None:
    source = "from toolcrib import tool\n@tool(requires_confirmation=True)\nasync def arm() -> str:\n    '''Arms.'''\n"
    project.write("shop_tools.py", f"{source}    return 'armed'\n")
    question = project.run("call", "arm", "--json", code=3).json["question"]["id"]
    refused = project.run("approvals", "approve", question, "--scope", "session", code=1)
    assert "offers nothing for the session" in refused.err
    assert project.run("approvals", "approve", question).out == "armed\n"


# The editor


def test_an_editor_changes_the_arguments_until_they_fit(project: Project) -> None:
    question = ask(project)
    texts = ("{", '{"order": "7", "cents": "x"}', '{"order": "7", "cents": 9}')
    with on_screen(project, "edit", question, "--actor", "ada", **editor(project, *texts)) as screen:
        screen.expect("That is no JSON").expect("Edit again?").press("y\n")
        screen.expect("cents: expected integer").expect("Edit again?").press("y\n")
        assert screen.ended() == 0
    assert project.paid == ["9"]


def test_an_editor_that_changes_nothing_leaves_the_question_open(project: Project) -> None:
    question = ask(project)
    with on_screen(project, "edit", question, EDITOR="true", VISUAL="") as screen:
        assert screen.ended() == 1
    assert "Nothing was changed" in screen.shown
    with on_screen(project, "edit", question, EDITOR="no-such-editor", VISUAL="") as screen:
        assert screen.ended() == 1
    assert "cannot be started" in screen.shown
    assert len(project.run("approvals", "list", "--json").json) == 1


# Watching


def test_a_watch_through_a_pipe_tells_of_each_question_as_it_comes(project: Project) -> None:
    first = ask(project)
    with project.start("approvals", "watch", "--json") as process:
        assert json.loads(until(process.stdout, first))["owner"] == "ada"
        second = ask(project, session="s-2", owner="bob")
        told: dict[str, Any] = json.loads(until(process.stdout, second))
        assert (told["session"], told["owner"], told["arguments"]["cents"]) == ("s-2", "bob", 500)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")


def test_a_watch_of_one_owner_tells_nothing_of_others(project: Project) -> None:
    ask(project)
    theirs = ask(project, session="s-2", owner="bob")
    with project.start("approvals", "watch", "--owner", "bob") as process:
        line = until(process.stdout, theirs)
    assert line.count("\n") == 1
    assert f"{theirs} s-2 of bob confirm: Allow shop.refund?" in line


def test_a_person_answers_questions_of_any_session_as_they_come(project: Project) -> None:
    ask(project, 1)
    with on_screen(project, "watch", **editor(project, '{"order": "7", "cents": 4}')) as screen:
        screen.expect("shop.refund in session s-1 of ada").expect("cents = 1").expect("Allow it?").press("y\n")
        screen.expect("✓ shop.refund: paid 1")
        ask(project, 2, "s-2")
        screen.expect("s-2").expect("Allow it?").press("n\n").expect("Why?").press("too much\n")
        screen.expect("[declined] too much")
        ask(project, 3, "s-3")
        screen.expect("s-3").expect("Allow it?").press("e\n").expect("paid 4")
        ask(project, 5, "s-4")
        screen.expect("s-4").expect("Allow it?").press("s\n").expect("Skipped.")
        screen.press(CTRL_C)
        assert screen.ended() == 130
    assert "Traceback" not in screen.shown
    assert project.paid == ["1", "4"]
    assert [one["session"] for one in project.run("approvals", "list", "--json").json] == ["s-4"]


def test_an_answer_from_elsewhere_ends_the_asking_of_a_watch(project: Project) -> None:
    question = ask(project)
    with on_screen(project, "watch") as screen:
        screen.expect("Allow it?")
        project.run("approvals", "approve", question, "--actor", "ada")
        screen.expect("It was answered elsewhere")
        ask(project, 2, "s-2")
        screen.expect("s-2").expect("Allow it?").press(CTRL_D).expect("Skipped.").press(CTRL_C)
        assert screen.ended() == 130
    assert project.paid == ["500"]


def test_an_interrupt_at_a_question_of_a_watch_leaves_it_open(project: Project) -> None:
    ask(project)
    with on_screen(project, "watch") as screen:
        screen.expect("Allow it?").press(CTRL_C)
        assert screen.ended() == 130
    assert len(project.run("approvals", "list", "--json").json) == 1


def test_another_store_is_looked_at_when_it_is_named(project: Project, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    words = ("call", "refund", "-a", "order=7", "-a", "cents=5", "--json")
    question = project.run("--store", other, *words, code=3).json["question"]["id"]
    assert project.run("approvals", "list", "--json").json == []
    assert project.run("--store", other, "approvals", "list", "--json").json[0]["id"] == question
    assert project.run("--store", other, "approvals", "approve", question).out == "paid 5\n"


def test_a_question_of_a_cluster_is_answered_by_its_id_and_a_worker_runs_the_call(
    project: Project, postgres_url: str, nats_url: str
) -> None:
    where = ("--store", postgres_url, "--engine", nats_url)
    words = ("call", "refund", "-a", "order=7", "-a", "cents=5", "-s", "s-1", "-o", "ada", "--json")
    question = project.run(*where, *words, code=3).json["question"]["id"]
    assert project.run(*where, "approvals", "list", "--json").json[0]["id"] == question
    with project.start(*where, "worker") as worker:
        ran = project.run(*where, "approvals", "approve", question, "--actor", "ada")
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    assert (ran.out, project.paid) == ("paid 5\n", ["5"])
    (entry,) = project.run(*where, "audit", "--json").lines
    assert (entry["approver"], entry["outcome"]) == ("ada", "succeeded")


HOSTILE = "a\u202etxt\u2028b\u200bc\x9bd"
ESCAPED = r"a\u202etxt\u2028b\u200bc\u009bd"


@requirement("security.approval.2")
def test_a_terminal_and_a_pipe_show_the_json_that_will_run(project: Project) -> None:
    args = json.dumps({"order": HOSTILE, "cents": 9007199254740993})
    waiting = project.run("call", "refund", args, "-s", "s-1", "-o", "ada", code=3)
    assert ESCAPED in waiting.err
    question = project.run("approvals", "list", "--json").json[0]["id"]
    shown = project.run("approvals", "show", question).out
    assert f'"order": "{ESCAPED}"' in shown
    assert '"cents": 9007199254740993' in shown
    with on_screen(project, "show", question) as screen:
        assert screen.expect("9007199254740993").ended() == 0
        assert ESCAPED in screen.shown
        assert not {"\u202e", "\u2028", "\x9b"} & set(screen.shown)

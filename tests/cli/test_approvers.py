"""What the command line shows and does where several people have to agree."""

import getpass
import json
import signal
from typing import Any

from tests.cli.project import Project, Screen, until
from tests.cli.test_approvals import CTRL_C, ask
from tests.requirements import requirement

POLICY = {
    "groups": {"finance": ["ann", "bob"]},
    "rules": [{"ask": "refund", "approvers": "finance", "quorum": 2, "escalate": {"after_s": 3600, "to": ["lead"]}}],
}
WORDS = "2 of finance, after 3600 s also lead"


def config(project: Project, **policy: Any) -> None:
    said = {"sources": ["shop_tools"], "store": "sqlite:///shop.db", "policy": {**POLICY, **policy}}
    project.write("crib.yaml", json.dumps(said))


@requirement("policy.approve.5")
def test_an_approval_that_is_not_enough_says_so_and_returns(project: Project) -> None:
    config(project)
    question = ask(project)
    words = ("approvals", "approve", question)
    first = project.run(*words, "--actor", "ann", code=3)
    assert first.out == f"1 of 2 approvals: shop.refund waits for {WORDS}\n"
    assert project.paid == []
    assert "Only finance may approve this" in project.run(*words, "--actor", "ada", code=1).err
    assert "ann has agreed already" in project.run(*words, "--actor", "ann", code=1).err
    second = project.run(*words, "--actor", "bob")
    assert (second.out, project.paid) == ("paid 500\n", ["500"])


def test_a_call_that_waits_says_who_has_to_agree(project: Project) -> None:
    config(project)
    ran = project.run("call", "refund", "-a", "order=7", "-a", "cents=5", code=3)
    assert f"It has to be approved by {WORDS}." in ran.err


def test_an_approval_that_is_not_enough_is_told_as_json(project: Project) -> None:
    config(project)
    question = ask(project)
    said = project.run("approvals", "approve", question, "--actor", "ann", "--json", code=3).json
    assert (said["status"], said["question"]["approved_by"]) == ("waiting", ["ann"])
    assert said["question"]["demands"] == [
        {"approvers": ["finance"], "quorum": 2, "escalate_s": 3600.0, "escalate_to": ["lead"]}
    ]


def test_the_list_and_a_question_show_who_has_to_agree_and_who_did(project: Project) -> None:
    config(project)
    question = ask(project)
    head, row = project.run("approvals", "list").out.splitlines()
    assert (head.split()[-1], row.endswith(WORDS)) == ("Needs", True)
    project.run("approvals", "approve", question, "--actor", "ann", code=3)
    assert project.run("approvals", "list").out.splitlines()[1].endswith(f"{WORDS} (ann did)")
    assert f"Needs     {WORDS} (ann did)" in project.run("approvals", "show", question).out
    assert project.run("approvals", "list", "--json").json[0]["approved_by"] == ["ann"]


def test_one_no_ends_it(project: Project) -> None:
    config(project)
    question = ask(project)
    project.run("approvals", "approve", question, "--actor", "ann", code=3)
    project.run("approvals", "decline", question, "--actor", "bob", "--reason", "no")
    assert project.run("approvals", "list", "--json").json == []
    assert "ann approved, bob declined: no" in project.run("audit").out


def test_the_audit_and_the_log_show_all_who_agreed(project: Project) -> None:
    config(project)
    question = ask(project)
    for actor, code in (("ann", 3), ("bob", 0)):
        project.run("approvals", "approve", question, "--actor", actor, code=code)
    (entry,) = project.run("audit", "--json").lines
    assert (entry["approver"], [one["actor"] for one in entry["answers"]]) == ("bob", ["ann", "bob"])
    assert "ann, bob approved" in project.run("audit").out
    shown = project.run("sessions", "watch", "s-1", "--no-follow").out
    assert "accept by ann, others have to agree too" in shown
    assert "accept by bob" in shown


def test_an_escalation_is_shown(project: Project) -> None:
    rules = [{"ask": "refund", "approvers": "finance", "quorum": 2, "escalate": {"after_s": 0.2, "to": ["lead"]}}]
    config(project, rules=rules)
    question = ask(project)
    with project.start("sessions", "watch", "s-1") as log, project.start("call", "wait_for_ever") as work:
        until(log.stdout, "lead may approve it too from now on")
        for process in (log, work):
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert project.run("approvals", "list").out.splitlines()[1].endswith("2 of finance or lead, escalated")
    project.run("approvals", "approve", question, "--actor", "lead", code=3)
    assert project.run("approvals", "approve", question, "--actor", "ann").out == "paid 500\n"


def test_a_watch_tells_who_has_to_agree_and_goes_on_after_one_yes(project: Project) -> None:
    config(project, groups={"finance": ["bob", "ann", "someone"]})
    first = ask(project)
    with project.start("approvals", "watch") as process:
        assert f"[0 of 2 approvals, of {WORDS}]" in until(process.stdout, first)
    with Screen(["approvals", "watch"], project.folder, LOGNAME="someone") as screen:
        screen.expect(f"0 of 2 approvals, of {WORDS}").expect("Allow it?").press("y\n")
        screen.expect("1 of 2 approvals; it stays open for the others.")
        ask(project, 7, "s-2")
        screen.expect("s-2").expect("Allow it?").press(CTRL_C)
        assert screen.ended() == 130
    assert project.run("approvals", "approve", first, "--actor", "ann").out == "paid 500\n"


def test_why_and_check_tell_who_has_to_agree_and_who_is_never_asked(project: Project) -> None:
    config(project, groups={"finance": ["ann"], "spare": ["zed"]}, approvers=["ops"])
    shown = project.run("why", "refund", '{"order": "7", "cents": 5}', code=3).out
    assert f"to be approved by {WORDS}" in shown
    told = project.run("policy", "check", code=1).out
    assert "the group spare is never asked" in told


def test_a_declaration_that_fits_no_tool_is_remarked(project: Project) -> None:
    said = {"sources": ["shop_tools"], "policy": {"rules": []}, "declare": {"far.*": {"effect": "read"}}}
    project.write("crib.yaml", json.dumps(said))
    assert "declare: far.* fits no tool" in project.run("policy", "check", code=1).out
    project.write("crib.yaml", json.dumps(said | {"declare": {"shop.find": {"effect": "read"}}}))
    assert "declare" not in project.run("policy", "check", code=None).out


def test_a_yes_to_a_call_that_is_not_enough_leaves_it_waiting(project: Project) -> None:
    config(project, groups={"finance": [getpass.getuser(), "bob"]})
    called = project.run("call", "shop.refund", '{"order": "A-7", "cents": 500}', "--yes", code=3)
    assert f"1 of 2 approvals: shop.refund waits for {WORDS}" in called.out + called.err
    (question,) = project.run("approvals", "list", "--json").json
    again = project.run("answer", question["id"], "accept", "--actor", "bob")
    assert ("paid 500" in again.out, project.paid) == (True, ["500"])

"""A call that waits in one process and goes on in another."""

import json

from tests.cli.project import Project, until


def test_a_call_that_must_ask_waits_and_says_how_to_answer(project: Project) -> None:
    ran = project.run("call", "refund", "-a", "order=7", "-a", "cents=500", code=3)
    assert "Waiting: Allow shop.refund?" in ran.err
    assert "Next:  toolcrib answer c" in ran.err
    assert project.paid == []


def test_an_answer_from_another_process_lets_it_run_there(project: Project) -> None:
    question = project.wait_for_refund()["question"]["id"]
    ran = project.run("answer", question, "accept")
    assert (ran.out, project.paid) == ("paid 500\n", ["500"])


def test_yes_accepts_confirmations(project: Project) -> None:
    ran = project.run("call", "refund", "-a", "order=7", "-a", "cents=5", "--yes")
    assert (ran.out, project.paid) == ("paid 5\n", ["5"])


def test_yes_does_not_invent_input(project: Project) -> None:
    ran = project.run("call", "send", "--yes", code=3)
    assert 'VALUE is {"city": string (2 or more characters), "copies": integer}' in ran.err


def test_a_declined_call_fails_with_the_reason(project: Project) -> None:
    question = project.wait_for_refund()["question"]["id"]
    ran = project.run("answer", question, "decline", "--reason", "too much", code=1)
    assert "[declined] too much" in ran.err
    assert project.paid == []


def test_an_approver_changes_arguments(project: Project) -> None:
    question = project.wait_for_refund()["question"]["id"]
    ran = project.run("answer", question, "accept", "--args", '{"cents": 300}', "--actor", "bob")
    assert project.paid == ["300"]
    assert 'Arguments were changed before running: {"cents":300}' in ran.err


def test_a_value_that_does_not_fit_leaves_the_question_open(project: Project) -> None:
    question = project.run("call", "send", "--json", code=3).json["question"]["id"]
    refused = project.run("answer", question, "accept", '{"city": "X"}', code=1)
    assert "The answer does not fit: city" in refused.err
    assert project.run("answer", question, "accept", '{"city": "Bern"}').json == {"sent": {"city": "Bern"}}


def test_the_same_answer_again_shows_the_same_outcome(project: Project) -> None:
    question = project.wait_for_refund()["question"]["id"]
    first, second = (project.run("answer", question, "accept", "--json") for _ in range(2))
    assert first.json == second.json
    assert project.paid == ["500"]


def test_another_answer_is_refused_and_leads_to_the_call(project: Project) -> None:
    waiting = project.wait_for_refund()
    project.run("answer", waiting["question"]["id"], "accept")
    ran = project.run("answer", waiting["question"]["id"], "decline", code=1)
    assert "The question was answered by" in ran.err
    assert f"toolcrib sessions show {waiting['session']}" in ran.err


def test_a_call_stays_while_one_that_it_made_waits(project: Project) -> None:
    with project.start("call", "send_two", "--yes", "--json") as process:
        asked = json.loads(until(process.stderr, "waiting"))["waiting"]
        project.run("answer", asked["id"], "accept", '{"city": "Bern"}')
        out, _ = process.communicate(timeout=120)
    assert json.loads(out)["data"] == ['{"sent":{"city":"Bern"}}', "paid 1"]


def test_an_unknown_question_leads_to_the_open_ones(project: Project) -> None:
    ran = project.run("answer", "c0-1", "accept", code=1)
    assert "No such question: c0-1" in ran.err
    assert "toolcrib sessions list" in ran.err


def test_a_question_in_memory_says_that_it_ends_with_the_command(project: Project) -> None:
    project.write("crib.yaml", "sources: [shop_tools]\n")
    ran = project.run("call", "refund", "-a", "order=7", "-a", "cents=5", code=3)
    assert "the store is in memory" in ran.err

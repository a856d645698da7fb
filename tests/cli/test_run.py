"""`toolcrib run`."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.project import until
from tests.cli.team import REFUND, TO_BILLING, Team, calls, says
from tests.requirements import requirement

LOOK = calls(("find", {"order": "7"}), text="Let me look.")


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path, support=[LOOK, says("It is there.", usage={"input": 1200, "output": 30}), says("And again.")])


@pytest.fixture
def refunds(tmp_path: Path) -> Team:
    return Team(tmp_path, support=[calls(TO_BILLING)], billing=[calls(REFUND), says("Your money is back.")])


def test_the_answer_goes_to_standard_output_and_all_else_beside_it(team: Team) -> None:
    ran = team.inside("run", "support", "where is 7?")
    assert ran.out == "Let me look.\nIt is there.\n"
    assert '→ shop.find {"order":"7"}' in ran.err
    assert "✓ shop.find" in ran.err
    assert "2 turns, 1,200 tokens in, 30 out (session cli-" in ran.err


def test_a_process_does_the_same(team: Team) -> None:
    ran = team.run("run", "support", "-", stdin="where is 7?")
    assert ran.out == "Let me look.\nIt is there.\n"


def test_a_message_comes_from_standard_input_too(team: Team) -> None:
    team.inside("run", "support", "-s", "s-1", stdin="where is 7?\n")
    events = team.inside("run", "--resume", "s-1", "--json").lines
    assert [e["data"]["content"] for e in events if e["data"].get("role") == "user"] == ["where is 7?\n"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "Which agent?"),
        (["run", "suport", "hi"], "did you mean support?"),
        (["run", "support"], "The message is empty"),
        (["run", "support", "hi", "--resume", "s-1"], "--resume takes no agent"),
        (["run", "support", "hi", "--script", "no.json"], "cannot read no.json"),
        (["run", "support", "hi", "--script", "x", "--model", "y"], "two models"),
    ],
)
def test_what_cannot_be_asked_is_told_before_anything_is_logged(team: Team, words: list[str], said: str) -> None:
    ran = team.inside(*words, code=2)
    assert said in ran.err
    assert "Next:" in ran.err
    assert team.inside("sessions", "list", "--json", code=None).out in ("", "[]\n")


def test_json_is_one_event_a_line_up_to_the_end_of_the_run(team: Team) -> None:
    events = team.inside("run", "support", "where is 7?", "-s", "s-1", "--json").lines
    assert {event["session"] for event in events} == {"s-1"}
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[-1]["kind"], events[-1]["data"]["answer"]) == ("run_finished", "It is there.")


def test_a_session_goes_on(team: Team) -> None:
    team.inside("run", "support", "where is 7?", "-s", "s-1")
    assert team.inside("run", "support", "and now?", "-s", "s-1").out == "And again.\n"


def test_a_model_that_fails_fails_the_run(team: Team) -> None:
    team.script(support=[{"error": {"code": "failed", "message": "no credit"}}])
    ran = team.inside("run", "support", "hi", code=1)
    assert "✗ support failed: no credit" in ran.err


def test_a_limit_of_turns_stops_the_run(team: Team) -> None:
    ran = team.inside("run", "support", "hi", "--max-turns", "1", code=1)
    assert "✗ support was stopped: max_rounds" in ran.err


@requirement("agents.model.2")
def test_a_script_may_be_named_with_the_command(team: Team) -> None:
    path = team.write("other.json", json.dumps({"support": [says("From elsewhere.")]}))
    assert team.inside("run", "support", "hi", "--script", str(path)).out == "From elsewhere.\n"


def test_another_model_may_be_named(team: Team) -> None:
    team.write("other.yaml", "support: [{text: The other one.}]\n")
    team.write(
        "crib.yaml",
        (team.folder / "crib.yaml").read_text().replace('{"test/*"', '{own: {scripted: other.yaml}, "test/*"'),
    )
    assert team.inside("run", "support", "hi", "--model", "own").out == "The other one.\n"


def test_an_answer_that_is_data_is_printed_as_json(team: Team) -> None:
    team.write(
        "team/clerk.yaml",
        "model: test/one\ninstructions: Count.\noutput_schema: {type: object, properties: {n: {type: integer}}}\n",
    )
    team.script(clerk=[calls(("final_answer", {"n": 3}))])
    assert team.inside("run", "clerk", "count").json == {"n": 3}


def test_the_cost_is_told_where_it_is_known(team: Team) -> None:
    team.write(
        "dear.py",
        "from toolcrib.agent.models import Finish, Model, Reasoning, Text, Usage\n"
        "class Dear(Model):\n"
        "    async def respond(self, request):\n"
        "        yield Reasoning('I think.')\n"
        "        yield Text('Hello.')\n"
        "        yield Usage(1000, 20, cached=400, cost=0.0123)\n"
        "        yield Finish('stop')\n",
    )
    team.write("crib.yaml", "agents: {files: team, models: {'*': {python: 'dear:Dear'}}}\n")
    ran = team.inside("run", "support", "hi")
    assert ran.out == "Hello.\n"
    assert "1 turn, 1,000 tokens in (400 cached), 20 out, $0.0123" in ran.err
    with team.screen("run", "support", "hi") as screen:
        screen.expect("I think.").expect("\n").expect("Hello.")
        assert screen.ended() == 0


# What waits for a person


@requirement("agents.run.5", "agents.transfer.4")
def test_a_run_that_waits_says_how_to_answer_and_how_to_go_on(refunds: Team) -> None:
    ran = refunds.inside("run", "support", "money back", "-s", "s-1", code=3)
    question = refunds.asked()
    assert "support -> billing: a refund" in ran.err
    assert f"Next:  toolcrib answer {question} accept   (or decline)" in ran.err
    assert "Then:  toolcrib run --resume s-1" in ran.err
    answered = refunds.inside("answer", question, "accept")
    assert answered.out == "paid 500\nYour money is back.\n"
    assert refunds.inside("run", "--resume", "s-1").out == "Your money is back.\n"
    assert refunds.paid == ["500"]


def test_resuming_what_still_waits_waits_again(refunds: Team) -> None:
    refunds.inside("run", "support", "money back", "-s", "s-1", code=3)
    ran = refunds.inside("run", "--resume", "s-1", "--json", code=3)
    assert [event["kind"] for event in ran.lines if event["kind"].startswith("run_")] == ["run_started", "run_waiting"]


@pytest.mark.parametrize("words", [["approve", "--json"], ["decline", "-r", "too much"]])
def test_other_ways_to_answer_go_on_with_the_run_too(refunds: Team, words: list[str]) -> None:
    refunds.inside("run", "support", "money back", "-s", "s-1", code=3)
    refunds.inside("approvals", words[0], refunds.asked(), *words[1:])
    assert refunds.kinds("s-1")[-1] == "run_finished"


def test_confirmations_may_be_accepted_beforehand(refunds: Team) -> None:
    ran = refunds.inside("run", "support", "money back", "--yes")
    assert (ran.out, refunds.paid) == ("Your money is back.\n", ["500"])


def test_there_is_nothing_to_resume_where_nobody_asked(refunds: Team) -> None:
    assert "No such session: s-1" in refunds.inside("run", "--resume", "s-1", code=1).err
    refunds.inside("call", "find", "-a", "order=7", "-s", "s-1")
    assert "Nobody has asked an agent" in refunds.inside("run", "--resume", "s-1", code=1).err


def test_a_person_at_the_terminal_edits_and_agrees(refunds: Team) -> None:
    with refunds.screen("run", "support", "money back") as screen:
        screen.expect("support -> billing: a refund").expect("Allow shop.refund?").expect("Allow it?").press("e\n")
        screen.expect("What changes").press('{"cents": 20}\n').expect("Your money is back.")
        assert screen.ended() == 0
    assert refunds.paid == ["20"]


# What takes long


@requirement("agents.run.11")
def test_a_run_waits_for_what_it_left_in_the_background_and_shows_what_that_wakes(tmp_path: Path) -> None:
    begin = ("call_agent", {"agent": "clerk", "prompt": "file it", "mode": "background"})
    team = Team(
        tmp_path,
        support=[calls(begin), says("I have begun."), says("It is filed.")],
        clerk=[calls(("gate", {"name": "go"})), says("filed")],
    )
    with team.start("run", "support", "file it") as process:
        until(process.stdout, "I have begun.")
        (team.folder / "go").touch()
        out, err = process.communicate(timeout=120)
    assert (out, process.returncode) == ("It is filed.\n", 0)
    assert "support is woken" in err
    assert "3 turns" in err


@requirement("agents.call.6")
def test_a_question_of_an_agent_in_the_background_is_told_and_its_answer_carries_all_of_it_on(tmp_path: Path) -> None:
    begin = ("call_agent", {"agent": "billing", "prompt": "pay", "mode": "background"})
    team = Team(
        tmp_path,
        support=[calls(begin), says("I have begun."), says("It is paid.")],
        billing=[calls(REFUND), says("paid")],
    )
    assert team.inside("run", "support", "pay it back", "-s", "s-1", code=3).out == "I have begun.\n"
    assert team.inside("answer", team.asked(), "accept").out == "paid 500\nIt is paid.\n"
    assert team.paid == ["500"]


def test_an_interrupt_at_a_question_cancels_the_run(refunds: Team) -> None:
    with refunds.screen("run", "support", "money back", "-s", "s-1") as screen:
        screen.expect("Allow it?").press("\x03").expect("billing was cancelled")
        assert screen.ended() == 130
    assert refunds.inside("sessions", "show", "s-1", "--json").json["questions"] == []


@requirement("agents.run.12")
def test_an_interrupt_cancels_the_run_and_leaves_a_session_that_goes_on(tmp_path: Path) -> None:
    team = Team(tmp_path, support=[calls(("gate", {"name": "never"})), says("Here I am.")])
    with team.start("run", "support", "wait", "-s", "s-1") as process:
        until(process.stderr, "at the gate")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "support was cancelled" in err
    assert team.inside("run", "support", "still there?", "-s", "s-1").out == "Here I am.\n"


@requirement("agents.run.6")
def test_a_run_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    team = Team(tmp_path, support=[calls(REFUND), calls(("gate", {"name": "go"})), says("All is done.")])
    with team.start("run", "support", "do it", "-s", "s-1", "--yes") as process:
        until(process.stderr, "at the gate")
        process.kill()
        process.communicate()
    (team.folder / "go").touch()
    assert team.inside("run", "--resume", "s-1").out == "All is done.\n"
    assert team.paid == ["500"]


@requirement("reliability.handover.3")
def test_a_person_may_go_on_with_any_agent_that_exists(tmp_path: Path) -> None:
    team = Team(tmp_path, support=[says("Support.")], clerk=[says("Clerk.")])
    assert team.inside("run", "support", "hi", "-s", "s-1").out == "Support.\n"
    assert "did you mean clerk?" in team.inside("run", "clerks", "hi", "-s", "s-1", code=2).err
    assert team.inside("run", "clerk", "hi", "-s", "s-1").out == "Clerk.\n"


# What a run was given, in another process


@pytest.fixture
def two_models(tmp_path: Path) -> Team:
    """A team whose definitions name one model, and a second one that says something else at the end."""
    turns = {"support": [calls(TO_BILLING)], "billing": [calls(REFUND)]}
    team = Team(tmp_path, support=turns["support"], billing=[*turns["billing"], says("The one of the file.")])
    team.write("other.json", json.dumps(turns | {"billing": [*turns["billing"], says("The one that was chosen.")]}))
    text = (team.folder / "crib.yaml").read_text()
    team.write("crib.yaml", text.replace('{"test/*"', '{own: {scripted: other.json}, "test/*"'))
    return team


@requirement("agents.run.15")
@pytest.mark.parametrize("agent", ["support", "billing"])
@pytest.mark.parametrize("chosen", [["--model", "own"], ["--script", "other.json"]])
def test_a_run_keeps_its_model_in_the_process_that_goes_on_with_it(
    two_models: Team, agent: str, chosen: list[str]
) -> None:
    two_models.run("run", agent, "money back", *chosen, code=3)
    assert two_models.run("answer", two_models.asked(), "accept").out == "paid 500\nThe one that was chosen.\n"


@requirement("agents.run.15")
def test_a_run_keeps_its_limit_of_turns_in_the_process_that_goes_on_with_it(two_models: Team) -> None:
    two_models.run("run", "support", "money back", "-s", "s-1", "--max-turns", "1", code=3)
    two_models.run("answer", two_models.asked(), "accept", code=None)
    assert "was stopped: max_rounds" in two_models.inside("run", "--resume", "s-1", code=1).err


@requirement("agents.run.15")
def test_a_model_that_the_next_process_does_not_have_ends_the_run_and_no_other_speaks(two_models: Team) -> None:
    script = two_models.write("gone.json", (two_models.folder / "other.json").read_text())
    two_models.run("run", "billing", "money back", "-s", "s-1", "--script", "gone.json", code=3)
    Path(script).unlink()
    two_models.run("answer", two_models.asked(), "accept", code=None)
    shown = two_models.inside("run", "--resume", "s-1", code=1)
    assert "gone.json cannot be read" in shown.err
    assert "The one" not in shown.out


@requirement("agents.run.15")
def test_a_message_that_waits_keeps_its_model_for_whoever_takes_it(two_models: Team) -> None:
    team = two_models
    team.run("run", "billing", "money back", "-s", "s-1", code=3)
    team.write("third.json", json.dumps({"support": [says("The third one.")]}))
    team.run("run", "support", "and I?", "-s", "s-1", "--script", "third.json", code=3)
    team.run("answer", team.asked(), "accept", code=None)
    assert "The third one." in team.inside("run", "--resume", "s-1").out


@requirement("agents.run.15")
def test_a_run_that_results_wake_speaks_with_the_model_of_the_run_before(tmp_path: Path) -> None:
    begin = ("call_agent", {"agent": "billing", "prompt": "pay", "mode": "background"})
    team = Team(tmp_path, support=[], billing=[])
    script = {
        "support": [calls(begin), says("I have begun."), says("It is paid.")],
        "billing": [calls(REFUND), says("paid")],
    }
    team.write("other.json", json.dumps(script))
    team.run("run", "support", "pay it back", "--script", "other.json", code=3)
    assert team.run("answer", team.asked(), "accept").out == "paid 500\nIt is paid.\n"


def test_what_is_resumed_keeps_what_it_was_given(two_models: Team) -> None:
    assert "began with" in two_models.inside("run", "--resume", "s-1", "--model", "own", code=2).err

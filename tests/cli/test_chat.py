"""`toolcrib chat` through pipes and on a real terminal."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.project import Project, until
from tests.cli.team import REFUND, TO_BILLING, Team, calls, says
from tests.requirements import requirement

CTRL_C, CTRL_D = "\x03", "\x04"
GATE = calls(("gate", {"name": "go"}), text="One moment.")


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(
        tmp_path,
        support=[says("How can I help?", usage={"input": 10, "output": 5}), calls(TO_BILLING)],
        billing=[calls(REFUND), says("Your money is back."), says("You are welcome.")],
    )


# Through a pipe


@requirement("agents.transfer.5")
def test_each_line_is_a_message_and_a_restart_leaves_the_conversation_with_whom_it_was(team: Team) -> None:
    first = team.run("chat", "-s", "s-1", stdin="hello\nmoney back\n", code=3)
    assert first.out == "How can I help?\n"
    assert "support -> billing: a refund" in first.err
    assert "Waiting: Allow shop.refund?" in first.err
    assert "Go on: toolcrib chat --session s-1" in first.err
    team.inside("answer", team.asked(), "accept")
    again = team.run("chat", "support", "-s", "s-1", stdin="thanks\n")
    assert again.out == "You are welcome.\n"
    assert "you: money back\n" in again.err
    assert "billing: Your money is back.\n" in again.err
    assert "billing answers here by now; /agent support changes that" in again.err
    assert team.paid == ["500"]


@requirement("console.waterfall.2")
def test_what_a_model_was_sent_is_shown_afterwards(team: Team) -> None:
    team.run("chat", "-s", "s-1", stdin="hello\nmoney back\n", code=3)
    out = team.inside("sessions", "prompt", "s-1").out
    assert out.startswith("billing, turn 2, asked ")
    assert "support handed over to billing: a refund" in out
    turns = team.inside("sessions", "watch", "s-1", "--no-follow", "--json").lines
    second = [event["seq"] for event in turns if event["kind"] == "turn_started"][1]
    out = team.inside("sessions", "prompt", "s-1", str(second)).out
    assert "1 messages as in the request before" in out
    assert "\nuser\nmoney back\n" in out
    assert "\nuser\nhello\n" not in out
    assert "\nuser\nhello\n" in team.inside("sessions", "prompt", "s-1", str(second), "--all").out
    prompt = team.inside("sessions", "prompt", "s-1", str(second), "--json").json
    assert (prompt["agent"], prompt["exact"], prompt["same"]) == ("support", True, 1)
    assert "tells of no request" in team.inside("sessions", "prompt", "s-1", "1", code=1).err


def test_a_file_is_read_as_a_pipe_is_and_commands_work_in_it(team: Team) -> None:
    path = team.write("said.txt", "/help\n/agents\n/tools\nhello\n/usage\n/agent nobody\n/nothing\n/quit\nnot read\n")
    with path.open() as file, team.start("chat", stdin=file.fileno()) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "/quit        leaves" in out
    assert "* support          First line of help." in out
    assert "find                     Find an order." in out
    assert "support          10 tokens in, 5 out" in out
    assert "There is no agent 'nobody'" in err
    assert "/nothing is nothing that I know" in err
    assert "not read" not in out + err


def test_a_message_while_a_question_is_open_waits_for_it(team: Team) -> None:
    team.script(support=[calls(REFUND), says("Paid, and thanks for the word.")])
    ran = team.run("chat", "-s", "s-1", stdin="money back\nquick!\n", code=3)
    assert "It is read when the question is answered" in ran.err
    assert team.inside("answer", team.asked(), "accept").out == "paid 500\nPaid, and thanks for the word.\n"


def test_another_agent_may_be_asked(team: Team) -> None:
    team.script(support=[says("How can I help?")], billing=[says("I am billing.")])
    ran = team.run("chat", stdin="hello\n/agent billing\nwho are you?\n")
    assert ran.out == "How can I help?\nI am billing.\n"
    assert "support -> billing: user" in ran.err


def test_a_run_that_fails_is_told_and_the_chat_goes_on(team: Team) -> None:
    team.script(support=[{"error": {"code": "failed", "message": "no credit"}}, says("Better now.")])
    ran = team.run("chat", stdin="one\ntwo\n")
    assert "✗ support failed: no credit" in ran.err
    assert ran.out == "Better now.\n"


def test_a_chat_has_no_json_and_needs_agents(project: Project, team: Team) -> None:
    assert "A chat has no JSON" in team.inside("chat", "--json", code=2).err
    team.write("crib.yaml", "sources: [shop_tools.py]\n")
    assert "`agents: [team/]`" in team.inside("chat", code=2).err


def test_the_demo_has_somebody_to_talk_to(tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_DEMO", str(tmp_path / "demo"))
    said = "what is A-7?\nmy money back\n"
    ran = team.run("--crib", "toolcrib.demo:crib", "chat", stdin=said, code=3)
    assert "a torque wrench" in ran.out
    assert "desk -> billing: money back for A-7" in ran.err


# On a terminal


def test_a_person_sees_who_speaks_agrees_with_a_change_and_leaves(team: Team) -> None:
    with team.screen("chat", "-s", "s-1") as screen:
        screen.expect("support in session s-1; /help").expect("you: ").press("hello\n")
        screen.expect("support: ").expect("How can I help?").expect("10 tokens in, 5 out")
        screen.expect("you: ").press("money back\n").expect("support -> billing: a refund")
        screen.expect("Allow shop.refund?").expect("Allow it?").press("e\n")
        screen.expect("What changes").press('{"cents": 20}\n')
        screen.expect("✓ shop.refund").expect('with {"cents":20} changed').expect("paid 20")
        screen.expect("billing: ").expect("Your money is back.").expect("you: ").press("/quit\n")
        screen.expect("All in all 10 tokens in, 5 out").expect("Go on: toolcrib chat --session s-1")
        assert screen.ended() == 0
    assert team.paid == ["20"]


def test_a_question_may_be_left_and_answered_later(team: Team) -> None:
    team.script(support=[calls(REFUND), says("Done.")])
    with team.screen("chat") as screen:
        screen.expect("you: ").press("money back\n").expect("Allow it?").press(CTRL_D)
        screen.expect("Waiting:").expect("you: ").press("/answer\n").expect("Allow it?").press("y\n")
        screen.expect("Done.").expect("you: ").press(CTRL_D)
        assert screen.ended() == 0
    assert team.paid == ["500"]


def test_an_answer_from_elsewhere_ends_the_asking(team: Team) -> None:
    team.script(support=[calls(REFUND), says("Done.")])
    with team.screen("chat", "-s", "s-1") as screen:
        screen.expect("you: ").press("money back\n").expect("Allow it?")
        team.run("answer", team.asked(), "accept")
        screen.expect("It was answered elsewhere.").expect("Done.").expect("you: ").press("/quit\n")
        assert screen.ended() == 0


@requirement("agents.run.12")
def test_an_interrupt_cancels_the_turn_and_two_leave(team: Team) -> None:
    team.script(support=[GATE, says("Still here.")])
    with team.screen("chat", "-s", "s-1") as screen:
        screen.expect("you: ").press("wait\n").expect("One moment.").expect("at the gate").press(CTRL_C)
        screen.expect("support was cancelled").expect("you: ").press("are you there?\n").expect("Still here.")
        screen.expect("you: ").press(CTRL_C).expect("Ctrl-C again leaves.").expect("you: ").press(CTRL_C)
        assert screen.ended() == 130
    assert "Go on: toolcrib chat --session s-1" in screen.shown
    assert team.kinds("s-1").count("run_finished") == 2


def test_a_second_interrupt_leaves_while_something_does_not_stop(team: Team) -> None:
    team.write(
        "door_tools.py",
        "import asyncio\n"
        "from toolcrib import Context, tool\n"
        "@tool(read_only=True)\n"
        "async def gate(ctx: Context, name: str) -> None:\n"
        "    '''Stays.'''\n"
        "    ctx.progress('staying')\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.Event().wait()\n"
        "        except asyncio.CancelledError:\n"
        "            ctx.progress('not yet')\n",
    )
    team.write("crib.yaml", (team.folder / "crib.yaml").read_text() + "limits: {cleanup_s: 3600}\n")
    team.script(support=[GATE])
    with team.screen("chat") as screen:
        screen.expect("you: ").press("wait\n").expect("staying").press(CTRL_C)
        screen.expect("Cancelling").press(CTRL_C)
        assert screen.ended() == 130


@requirement("agents.run.11")
def test_what_ends_in_the_background_is_told_while_nobody_types(team: Team) -> None:
    begin = ("call_agent", {"agent": "clerk", "prompt": "file it", "mode": "background"})
    team.script(
        support=[calls(begin), says("I have begun."), says("It is filed.")],
        clerk=[calls(("gate", {"name": "go"})), says("filed")],
    )
    with team.screen("chat") as screen:
        screen.expect("you: ").press("file it\n").expect("I have begun.").expect("you: ")
        (team.folder / "go").touch()
        screen.expect("support is woken").expect("It is filed.").expect("you: ").press("/quit\n")
        assert screen.ended() == 0


@requirement("agents.run.6")
def test_a_chat_that_was_killed_goes_on_where_it_was(team: Team) -> None:
    team.script(support=[calls(REFUND), GATE, says("All is done.")])
    with team.screen("chat", "-s", "s-1") as screen:
        screen.expect("you: ").press("do it\n").expect("Allow it?").press("y\n").expect("at the gate")
        os.kill(screen.pid, signal.SIGKILL)
    (team.folder / "go").touch()
    with team.screen("chat", "-s", "s-1") as screen:
        screen.expect("you: do it").expect("support: One moment.").expect("All is done.").expect("you: ")
        screen.press("/quit\n")
        assert screen.ended() == 0
    assert team.paid == ["500"]
    assert team.kinds("s-1").count("run_finished") == 1


def test_a_pipe_that_stays_open_gets_each_answer_at_once(team: Team) -> None:
    import subprocess

    team.script(support=[says("One."), says("Two.")])
    with team.start("chat", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for said, answer in (("a", "One."), ("b", "Two.")):
            process.stdin.write(f"{said}\n")
            process.stdin.flush()
            until(process.stdout, answer)
        process.stdin.close()
        assert process.wait(timeout=120) == 0

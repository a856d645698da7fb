"""The command line on a real terminal: bars, colours, questions and keys."""

import pytest

from tests.cli.project import Project, Screen

CTRL_C, CTRL_D = "\x03", "\x04"


def on_screen(project: Project, *words: str) -> Screen:
    return Screen(words, project.folder)


def refund(project: Project) -> Screen:
    return on_screen(project, "call", "refund", "-a", "order=7", "-a", "cents=500", "--session", "s-1")


def test_a_confirmation_is_asked_for(project: Project) -> None:
    with refund(project) as screen:
        screen.expect("Allow shop.refund?").expect("cents = 500").expect("Allow it?").press("y\n")
        assert screen.ended() == 0
    assert "paid 500" in screen.shown
    assert project.paid == ["500"]


def test_a_refusal_may_give_its_reason(project: Project) -> None:
    with refund(project) as screen:
        screen.expect("Allow it?").press("no\n").expect("Why?").press("too much\n")
        assert screen.ended() == 1
    assert "[declined] too much" in screen.shown
    assert project.paid == []


def test_arguments_are_edited_before_it_runs(project: Project) -> None:
    with refund(project) as screen:
        screen.expect("Allow it?").press("e\n").expect("What changes").press('{"cents": 20}\n')
        assert screen.ended() == 0
    assert project.paid == ["20"]


@pytest.mark.parametrize("keys", [CTRL_D, "later\n"])
def test_a_question_may_be_left_open(project: Project, keys: str) -> None:
    with refund(project) as screen:
        screen.expect("Allow it?").press(keys)
        assert screen.ended() == 3
    assert "Next:  toolcrib answer" in screen.shown


def test_an_interrupt_at_a_question_cancels_the_call(project: Project) -> None:
    with refund(project) as screen:
        screen.expect("Allow it?").press(CTRL_C)
        assert screen.ended() == 130
    assert "[cancelled]" in screen.shown


def test_an_answer_from_elsewhere_ends_the_asking(project: Project) -> None:
    with refund(project) as screen:
        screen.expect("Allow it?")
        (question,) = project.run("sessions", "show", "s-1", "--json").json["questions"]
        project.run("answer", question["id"], "accept")
        screen.expect("It was answered elsewhere.")
        assert screen.ended() == 0
    assert "paid 500" in screen.shown
    assert project.paid == ["500"]


def test_input_is_asked_for_field_by_field_until_it_fits(project: Project) -> None:
    with on_screen(project, "call", "send") as screen:
        screen.expect("Where to?").expect("city").press("X\n").expect("at least 2").expect("city").press("Bern\n")
        screen.expect("copies").press("many\n").expect("copies").press("\n")
        assert screen.ended() == 0
    assert '"Bern"' in screen.shown


def test_questions_of_calls_that_a_call_makes_are_asked_too(project: Project) -> None:
    with on_screen(project, "call", "send_two") as screen:
        screen.expect("Where to?").expect("city").press("Bern\n").expect("copies").press("\n")
        screen.expect("Allow shop.refund?").expect("Allow it?").press("y\n")
        assert screen.ended() == 0
    assert "paid 1" in screen.shown


def test_a_tool_without_a_body_is_run_by_the_person(project: Project) -> None:
    with on_screen(project, "call", "sign") as screen:
        screen.expect("Run mail.sign and send its result").expect("Send a result?").press("y\n")
        screen.expect("result").press("X\n").expect("expected integer").expect("result").press("5\n")
        assert screen.ended() == 0


def test_a_tool_without_a_body_may_fail(project: Project) -> None:
    with on_screen(project, "call", "sign") as screen:
        screen.expect("Send a result?").press("f\n").expect("Why?").press("no pen\n")
        assert screen.ended() == 1
    assert "[failed] no pen" in screen.shown


def test_a_running_call_has_a_bar_and_its_output_stands_above(project: Project) -> None:
    with on_screen(project, "call", "wait_for_ever") as screen:
        screen.expect("waiting").expect("━").press(CTRL_C)
        assert screen.ended() == 130
    assert "Cancelling" in screen.shown


def test_a_table_has_colours(project: Project) -> None:
    with on_screen(project, "tools", "list") as screen:
        assert screen.ended() == 0
    assert "\x1b[31monce" in screen.shown


def test_output_cannot_steer_the_terminal(project: Project) -> None:
    with on_screen(project, "call", "speak", "-a", "text=\x1b]0;owned\x07 [bold]plain[/]") as screen:
        assert screen.ended() == 0
    assert "\\x1b]0;owned\\x07 [bold]plain[/]" in screen.shown
    assert "\x1b]0;" not in screen.shown


def test_a_second_interrupt_leaves_at_once(project: Project) -> None:
    project.write(
        "stubborn.py",
        "import asyncio\n"
        "from toolcrib import Context, tool\n"
        "@tool(read_only=True)\n"
        "async def stay(ctx: Context) -> None:\n"
        "    '''Stays.'''\n"
        "    ctx.progress('staying')\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.Event().wait()\n"
        "        except asyncio.CancelledError:\n"
        "            ctx.progress('not yet')\n",
    )
    project.write("crib.yaml", "sources: [stubborn]\nlimits: {cleanup_s: 3600}\n")
    with on_screen(project, "call", "stay") as screen:
        screen.expect("staying").press(CTRL_C).expect("Cancelling").press(CTRL_C)
        assert screen.ended() == 130

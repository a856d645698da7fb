"""`toolcrib call` through pipes."""

import signal

from tests.cli.project import Project, until


def test_a_result_is_printed_as_json(project: Project) -> None:
    ran = project.run("call", "shop.find", '{"order": "7"}')
    assert ran.json == {"order": "7", "deep": False}
    assert ran.err == ""


def test_pairs_are_read_as_the_schema_says(project: Project) -> None:
    ran = project.run("call", "find", "-a", "order=7", "-a", "deep=true")
    assert ran.json == {"order": "7", "deep": True}


def test_pairs_stand_over_the_json_beside_them(project: Project) -> None:
    ran = project.run("call", "find", '{"order": "7", "deep": true}', "-a", "order=8")
    assert ran.json == {"order": "8", "deep": True}


def test_arguments_come_from_standard_input(project: Project) -> None:
    assert project.run("call", "find", "-", stdin='{"order": "9"}').json["order"] == "9"


def test_a_failed_call_says_why_and_what_next(project: Project) -> None:
    ran = project.run("call", "find", "-a", "order=0", code=1)
    assert ran.out == ""
    assert "[not_found] There is no order 0" in ran.err
    assert "Hint:  Orders start at 1." in ran.err
    assert "Next:" in ran.err


def test_bad_arguments_name_the_command_that_explains_them(project: Project) -> None:
    ran = project.run("call", "find", code=1)
    assert "[invalid_arguments] order: missing" in ran.err
    assert "toolcrib tools show shop.find" in ran.err


def test_what_is_no_json_is_not_called(project: Project) -> None:
    ran = project.run("call", "find", "{order: 7}", code=2)
    assert "is no JSON" in ran.err
    assert "-a order=A-7" in ran.err


def test_a_tool_of_a_file_that_the_crib_does_not_have_leads_to_the_command_that_calls_it(project: Project) -> None:
    ran = project.run("call", "text-stats.count", "-a", "text=x", code=2)
    assert "The crib has no text-stats.count, a definition file does" in ran.err
    assert "toolcrib tools call text-stats.count, or name its file in `sources` of crib.yaml" in ran.err


def test_why_says_that_no_agent_has_the_name_it_was_given(project: Project) -> None:
    ran = project.run("why", "find", "-a", "order=7", "--agent", "nobody")
    assert ran.out.startswith("allow by")
    assert "No agent of this crib is called nobody" in ran.err
    assert "agent" not in project.run("why", "find", "-a", "order=7").err


def test_why_takes_arguments_as_call_does(project: Project) -> None:
    assert project.run("why", "refund", "-a", "order=7", "-a", "cents=5", code=3).out.startswith("ask by default")
    assert "is no JSON" in project.run("why", "refund", "{order: 7}", code=2).err
    missing = project.run("why", "refund", "-a", "order=7", code=1).err
    assert "cents: missing" in missing
    assert "toolcrib tools show refund" in missing


def test_an_unknown_tool_leaves_no_session_behind(project: Project) -> None:
    ran = project.run("call", "shop.fnd", code=2)
    assert "did you mean shop.find" in ran.err
    assert project.run("sessions", "list", "--json").json == []


def test_json_is_all_that_is_printed_when_asked_for(project: Project) -> None:
    ran = project.run("call", "rows", "--json")
    assert ran.err == ""
    assert (ran.json["ok"], ran.json["data"]) == (True, {"row": 2})


def test_a_failure_is_json_too(project: Project) -> None:
    ran = project.run("--json", "call", "find", "-a", "order=0", code=1)
    assert ran.json["failure"]["code"] == "not_found"
    assert ran.err == ""


def test_an_error_is_json_on_standard_error(project: Project) -> None:
    ran = project.run("call", "fnd", "--json", code=2)
    assert ran.out == ""
    assert '"code":"not_found"' in ran.err


def test_streamed_rows_stay_out_of_the_result(project: Project) -> None:
    ran = project.run("call", "rows")
    assert ran.json == {"row": 2}
    assert [line for line in ran.err.splitlines() if line.startswith("{")] == ['{"row":0}', '{"row":1}', '{"row":2}']
    assert "… 33% (1 of 3) row 0" in ran.err


def test_streamed_text_ends_its_line(project: Project) -> None:
    assert project.run("call", "speak", "-a", "text=good day").err == "good day\n"


def test_a_pipe_gets_all_of_an_output_that_was_spilled(project: Project) -> None:
    assert project.run("call", "report").json == list(range(1000))


def test_a_broken_tool_is_named_with_its_place_but_no_stack(project: Project) -> None:
    ran = project.run("call", "broken", code=1)
    assert "ValueError: the text of the error" in ran.err
    assert "shop_tools.py:" in ran.err
    assert "Traceback" not in ran.err


def test_debug_shows_the_stack(project: Project) -> None:
    assert "Traceback (most recent call last)" in project.run("call", "broken", "--debug", code=1).err


def test_every_call_has_a_session_of_its_own(project: Project) -> None:
    first, second = (project.run("call", "find", "-a", "order=1", "--json").json["session"] for _ in range(2))
    assert first != second


def test_a_call_goes_on_in_a_session_as_it_is(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1", "--owner", "ada", "--namespace", "shop")
    ran = project.run("call", "send", "--session", "s-1", code=1)
    assert "Namespace 'mail' is not open in this session" in ran.err
    shown = project.run("sessions", "show", "s-1", "--json").json
    assert (shown["owner"], shown["namespaces"]) == ("ada", ["shop"])


def test_somebody_elses_session_cannot_be_opened_under_another_name(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1", "--owner", "ada")
    ran = project.run("call", "find", "-a", "order=1", "--session", "s-1", "--owner", "bob", code=1)
    assert "Session 's-1' belongs to ada, not to bob" in ran.err


def test_an_interrupt_cancels_the_call(project: Project) -> None:
    with project.start("call", "wait_for_ever", "--session", "s-1") as process:
        until(process.stderr, "waiting")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    (call,) = project.run("sessions", "show", "s-1", "--json").json["completed"]
    assert "[cancelled] Cancelled" in err
    assert (process.returncode, call["status"]) == (130, "cancelled")

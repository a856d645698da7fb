"""`toolcrib tools test`, `health` and `call`: what definition files say, held against what happens."""

import json
from pathlib import Path

import pytest

from tests.cli.definitions import GREET, greeting, real_tools, served
from tests.cli.project import Project, Screen
from tests.requirements import requirement
from tests.shared import RECORDINGS

ROOT = ("--root", ".toolcrib/tools")


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without files of his own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


# Examples


@requirement("yaml.cli.5")
def test_the_examples_of_a_real_file_pass_but_one_and_one_is_unchecked(tmp_path: Path) -> None:
    ran = Project(tmp_path).run("tools", "test", "clickup", "--root", str(real_tools()), "--json", code=1)
    [report] = ran.json["tools"]
    assert (report["id"], report["passed"], len(report["failed"]), report["unchecked"]) == ("clickup", 8, 1, 1)
    assert (report["failed"][0]["command"], report["failed"][0]["scenario"]) == ("create_task", "failure_api_error")
    assert report["failed"][0]["reason"]


@requirement("yaml.cli.5", "yaml.test.3")
def test_validators_that_no_example_touches_are_told(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    [report] = project.run("tools", "test", "greet", *ROOT, "--json").json["tools"]
    assert (report["passed"], report["failed"], report["unchecked"]) == (2, [], 0)
    assert report["untouched"] == ["validate-bye"]
    assert "no example touches the validator validate-bye" in project.run("tools", "test", *ROOT).out


@requirement("yaml.test.2")
def test_what_is_accepted_runs_against_a_stand_in_that_answers_as_the_example_says(tmp_path: Path) -> None:
    project = greeting(
        tmp_path,
        greet=GREET.replace("executable: echo", "executable: not-installed-anywhere")
        + "    bye:\n"
        + "      - {scenario: success, input: {name: Ada}, output: {said: bye}}\n"
        + "      - {scenario: raw, input: {name: Ada}, output: {nothing: here}}\n"
        + "      - {scenario: failure_gone, input: {name: Ada}, error: {code: NOT_FOUND, message: Ada is gone}}\n",
    )
    [report] = project.run("tools", "test", "greet", *ROOT, "--json", code=1).json["tools"]
    assert report["passed"] == 4
    [failed] = report["failed"]
    assert failed["scenario"] == "raw"
    assert "The result is raw" in failed["reason"]


@requirement("yaml.test.2")
def test_an_example_that_the_schema_refuses_fails(tmp_path: Path) -> None:
    more = "      - {scenario: wrong, input: {name: Ada, nmae: Bob}, output: x}\n"
    project = greeting(
        tmp_path, greet=GREET.replace("required: [name]}", "required: [name], additionalProperties: false}") + more
    )
    [failed] = project.run("tools", "test", "greet", *ROOT, "--json", code=1).json["tools"][0]["failed"]
    assert failed["reason"].startswith("invalid_arguments: nmae")


@requirement("yaml.test.2")
def test_live_runs_what_only_reads_and_the_rest_when_effects_are_allowed(tmp_path: Path) -> None:
    log = tmp_path / "peer.log"
    examples = (
        "  schema_version: 2.0\n  commands: [{name: look, effect: read}, {name: send, effect: once}]\n  examples:\n"
        "    look: [{scenario: success, input: {}, output: x}]\n    send: [{scenario: success, input: {}, output: x}]\n"
    )
    project = greeting(tmp_path, peer=served(log, "peer", [{"name": "look"}, {"name": "send"}], examples))

    def calls() -> list[str]:
        return [line["call"] for line in map(json.loads, log.read_text().splitlines()) if "call" in line]

    project.run("tools", "test", "peer", *ROOT)
    assert not log.exists()
    project.run("tools", "test", "peer", "--live", *ROOT)
    assert calls() == ["look"]
    project.run("tools", "test", "peer", "--live", "--allow-effects", *ROOT)
    assert calls() == ["look", "look", "send"]
    project.run("tools", "test", "peer", "--allow-effects", *ROOT, code=2)


@requirement("yaml.test.2")
def test_a_real_tool_that_does_otherwise_than_its_example_fails_live(tmp_path: Path) -> None:
    gone = GREET.replace("executable: echo", "executable: not-installed-anywhere")
    project = greeting(tmp_path, greet=gone)
    project.run("tools", "test", "greet", *ROOT)
    [report] = project.run("tools", "test", "greet", "--live", *ROOT, "--json", code=1).json["tools"]
    assert [failed["scenario"] for failed in report["failed"]] == ["success"]
    assert "unavailable" in report["failed"][0]["reason"]


@requirement("yaml.test.3")
@pytest.mark.parametrize(("name", "count"), [("clickup.validators", 77), ("clickup.helpers", 42)])
def test_recorded_cases_are_replayed(tmp_path: Path, name: str, count: int) -> None:
    root = real_tools()
    cases = RECORDINGS / f"cases/{name}.jsonl"
    soft = ("--soft-checks", "--root", str(root))
    ran = Project(tmp_path).run("tools", "test", "--cases", str(cases), *soft, "--json")
    assert [(one["id"], one["passed"], one["failed"]) for one in ran.json["tools"]] == [("clickup", count, [])]


@requirement("yaml.test.3")
def test_a_case_that_goes_otherwise_is_told(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    cases = [
        {"kind": "helper", "tool": "greet", "helper": "double", "args": {"n": 2}, "expect": 4},
        {"kind": "helper", "tool": "greet", "helper": "double", "args": {"n": 2}, "expect": 5, "about": "wrong"},
    ]
    project.write("cases.jsonl", "\n".join(map(json.dumps, cases)))
    [report] = project.run("tools", "test", "--cases", "cases.jsonl", *ROOT, "--json", code=1).json["tools"]
    assert (report["passed"], [failed["scenario"] for failed in report["failed"]]) == (1, ["wrong"])
    project.write("cases.jsonl", "{\n")
    assert "cases.jsonl:1: this is no JSON" in project.run("tools", "test", "--cases", "cases.jsonl", code=2).err


# Health


@requirement("yaml.cli.5")
def test_health_says_how_each_tool_is_and_why(tmp_path: Path) -> None:
    gone = GREET.replace("id: greet", "id: gone").replace("executable: echo", "executable: not-installed-anywhere")
    project = greeting(tmp_path, gone=gone)
    reports = {one["id"]: one for one in project.run("tools", "health", *ROOT, "--json", code=1).json["tools"]}
    assert reports["greet"].keys() == {"id", "status", "level", "reason", "checked_at"}
    assert (reports["greet"]["status"], reports["greet"]["level"]) == ("healthy", "reachable")
    assert reports["gone"]["status"] == "unhealthy"
    assert "not-installed-anywhere" in reports["gone"]["reason"]
    ran = project.run("tools", "health", "greet", *ROOT)
    assert "healthy" in ran.out
    assert ran.err == ""
    assert "Did you mean 'greet'" in project.run("tools", "health", "gret", *ROOT, code=1).err


@requirement("yaml.cli.5")
def test_health_names_a_variable_that_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLICKUP_API_KEY", raising=False)
    ran = Project(tmp_path).run("tools", "health", "clickup", "--root", str(real_tools()), "--json", code=1)
    [report] = ran.json["tools"]
    assert report["status"] == "unhealthy"
    assert "CLICKUP_API_KEY is not set" in report["reason"]


# Calls


@requirement("yaml.cli.4")
def test_a_command_is_called_in_a_session(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    ran = project.run("tools", "call", "greet.hello", "--args", '{"name": "Ada; ls"}', "--yes", *ROOT, "--json")
    assert ran.json["ok"] is True
    assert ran.json["session"]
    assert ran.json["metadata"]["definition"]
    project.write("args.json", '{"name": "Bob"}')
    assert (
        project.run("tools", "call", "greet.hello", "--args-file", "args.json", "-y", *ROOT).out.strip() == "hello Bob"
    )
    assert (
        "hello Eve"
        in project.run("tools", "call", "greet.hello", "--args-file", "-", "-y", stdin='{"name": "Eve"}').out
    )


@requirement("yaml.cli.4")
def test_a_call_is_kept_in_the_store_of_the_crib_under_its_policy(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    rules = "rules: [{deny: 'greet.bye'}], grants: {allow: ['exec:cmd:echo']}"
    project.write("crib.yaml", f"sources: [shop_tools]\nstore: sqlite:///log.db\npolicy: {{{rules}}}\n")
    project.run("tools", "call", "greet.hello", "--args", '{"name": "Ada"}', "--session", "s-1")
    assert [row["id"] for row in project.run("sessions", "list", "--json").json] == ["s-1"]
    denied = project.run("tools", "call", "greet.bye", "--args", '{"name": "Ada"}', "--json", code=1).json
    assert denied["failure"]["code"] == "denied"


@requirement("yaml.cli.4")
def test_a_call_asks_the_person_at_the_terminal(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    project.run("tools", "call", "greet.hello", "--args", '{"name": "Ada"}', *ROOT, code=3)
    words = ["tools", "call", "greet.hello", "--args", '{"name": "Ada"}', *ROOT]
    with Screen(words, project.folder) as screen:
        screen.expect("Allow it?").press("y\n").expect("hello Ada")
        assert screen.ended() == 0


@requirement("yaml.cli.4")
def test_a_command_that_only_the_server_knows_is_called(tmp_path: Path) -> None:
    project = greeting(tmp_path, peer=served(tmp_path / "peer.log", "peer", [{"name": "real", "says": {"n": 7}}]))
    ran = project.run("tools", "call", "peer.real", "--yes", *ROOT, "--json")
    assert ran.json["data"] == {"n": 7}
    assert "has no command 'unreal'" in project.run("tools", "call", "peer.unreal", *ROOT, code=1).err


@requirement("yaml.cli.4")
def test_only_the_checks_are_asked(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    check = ("tools", "call", "greet.hello", "--validate-only", *ROOT, "--args")
    good = project.run(*check, '{"name": "Ada"}', "--json").json
    assert (good["valid"], good["findings"]) == (True, [])
    assert good["duration_ms"] >= 0
    bad = project.run(*check, '{"name": ""}', "--json", code=1).json
    assert bad["valid"] is False
    assert [(one["path"], one["code"], one["source"]) for one in bad["findings"]] == [
        ("name", "required", "validate-hello")
    ]
    unfit = project.run(*check, '{"name": 7}', "--json", code=1).json
    assert [(one["path"], one["source"]) for one in unfit["findings"]] == [("name", "schema")]
    assert "Required field 'name' is missing" in project.run(*check, '{"name": ""}', code=1).out


@requirement("yaml.cli.4")
def test_a_helper_is_run(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    run = ("tools", "call", "greet", *ROOT, "--json", "--helper")
    assert project.run(*run, "double", "--args", '{"n": 21}').json == {"ok": True, "value": 42}
    broken = project.run(*run, "broken", code=1).json
    assert broken == {"ok": False, "fault": "threw", "message": "Helper 'broken' execution failed: no way"}
    assert project.run("tools", "call", "gret", *ROOT, "--json", "--helper", "x", code=1).json["fault"] == "not_found"
    assert "Available helpers: double, broken" in project.run(*run, "nobody", code=1).json["message"]


def test_what_cannot_be_called_says_what_to_say_instead(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    assert "say greet.COMMAND" in project.run("tools", "call", "greet", *ROOT, code=2).err
    assert (
        "leave one out" in project.run("tools", "call", "greet.hello", "--args", "{}", "--args-file", "x", code=2).err
    )
    assert "is no JSON" in project.run("tools", "call", "greet.hello", "--args", "{", *ROOT, code=2).err
    assert "greet.hello" in project.run("tools", "call", "greet.helo", *ROOT, code=1).err


@requirement("findings.tools.8")
def test_only_to_validate_a_command_that_does_not_exist_fails(project: Project) -> None:
    said = "{id: far, name: Far, type: mcp, version: 1.0.0, description: d, commands: [find], "
    project.write("far/far.yaml", said + "mcp_specific: {server_command: a-server}}\n")
    ran = project.run("tools", "call", "far.fnid", "--validate-only", "--root", "far", "--args", "{}", code=1)
    assert "fnid" in ran.err
    assert project.run("tools", "call", "far.find", "--validate-only", "--root", "far", "--args", "{}").out

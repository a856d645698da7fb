"""Commands of programs, called through a crib."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.definitions.runners.made import Programs, called, definition, made, session_with, tool_of
from tests.requirements import requirement
from tests.shared import recorded
from toolcrib import Tool
from toolcrib.definitions.reader import read
from toolcrib.definitions.runners import BadTemplate, RunnerSettings, runner
from toolcrib.errors import ToolFailure

pytestmark = pytest.mark.process

ECHO = "import json, sys; print(json.dumps({'args': sys.argv[1:], 'stdin': sys.stdin.read()}))"
SAY = """
cli_specific: {executable: say}
commands:
  - name: greet
    cli_args: ["--name", "{{name}}", ["--mood", "{{mood}}"], {flag: --loud, when: loud}]
    parameters:
      type: object
      properties: {name: {type: string}, mood: {type: string}, loud: {type: boolean}}
      required: [name]
  - {name: raw, description: Takes arguments as they are}
  - {name: line, exec_template: "say line '{{text}}'", parameters: [{name: text, type: string, allow_dash: true}]}
"""


@requirement("yaml.run.cli.1")
async def test_a_template_gives_the_program_its_arguments(programs: Programs) -> None:
    programs.write("say", ECHO)
    tool = tool_of(definition("cli", SAY), "greet", programs.settings())
    result = await called(tool, {"name": "a b; c", "loud": True})
    assert result.data == {"args": ["--name", "a b; c", "--loud"], "stdin": ""}
    assert (await called(tool, {"name": "x", "mood": "-5"})).data["args"] == ["--name", "x", "--mood", "-5"]


@requirement("yaml.run.cli.3")
async def test_a_command_without_template_takes_arguments_and_input(programs: Programs) -> None:
    programs.write("say", ECHO)
    tool = tool_of(definition("cli", SAY), "raw", programs.settings())
    result = await called(tool, {"args": ["-x", "a b", ";"], "stdin": "in"})
    assert result.data == {"args": ["raw", "-x", "a b", ";"], "stdin": "in"}
    assert (await called(tool, {"arg": ["x"]})).failure.code == "invalid_arguments"  # type: ignore[union-attr]


@requirement("yaml.run.cli.2")
async def test_a_command_line_may_begin_with_the_program(programs: Programs) -> None:
    programs.write("say", ECHO)
    tool = tool_of(definition("cli", SAY), "line", programs.settings())
    assert (await called(tool, {"text": "-5 $HOME"})).data["args"] == ["line", "-5 $HOME"]


@requirement("yaml.cmd.5", "yaml.cmd.6")
def test_capabilities_and_effect_are_what_the_file_says() -> None:
    text = """
effect: idempotent
requires: ["fs:read:{path}"]
cli_specific: {executable: say, environment_variables: [{name: SAY_KEY, required: true}]}
dependencies: {env_vars: [OTHER]}
commands: [{name: a}, {name: b, effect: read, timeout_ms: 1500}]
"""
    found = definition("cli", text)
    how = made(found, "a")
    assert how.capabilities == ("exec:cmd:say", "secrets:read:SAY_KEY", "secrets:read:OTHER", "fs:read:{path}")
    assert (how.effect, how.timeout_s) == ("idempotent", 60.0)
    assert (made(found, "b").effect, made(found, "b").timeout_s) == ("read", 1.5)
    assert made(definition("cli", SAY), "raw").effect == "once"
    assert made(definition("cli", f"timeout_ms: 2500\n{text}"), "a").timeout_s == 2.5


def test_the_argument_array_of_a_call_can_be_shown_before(programs: Programs) -> None:
    how = made(definition("cli", SAY), "greet", programs.settings())
    assert how.argv is not None
    assert how.argv({"name": "a b"}) == ["say", "--name", "a b"]


def test_a_template_without_a_schema_shows_its_names() -> None:
    text = 'cli_specific: {executable: say}\ncommands: [{name: a, cli_args: ["{{x}}", ["{{y}}"]]}]'
    schema = made(definition("cli", text), "a").input_schema
    assert schema == {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["x"]}


@requirement("yaml.run.cli.1")
@pytest.mark.parametrize("executable", ["say --loud", "", 7, ["say"]])
def test_the_executable_is_one_program(executable: Any) -> None:
    text = f"cli_specific: {{executable: {json.dumps(executable)}}}\ncommands: [a]"
    with pytest.raises(BadTemplate):
        made(definition("cli", text), "a")


def test_without_a_program_there_is_nothing_to_run() -> None:
    found = definition("cli", "commands: [a]")
    assert runner(found, found.commands[0], RunnerSettings()) is None
    line = definition("cli", 'commands: [{name: a, exec_template: "say {{x}}"}, {name: b, exec_template: "{{x}}"}]')
    assert made(line, "a").capabilities == ("exec:cmd:say",)
    with pytest.raises(BadTemplate, match="its first word is a program"):
        made(line, "b")


@requirement("yaml.run.1")
async def test_a_required_variable_that_is_not_set_is_named(programs: Programs) -> None:
    programs.write("say", "import os; print(os.environ['SAY_KEY'], os.environ.get('UNDECLARED'))")
    text = """
cli_specific:
  executable: say
  environment_variables: [{name: SAY_KEY, required: true, description: Get one from your friend}]
commands: [a]
"""
    failure = (await called(tool_of(definition("cli", text), "a", programs.settings()), {"args": []})).failure
    assert failure is not None
    assert (failure.code, failure.message) == ("unavailable", "SAY_KEY is not set")
    assert failure.hint == "Get one from your friend"


@requirement("yaml.run.1")
async def test_declared_values_reach_the_program_and_nobody_else(programs: Programs) -> None:
    programs.write("say", "import os, sys; print(*sorted(os.environ)); print(os.environ['SAY_KEY']); sys.exit(3)")
    text = "cli_specific: {executable: say, environment_variables: [SAY_KEY]}\ncommands: [a]"
    tool = tool_of(definition("cli", text), "a", programs.settings(SAY_KEY="hunter2", OTHER="x", LANG="C.UTF-8"))
    async with session_with(tool) as session:
        result = await session.call(tool.id, {"args": []})
        events = [event async for event in session.events(follow=False)]
    assert result.failure is not None
    names, value = result.failure.message.splitlines()
    assert [name for name in names.split() if not name.startswith("LC_")] == ["HOME", "LANG", "PATH", "SAY_KEY"]
    assert value == "•••"
    assert "hunter2" not in repr(events)


@requirement("yaml.run.1")
async def test_masking_leaves_data_what_it_is(programs: Programs) -> None:
    programs.write("say", "import json; print(json.dumps({'a': True, 'true': 'is true', 'n': 5000}))")
    text = "cli_specific: {executable: say, environment_variables: [ONE, TWO]}\ncommands: [{name: a, cli_args: []}]"
    result = await called(tool_of(definition("cli", text), "a", programs.settings(ONE="true", TWO="5000")))
    assert result.data == {"a": True, "•••": "is •••", "n": "•••"}


@requirement("yaml.run.cli.4")
async def test_json_that_was_promised_and_is_none_is_a_failure(programs: Programs) -> None:
    programs.write("say", "print('{no')")
    text = "cli_specific: {executable: say, output: json}\ncommands: [{name: a, cli_args: []}]"
    result = await called(tool_of(definition("cli", text), "a", programs.settings()))
    assert result.failure is not None
    assert (result.failure.code, result.metadata["exit_code"]) == ("failed", 0)


@requirement("yaml.run.cli.4")
@pytest.mark.parametrize(
    ("printed", "form", "expected"),
    [
        ('{"a": [1]}', "auto", {"a": [1]}),
        (" [1, 2]\n", "auto", [1, 2]),
        ("7", "auto", "7\n"),
        ("7", "json", 7),
        ("{broken", "auto", "{broken\n"),
        ('{"a": 1}', "text", '{"a": 1}\n'),
        ("", "auto", "\n"),
    ],
)
async def test_what_is_printed_is_data_or_text(programs: Programs, printed: str, form: str, expected: Any) -> None:
    programs.write("say", f"print({printed!r})")
    text = f"cli_specific: {{executable: say}}\ncommands: [{{name: a, cli_args: [], output: {form}}}]"
    result = await called(tool_of(definition("cli", text), "a", programs.settings()))
    assert result.data == expected


@requirement("yaml.run.cli.4")
@pytest.mark.parametrize(
    ("code", "message", "exit_code"),
    [
        ("import sys; print('out'); sys.stderr.write('x' * 9000 + ' no'); sys.exit(4)", f"{'x' * 2045} no", 4),
        ("import sys; print('only out'); sys.exit(1)", "only out", 1),
        ("import sys; sys.exit(2)", "say ended with exit code 2", 2),
        ("import os; os.kill(os.getpid(), 9)", "say died of signal 9", -9),
    ],
)
async def test_a_program_that_fails_says_why(programs: Programs, code: str, message: str, exit_code: int) -> None:
    programs.write("say", code)
    text = "cli_specific: {executable: say}\ncommands: [{name: a, cli_args: []}]"
    result = await called(tool_of(definition("cli", text), "a", programs.settings()))
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == ("failed", message)
    assert result.metadata["exit_code"] == exit_code


@requirement("yaml.run.2")
async def test_time_is_up_and_the_program_ends(programs: Programs) -> None:
    programs.write("say", "import time; print('first\\nsecond', flush=True); time.sleep(600)")
    text = "cli_specific: {executable: say}\ncommands: [{name: a, cli_args: [], timeout_ms: 700}]"
    tool = tool_of(definition("cli", text), "a", programs.settings())
    async with session_with(tool) as session:
        result = await asyncio.wait_for(session.call(tool.id), 60)
        output = "".join([e.fields["delta"] async for e in session.events(follow=False) if e.kind == "output"])
    assert result.failure is not None
    assert result.failure.code == "timeout"
    assert output == "first\nsecond\n"


async def test_much_output_is_kept_and_told_without_loss(programs: Programs) -> None:
    programs.write("say", "import sys; sys.stdout.write('0123456789abcdef\\n' * 700_000)")
    text = "cli_specific: {executable: say}\ncommands: [{name: a, cli_args: []}]"
    tool = tool_of(definition("cli", text), "a", programs.settings())
    async with session_with(tool) as session:
        result = await asyncio.wait_for(session.call(tool.id), 60)
        told = sum([len(e.fields["delta"]) async for e in session.events(follow=False) if e.kind == "output"])
    assert result.ok
    assert told == 17 * 700_000


@pytest.fixture
def github(programs: Programs) -> Callable[[], Tool]:
    """The command `pr_list` of the real file, with whatever `gh` there is."""
    found = read(recorded("tools/cli/github-cli.yaml"))
    return lambda: tool_of(found, "pr_list", programs.settings())


@requirement("yaml.run.cli.3", "yaml.run.cli.4")
async def test_a_real_file_runs_its_program_with_exactly_what_is_given(
    programs: Programs, github: Callable[[], Tool]
) -> None:
    programs.write("gh", ECHO)
    given = ["--search", "a b; rm -rf /", "", "$(id)", "--state=all"]
    assert (await called(github(), {"args": given})).data["args"] == ["pr", "list", *given]
    programs.write("gh", "import sys; sys.exit('You are not logged into any GitHub hosts. Run gh auth login')")
    result = await called(github(), {"args": []})
    assert result.failure is not None
    assert "You are not logged into any GitHub hosts" in result.failure.message


@requirement("yaml.run.cli.4")
async def test_a_program_that_is_not_there_says_how_to_install_it(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(recorded("tools/cli/github-cli.yaml"))
    settings = RunnerSettings(environ={"PATH": str(tmp_path_factory.mktemp("empty"))})
    for platform, text in (("linux", "install_linux"), ("darwin", "brew install gh"), ("win32", "winget")):
        monkeypatch.setattr("toolcrib.definitions.runners.cli.sys", SimpleNamespace(platform=platform))
        with pytest.raises(ToolFailure, match="gh is not installed") as caught:
            await made(found, "pr_list", settings).run(None, {"args": []})
        assert caught.value.code == "unavailable"
        assert text in str(caught.value.hint)

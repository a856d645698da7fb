"""SIGHUP and `serve --reload`: a server goes on with what its files say now, and drops no call for it."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import ready
from tests.cli.definitions import GREET
from tests.cli.project import Project, environment, until
from tests.cli.test_serve import serving
from tests.ready import Program
from tests.requirements import requirement

pytestmark = pytest.mark.process

DOOR = '''
import asyncio
from pathlib import Path

from toolcrib import tool

HERE = Path(__file__).parent


@tool(namespace="door", read_only=True, timeout=120)
async def gate() -> str:
    """Wait for a file."""
    (HERE / "seen").touch()
    while not (HERE / "open").exists():
        await asyncio.sleep(0.02)
    return WORD


@tool(namespace="door", read_only=True)
async def word() -> str:
    """Say a word."""
    return WORD


WORD = "old"
'''
AGENT = "---\nname: clerk\ndescription: Files things.\nmodel: openai:gpt-5\ntools: [word]\n---\nYou file things.\n"
LOADED = "were read again"
KEPT = "the last good version goes on"


@pytest.fixture
def door(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("door.py", DOOR)
    project.write("crib.yaml", config())
    return project


def config(more: str = "", sources: str = "door.py") -> str:
    return f"sources: [{sources}]\nstore: sqlite:///shop.db\n{more}"


class Client:
    """Calls of one session over HTTP."""

    def __init__(self, told: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {told['token']}"}
        self.http = httpx.Client(base_url=told["api"], headers=headers, timeout=60)
        assert self.http.post("/sessions", json={"id": "s"}).status_code < 300

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self.http.close()

    def call(self, tool: str, **args: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.http.post("/sessions/s/calls", json={"tool": tool, "args": args}).json()
        return answer

    def tools(self) -> set[str]:
        return {tool["id"] for tool in self.http.get("/tools").json()["items"]}


class Waiting(threading.Thread):
    """A call of the gate that is under way."""

    def __init__(self, project: Project, client: Client) -> None:
        super().__init__(daemon=True)
        self._project, self._client = project, client
        self.result: dict[str, Any] = {}
        self.start()
        while not (project.folder / "seen").exists():
            self.join(0.02)

    def run(self) -> None:
        self.result = self._client.call("gate")

    def let_through(self) -> dict[str, Any]:
        (self._project.folder / "open").touch()
        self.join(60)
        return self.result


def hang_up(process: Program, said: str) -> str:
    process.send_signal(signal.SIGHUP)
    read = ""
    while LOADED not in read and KEPT not in read:
        line = process.stderr.readline() if process.stderr is not None else ""
        assert line, read
        read += line
    assert said in read
    return read


@requirement("project.reload.1")
def test_a_signal_has_policy_sources_and_agents_read_again_while_a_call_runs(door: Project) -> None:
    with serving(door) as (process, told), Client(told) as client:
        waiting = Waiting(door, client)
        assert client.call("word")["data"] == "old"
        door.write("greet.yaml", GREET)
        door.write("team/clerk.md", AGENT)
        more = 'policy: {rules: [{deny: "door.word"}]}\nagents: [team/]\n'
        door.write("crib.yaml", config(more, "door.py, greet.yaml"))
        hang_up(process, LOADED)
        assert client.call("word")["failure"]["code"] == "denied"
        assert {"greet.hello", "door.gate"} <= client.tools()
        assert [one["name"] for one in client.http.get("/agents").json()["items"]] == ["clerk"]
        door.write("crib.yaml", config())
        hang_up(process, LOADED)
        assert client.call("word")["data"] == "old"
        assert "greet.hello" not in client.tools()
        assert waiting.let_through()["data"] == "old"


@requirement("project.reload.2")
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("sources: [", "crib.yaml:2"),
        (config('policy: {rules: [{deny: "((("}]}'), "policy"),
        (config(sources="door.py, no_such.py"), "there is no file"),
        (config("agents: [nowhere/]"), "there is no nowhere"),
        (config(sources="door.py, door.py"), "already registered"),
    ],
)
def test_a_broken_edit_keeps_the_last_good_version_and_says_so(door: Project, broken: str, said: str) -> None:
    with serving(door) as (process, told), Client(told) as client:
        door.write("crib.yaml", broken)
        assert said in hang_up(process, KEPT)
        assert client.call("word")["data"] == "old"
        door.write("crib.yaml", config('policy: {rules: [{deny: "door.word"}]}'))
        hang_up(process, LOADED)
        assert client.call("word")["failure"]["code"] == "denied"


@requirement("project.reload.1")
def test_what_counts_only_at_the_next_start_is_told(door: Project) -> None:
    with serving(door) as (process, told), Client(told) as client:
        door.write("crib.yaml", config("limits: {timeout_s: 5}\nretention: 1d"))
        assert "limits, retention counts at the next start" in hang_up(process, LOADED)
        assert client.call("word")["data"] == "old"


@requirement("project.reload.3")
def test_changed_code_is_taken_under_calls_and_none_fails(door: Project) -> None:
    with serving(door, "--reload") as (process, told), Client(told) as client:
        waiting = Waiting(door, client)
        assert client.call("word")["data"] == "old"
        words = []
        for version in ("new", "newer", "newest"):
            door.write("door.py", DOOR.replace('"old"', f'"{version}"'))
            for _ in range(2000):
                words.append(client.call("word")["data"])
                if words[-1] == version:
                    break
        assert set(words) <= {"old", "new", "newer", "newest"}
        assert words[-1] == "newest"
        door.write("door.py", DOOR.replace('"old"', '"broken'))
        until(process.stderr, KEPT)
        assert client.call("word")["data"] == "newest"
        assert waiting.let_through()["data"] == "old"


@requirement("project.reload.3")
def test_without_the_option_code_stays_as_it_was(door: Project) -> None:
    with serving(door) as (process, told), Client(told) as client:
        door.write("door.py", DOOR.replace('"old"', '"new"'))
        hang_up(process, LOADED)
        assert client.call("word")["data"] == "old"


@requirement("project.reload.1")
def test_a_server_whose_terminal_is_closed_stops(door: Project) -> None:
    fd, inner = os.openpty()
    words = ["-m", "toolcrib", "serve", "--port", "0", "--json"]
    with ready.Program(words, cwd=door.folder, env=environment(), stdin=inner, stderr=inner) as process:
        os.close(inner)
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        os.close(fd)
        assert process.wait(60) == 0


@requirement("project.log.1")
def test_each_line_of_the_log_has_time_level_and_logger(door: Project) -> None:
    with serving(door) as (process, _):
        line = hang_up(process, LOADED).splitlines()[-1]
    time, level, logger, message = line.split(" ", 3)
    assert (len(time), time[-1], level, logger) == (24, "Z", "INFO", "toolcrib.cli:")
    assert message.startswith("crib.yaml")


@requirement("project.log.1")
@pytest.mark.parametrize("words", [("--log-format", "json"), ()])
def test_the_log_is_json_where_that_is_asked_for(door: Project, words: tuple[str, ...]) -> None:
    door.write("crib.yaml", config("" if words else "serve: {log_format: json}"))
    with serving(door, *words) as (process, _):
        lines = [json.loads(line) for line in hang_up(process, LOADED).splitlines()]
    assert lines[-1]["level"] == "info"
    assert {frozenset(line) - {"error"} for line in lines} == {frozenset(("time", "level", "logger", "message"))}


@requirement("project.log.1")
def test_an_unknown_form_of_the_log_is_refused(door: Project) -> None:
    assert "it is text or json" in door.run("serve", "--log-format", "xml", code=2).err


@requirement("findings.shown.1")
def test_what_does_nothing_is_told_when_files_are_read_again(door: Project) -> None:
    with serving(door) as (process, _):
        door.write("crib.yaml", config('policy: {rules: [{deny: "door.wrod"}]}\n'))
        hang_up(process, LOADED)
        assert process.stderr is not None
        assert "denies a tool that does not exist, did you mean 'door.word'? [NO_TOOL]" in process.stderr.readline()


@requirement("findings.shown.1", "findings.config.7")
def test_what_does_nothing_is_told_with_the_line_of_the_file_that_was_read_again(door: Project) -> None:
    door.write("crib.yaml", config("declare: {door.wrod: {effect: read}}\n"))
    with serving(door) as (process, told), Client(told) as client:
        assert [one["line"] for one in client.http.get("/findings").json()["items"]] == [3]
        door.write("crib.yaml", "# a remark\n\n" + config("declare: {door.wrod: {effect: read}}\n"))
        hang_up(process, LOADED)
        assert [one["line"] for one in client.http.get("/findings").json()["items"]] == [5]

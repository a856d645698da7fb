"""With `--json` standard output holds JSON and nothing else, whatever tools, modules and their processes print."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.core import TyperGroup

from tests.cli.definitions import GREET
from tests.cli.project import SOURCE
from tests.cli.team import Team, calls, says
from tests.cli.test_store_alone import leaves
from tests.requirements import requirement
from toolcrib.cli.app import app

pytestmark = pytest.mark.process

NOISE = 'print("noise"); os.write(1, b"noise\\n"); subprocess.run(["echo", "noise"], check=True)'
LOUD = f'''
import os
import subprocess

{NOISE}


@tool(namespace="shop", read_only=True)
def loud(order: str = "") -> str:
    """Print a lot."""
    {NOISE}
    return "done"
'''


class Said(NamedTuple):
    """What is said after a command, its exit code, and how it is ended where it does not end by itself."""

    words: str = ""
    code: int = 0
    stdin: str = ""
    runs_on: bool = False


FOUND = '{"order":"1"}'
WORDS = {
    "call": Said("loud"),
    "answer": Said("{question} accept"),
    "run": Said("support hello"),
    "chat": Said("support", code=2, stdin="hello\n"),
    "why": Said("loud"),
    "schema": Said(),
    "install": Said("cursor --project --no-check"),
    "uninstall": Said("cursor --project"),
    "sweep": Said(),
    "serve": Said("--port 0", runs_on=True),
    "tools list": Said(),
    "tools show": Said("shop.loud"),
    "tools accept": Said("--all --yes", code=1),
    "tools lint": Said("greet"),
    "tools test": Said("greet"),
    "tools call": Said("greet.hello --args {args}", code=3),
    "tools health": Said("greet"),
    "tools migrate": Said("greet --dry-run"),
    "tools rollback": Said("greet --dry-run"),
    "tools diff": Said("greet --rolled-back"),
    "tools new": Said("fresh-{number} --type cli"),
    "agents list": Said(),
    "agents show": Said("support"),
    "agents lint": Said(),
    "agents graph": Said(),
    "sessions list": Said(),
    "sessions show": Said("{session}"),
    "sessions prompt": Said("{session}", code=1),
    "sessions watch": Said("{session} --no-follow"),
    "sessions export": Said("{session} {number}.jsonl"),
    "sessions import": Said("exported.jsonl --id {number}"),
    "sessions delete": Said("{session} --force"),
    "approvals list": Said(),
    "approvals show": Said("{question}"),
    "approvals approve": Said("{question}"),
    "approvals decline": Said("{question} --reason no"),
    "approvals edit": Said("{question} --args {changed}"),
    "approvals watch": Said(runs_on=True),
    "audit list": Said(),
    "stats": Said(),
    "audit verify": Said("audit.jsonl"),
    "policy check": Said(),
    "store check": Said(),
    "store migrate": Said(),
    "store verify": Said(),
    "store vacuum": Said(),
    "store backup": Said("{number}.backup"),
    "store restore": Said("saved.backup --store sqlite:///{number}.db"),
    "store rebuild": Said("--dry-run"),
    "schedules list": Said(),
    "schedules add": Said("{session} find {found} --after 12h"),
    "schedules cancel": Said("{schedule}"),
    "mcp config": Said(),
    "mcp list": Said("--no-check"),
    "mcp import": Said("servers.json --yes"),
    "mcp add": Said("more http://127.0.0.1:9/mcp --no-check"),
    "mcp remove": Said("far"),
    "mcp logs": Said("far --url http://127.0.0.1:9", code=1),
    "mcp refresh": Said("far --url http://127.0.0.1:9", code=1),
    "mcp restart": Said("far --url http://127.0.0.1:9", code=1),
    "sources list": Said("--url http://127.0.0.1:9", code=1),
    "sources add": Said("far http://127.0.0.1:9/mcp --url http://127.0.0.1:9", code=1),
    "sources test": Said("far --url http://127.0.0.1:9", code=1),
    "sources disable": Said("far --url http://127.0.0.1:9", code=1),
    "sources enable": Said("far --url http://127.0.0.1:9", code=1),
    "sources refresh": Said("far --url http://127.0.0.1:9", code=1),
    "sources remove": Said("far --url http://127.0.0.1:9", code=1),
    "connect": Said("nowhere", code=1),
    "accounts list": Said(),
    "accounts remove": Said("nowhere", code=1),
    "init": Said("fresh --minimal --yes"),
    "mcp inspect": Said("http://127.0.0.1:9/mcp", code=1),
    "keys add": Said("ada"),
    "keys list": Said(),
    "keys revoke": Said("{key}"),
    "worker": Said(code=2),  # without a cluster
    "cluster load": Said(code=2),
    "cluster status": Said(code=2),
}
ELSEWHERE = {
    "demo": "it serves until it is stopped; tests/test_demo.py holds it",
    "mcp stdio": "it speaks a protocol on standard output, which tests/cli/test_mcp_serve.py holds",
    "guard": "it speaks the JSON of its client, which tests/guard holds",
    "cluster up": "it starts services; tests/cli/test_cluster.py reads its JSON",
}


class Furnished(NamedTuple):
    """A folder in which something has happened, and what the words of a command may name of it."""

    folder: Path
    named: dict[str, Any]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Furnished:
    """What the folder of each test is a copy of."""
    made = Team(tmp_path_factory.mktemp("furnished"), support=[calls(("loud", {})), says("There it is.")] * 3)
    made.write("shop_tools.py", SOURCE + LOUD)
    made.write("greet.yaml", GREET)
    config = (made.folder / "crib.yaml").read_text("utf-8").replace("[shop_tools.py,", "[shop_tools.py, greet.yaml,")
    made.write("crib.yaml", config)
    made.write("servers.json", json.dumps({"mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp"}}}))
    made.run("call", "find", "-a", "order=1")
    waiting = made.wait_for_refund()
    made.run("sessions", "export", waiting["session"], "exported.jsonl")
    made.run("store", "backup", "saved.backup")
    made.write("audit.jsonl", made.run("audit", "--json").out)
    key = made.run("keys", "add", "bob", "--json").json["id"]
    later = made.run("schedules", "add", waiting["session"], "find", FOUND, "--after", "12h", "--json").json["id"]
    named = {"found": FOUND, "schedule": later, "args": '{"name":"Ada"}', "changed": '{"cents":400}', "key": key}
    return Furnished(made.folder, named | {"session": waiting["session"], "question": waiting["question"]["id"]})


@pytest.fixture
def team(furnished: Furnished, tmp_path: Path) -> Team:
    made = Team(tmp_path)
    shutil.copytree(furnished.folder, tmp_path, dirs_exist_ok=True)
    return made


def parsed(text: str) -> list[Any]:
    """The values of an output: one, or one in each line."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


@requirement("project.json.1")
@pytest.mark.parametrize("name", [name for name, said in WORDS.items() if not said.runs_on])
def test_standard_output_holds_json_alone(team: Team, furnished: Furnished, name: str) -> None:
    said = WORDS[name]
    words = [word.format(number=name.replace(" ", "-"), **furnished.named) for word in said.words.split()]
    if name == "mcp remove":
        team.run("mcp", "add", "far", "http://127.0.0.1:9/mcp", "--no-check")
    ran = team.run(*name.split(), *words, "--json", stdin=said.stdin, code=said.code)
    assert said.code in (1, 2) or parsed(ran.out), ran
    assert said.code in (0, 3) or "error" in json.loads(ran.err.splitlines()[-1])


@requirement("project.json.1")
@pytest.mark.parametrize("name", [name for name, said in WORDS.items() if said.runs_on])
def test_what_runs_on_tells_json_alone(team: Team, name: str) -> None:
    with team.start(*name.split(), *WORDS[name].words.split(), "--json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert parsed(process.stdout.read()) in ([], [{}])


@requirement("project.json.1")
def test_what_a_tool_prints_is_still_seen_on_standard_error(team: Team) -> None:
    ran = team.run("call", "loud", "--json")
    assert ran.json["data"] == "done"
    assert ran.err.splitlines().count("noise") == 6


@requirement("project.json.1")
def test_every_command_is_tried() -> None:
    main = typer.main.get_command(app)
    assert isinstance(main, TyperGroup)
    assert sorted({*leaves(main)} ^ {*WORDS, *ELSEWHERE}) == []

"""Commands that look at what the store holds, over a crib whose every other part is broken or must not run."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from tests.cli.project import Project, environment
from tests.requirements import requirement
from toolcrib.cli.app import app

SPY = """
from pathlib import Path

Path(__file__).with_name("imported").touch()
"""
BROKEN = """
sources:
  - spy_tools.py
  - {mcp: "sh -c 'touch started; sleep 1000'", required: true}
  - {mcp: "sleep 1000", env: {TOKEN: "${NOBODY_SET_THIS}"}}
  - {toolkit: no_such_toolkit}
agents: [no-such-folder/]
secret_key: env:NOBODY_SET_THIS_EITHER
engine: nats://127.0.0.1:1
policy: {rules: [{deny: "((("}]}
store: sqlite:///shop.db
"""
ALONE = {
    "sessions list": "",
    "sessions show": "{session}",
    "sessions prompt": None,  # it wants an agent that was asked something; see test_sessions
    "sessions watch": "{session} --no-follow",
    "sessions export": "{session} out.jsonl --force",
    "sessions import": "exported.jsonl --id copy-{number}",
    "sessions delete": "gone",
    "approvals list": "",
    "approvals show": "{question}",
    "approvals watch": None,  # it goes on until it is stopped
    "audit list": "",
    "stats": "",
    "audit verify": "audit.jsonl --log --partial",
    "store check": "",
    "store verify": "",
    "store migrate": "",
    "store vacuum": "",
    "store backup": "out.backup --force",
    "store restore": "saved.backup --store sqlite:///restored-{number}.db",
    "store rebuild": "--dry-run",
    "keys add": "ada",
    "keys list": "",
    "keys revoke": "{key}",
    "schedules list": "",
    "schedules cancel": "{schedule}",
    "sweep": "--dry-run",
    "schema": "",
    "mcp config": "",
}
"""Commands that need the store alone, with what is to be said after them."""

WHOLE = (
    ("call", "answer", "run", "chat", "why", "worker", "serve", "policy check"),
    ("approvals approve", "approvals decline", "approvals edit", "schedules add"),
    ("cluster up", "cluster status", "cluster load", "mcp stdio", "mcp import", "mcp add", "mcp list", "mcp inspect"),
    ("mcp remove", "mcp logs", "mcp refresh", "mcp restart"),
    ("sources list", "sources add", "sources test", "sources disable", "sources enable"),
    ("sources refresh", "sources remove"),
    ("connect", "accounts list", "accounts remove", "init", "demo", "guard", "install", "uninstall"),
    ("tools list", "tools show", "tools accept", "tools lint", "tools test", "tools call", "tools health"),
    ("tools migrate", "tools rollback", "tools diff", "tools new"),
    ("agents list", "agents show", "agents lint", "agents graph"),
)
"""Commands that work with the tools, the agents or the servers of a crib."""


def leaves(group: TyperGroup, *names: str) -> Iterator[str]:
    for name, inner in group.commands.items():
        if isinstance(inner, TyperGroup):
            yield from leaves(inner, *names, name)
        else:
            yield " ".join((*names, name))


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A project with a past, whose crib.yaml was broken since."""
    project = Project(tmp_path_factory.mktemp("shop"))
    waiting = project.wait_for_refund()
    project.run("call", "find", "-a", "order=1", "--session", "spare")
    project.run("sessions", "export", "spare", "exported.jsonl")
    project.run("store", "backup", "saved.backup")
    project.write("audit.jsonl", project.run("audit", "--json").out)
    key = project.run("keys", "add", "bob", "--json").json["id"]
    later = project.run("schedules", "add", "spare", "find", '{"order":"1"}', "--after", "12h", "--json").json["id"]
    project.write("spy_tools.py", SPY)
    project.write("crib.yaml", BROKEN)
    known = {"question": waiting["question"]["id"], "session": waiting["session"], "key": key, "schedule": later}
    return {"project": project, **known}


@requirement("project.look.1")
@pytest.mark.parametrize("name", [name for name, words in ALONE.items() if words is not None])
@pytest.mark.process
def test_a_command_that_looks_at_the_store_imports_and_starts_nothing(facts: dict[str, Any], name: str) -> None:
    project: Project = facts["project"]
    for number, form in enumerate(([], ["--json"])):
        if name == "sessions delete":
            project.run("sessions", "import", "exported.jsonl", "--id", "gone")
        words = (ALONE[name] or "").format(number=f"{name.replace(' ', '-')}-{number}", **facts)
        project.run(*name.split(), *words.split(), *form)
    assert [path.name for path in project.folder.iterdir() if path.name in ("imported", "started")] == []


@requirement("project.look.1")
@pytest.mark.process
def test_questions_are_told_as_they_come_without_the_tools(facts: dict[str, Any]) -> None:
    project: Project = facts["project"]
    with project.start("approvals", "watch", "--json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == facts["question"]
    assert not (project.folder / "imported").exists()


@requirement("project.look.1")
def test_every_command_either_needs_the_store_alone_or_works_with_the_crib() -> None:
    main = typer.main.get_command(app)
    assert isinstance(main, TyperGroup)
    known = {*ALONE, *(name for names in WHOLE for name in names)}
    assert sorted({*leaves(main)} ^ known) == [], "put a new command into ALONE or WHOLE, with what it needs"


@requirement("project.look.1")
@pytest.mark.process
def test_a_store_that_is_named_needs_no_crib(facts: dict[str, Any], tmp_path: Path) -> None:
    url = f"sqlite:///{facts['project'].folder / 'shop.db'}"
    elsewhere = Project(tmp_path)
    (tmp_path / "crib.yaml").unlink()
    listed = elsewhere.run("--store", url, "sessions", "list", "--json").json
    assert facts["session"] in {session["id"] for session in listed}
    assert elsewhere.run("--store", url, "approvals", "show", facts["question"], "--json").json["id"]


@requirement("project.look.1")
@pytest.mark.process
@pytest.mark.parametrize("value", ["[a]", "''", "7"])
def test_a_store_that_is_no_text_is_told_with_its_line(project: Project, value: str) -> None:
    project.write("crib.yaml", f"sources: []\nstore: {value}\n")
    assert "crib.yaml:2: expected a text" in project.run("sessions", "list", code=2).err


@requirement("project.look.2")
@pytest.mark.process
def test_listing_sessions_loads_neither_the_runtime_nor_what_draws(project: Project) -> None:
    project.run("call", "find", "-a", "order=1")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "toolcrib", "sessions", "list"],
        cwd=project.folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "toolcrib.store.sqlite.store" in loaded
    heavy = {"toolcrib.crib", "toolcrib.session", "toolcrib.policy", "toolcrib.cli.config.model", "toolcrib.cli.serve"}
    assert loaded & {*heavy, "rich", "httpx", "starlette", "toolcrib._call.pipeline"} == set()


@requirement("project.look.2")
@pytest.mark.process
def test_importing_the_package_loads_nothing_of_it(project: Project) -> None:
    program = "import sys, toolcrib; print([name for name in sys.modules if name.startswith('toolcrib.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

"""`toolcrib mcp add`, `list`, `inspect` and `config`: the MCP servers of a crib."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.project import Project
from tests.requirements import requirement
from tests.sources.mcp.place import PEERS
from toolcrib.cli.config.mcp_entries import ServerEntry, add, names, remove
from toolcrib.cli.terminal import CommandError

KIT = (sys.executable, str(PEERS / "kit.py"), "stdio")
NEW = ServerEntry("new", "npx -y 'some server'", True, {"TOKEN": "${TOKEN}"}, {})

TEXTS = [
    "",
    "# nothing yet\n",
    "store: 'memory:' # kept\n",
    "store: 'memory:'",
    "sources: []\n",
    "sources: [shop] # mine\nstore: 'memory:'\n",
    "sources: [\n  shop,  # mine\n  mail,\n]\n",
    "sources:\nstore: 'memory:'\n",
    "sources: # all of them\n  # none yet\nstore: 'memory:'\n",
    "sources:\n  - shop # mine\n\n# the rest\nstore: 'memory:'\n",
    "sources:\n- shop\n- {mcp: x, name: y}\nstore: 'memory:'\n",
    "sources:\n  - mcp: a b\n    name: y\n    env:\n      A: b # c\nstore: 'memory:'\n",
    "sources:\n  - files:\n      - a\n      - b",
    "sources:\n  - mcp: >-\n      npx\n      -y x\nstore: 'memory:'\n",
    "store: 'memory:'\nsources:\n    - shop\n",
    "{store: 'memory:'}\n",
    "{}\n",
    "---\nsources:\n  - shop\n",
    "\ufeffsources: [shop]\n",
    "sources:\r\n  - shop # mine\r\nstore: 'memory:'\r\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_an_entry_is_added_and_all_else_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "crib.yaml"
    path.write_bytes(text.encode())
    add(path, [NEW, NEW._replace(name="newer")])
    after = path.read_bytes().decode()
    said, before = yaml.safe_load(after), yaml.safe_load(text) or {}
    assert said.pop("sources") == [*(before.pop("sources", None) or []), NEW.data, {**NEW.data, "name": "newer"}]
    assert said == before
    kept = iter(after)
    assert all(character in kept for character in text.strip("\n"))
    assert ("\r\n" in after) is ("\r\n" in text)
    assert "\n" not in after.replace("\r\n", "") or "\r\n" not in text
    assert names(path) >= {"new", "newer"}


@pytest.mark.parametrize("text", ["- a\n", "sources: shop\n", "sources: null\n", "a: &b [x]\nsources: *b\n"])
def test_a_file_that_cannot_be_changed_safely_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text(text)
    with pytest.raises(CommandError) as caught:
        add(path, [NEW])
    assert "- mcp: npx -y 'some server'\n" in caught.value.advice
    assert path.read_text() == text


def test_a_server_is_added_tried_and_used(project: Project) -> None:
    added = project.run("mcp", "add", "kit", "--", *KIT)
    assert "Added kit to crib.yaml" in added.out
    assert "Say it again." in added.out
    assert project.run("call", "kit.echo", "-a", "text=hi", "--yes").out.strip() == "hi"
    (listed,) = project.run("mcp", "list", "--json").json
    assert (listed["name"], listed["ok"], listed["trusted"], listed["revision"]) == ("kit", True, False, "2026-07-28")
    assert "add" in listed["tools"]
    assert "12 tools, revision 2026-07-28" in project.run("mcp", "list").out


def test_a_crib_begins_with_a_server(tmp_path: Path, project: Project) -> None:
    (project.folder / "crib.yaml").unlink()
    ran = project.run("mcp", "add", "kit", "--trusted", "--json", "--", *KIT)
    assert (ran.json["ok"], ran.json["trusted"], "echo" in ran.json["tools"]) == (True, True, True)
    tools = project.run("tools", "list", "--namespace", "kit", "--json").json["tools"]
    assert {tool["effect"] for tool in tools if tool["name"] == "echo"} == {"read"}


@requirement("gateway.settings.1")
def test_every_setting_of_a_server_can_be_given_on_the_command_line(project: Project) -> None:
    options = ["limits.output_bytes=9000", "limits.wait_s=60", "tasks=false", "prefix=", "most_tools=7", "account=true"]
    words = [word for option in options for word in ("--set", option)]
    project.run("mcp", "add", "away", "http://127.0.0.1:9/mcp", *words)
    (*_, entry) = yaml.safe_load((project.folder / "crib.yaml").read_text())["sources"]
    assert entry == {
        "mcp": "http://127.0.0.1:9/mcp",
        "name": "away",
        "limits": {"output_bytes": 9000, "wait_s": 60},
        "tasks": False,
        "prefix": "",
        "most_tools": 7,
        "account": True,
    }
    before = (project.folder / "crib.yaml").read_text()
    wrong = project.run("mcp", "add", "other", "http://127.0.0.1:9/mcp", "--no-check", "--set", "start=3", code=2)
    assert "start: Extra inputs are not permitted" in wrong.err
    assert (project.folder / "crib.yaml").read_text() == before


def test_a_name_is_taken_once(project: Project) -> None:
    project.run("mcp", "add", "away", "http://127.0.0.1:9/mcp", "--no-check")
    ran = project.run("mcp", "add", "away", "http://127.0.0.1:9/other", "--no-check", code=1)
    assert "There is a server 'away' in crib.yaml" in ran.err
    assert (project.folder / "crib.yaml").read_text().count("away") == 1


@requirement("gateway.sources.1")
def test_a_server_that_does_not_start_leaves_nothing_behind(project: Project) -> None:
    before = (project.folder / "crib.yaml").read_text()
    ran = project.run("mcp", "add", "away", "http://127.0.0.1:9/mcp", code=1)
    assert "127.0.0.1 cannot be reached" in ran.err
    assert (project.folder / "crib.yaml").read_text() == before
    project.run("mcp", "add", "away", "http://127.0.0.1:9/mcp", "--no-check")
    (listed,) = project.run("mcp", "list", "--json").json
    assert listed["ok"] is False
    assert "cannot be reached" in listed["problem"]
    (unasked,) = project.run("mcp", "list", "--no-check", "--json").json
    assert unasked["ok"] is None


@requirement("gateway.sources.1")
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["new", "newer"])
def test_an_entry_is_removed_and_all_else_stays(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / "crib.yaml"
    path.write_bytes(text.encode())
    add(path, [NEW, NEW._replace(name="newer")])
    remove(path, name)
    said, before = yaml.safe_load(path.read_bytes().decode()), yaml.safe_load(text) or {}
    (left,) = {"new", "newer"} - {name}
    assert said.pop("sources") == [*(before.pop("sources", None) or []), {**NEW.data, "name": left}]
    assert said == before
    remove(path, left)
    assert names(path).isdisjoint({"new", "newer"})


@requirement("gateway.sources.1")
def test_a_server_is_removed_by_its_name(project: Project) -> None:
    before = (project.folder / "crib.yaml").read_text()
    project.run("mcp", "add", "away", "http://127.0.0.1:9/mcp", "--no-check")
    assert project.run("mcp", "remove", "away", "--json").json["removed"] == "away"
    assert project.run("mcp", "list", "--json").json == []
    assert "There is no server 'away'" in project.run("mcp", "remove", "away", code=1).err
    assert (project.folder / "crib.yaml").read_text().split() == before.split()


def test_a_variable_is_read_at_every_start(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIT_TOKEN", raising=False)
    ran = project.run("mcp", "add", "kit", "--env", "KIT_TOKEN", "--", *KIT, code=2)
    assert "the variable KIT_TOKEN is not set" in ran.err
    assert "kit" not in (project.folder / "crib.yaml").read_text()
    monkeypatch.setenv("KIT_TOKEN", "very secret")
    project.run("mcp", "add", "kit", "--env", "KIT_TOKEN", "--env", "MODE=test", "--", *KIT)
    entry = yaml.safe_load((project.folder / "crib.yaml").read_text())["sources"][-1]
    assert entry["env"] == {"KIT_TOKEN": "${KIT_TOKEN}", "MODE": "test"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("Bad Name", "http://127.0.0.1:9/mcp"), "call it 'bad-name'"),
        (("x", "http://127.0.0.1:9/mcp", "--env", "A=b"), "An address has no process"),
        (("x", "--header", "A=b", "--", "prog"), "A command takes no --header"),
        (("x", "http://127.0.0.1:9/mcp", "--header", "A"), "expected KEY=VALUE"),
        (("x", "--", "'"), "this is no command"),
        (("x", "http://127.0.0.1:9/mcp", "more"), "An address stands alone"),
    ],
)
def test_what_cannot_be_a_server_is_refused(project: Project, words: tuple[str, ...], said: str) -> None:
    before = (project.folder / "crib.yaml").read_text()
    assert said in project.run("mcp", "add", *words, code=2).err
    assert (project.folder / "crib.yaml").read_text() == before


def test_a_program_may_have_spaces_in_its_name(project: Project) -> None:
    program = project.write("my server", f"#!/bin/sh\nexec '{KIT[0]}' '{KIT[1]}' stdio\n")
    program.chmod(0o755)
    assert "Say it again." in project.run("mcp", "add", "kit", "--", str(program)).out


def test_a_crib_of_a_program_has_no_file_to_write_to(project: Project) -> None:
    ran = project.run("--crib", "app:crib", "mcp", "add", "x", "http://127.0.0.1:9/mcp", code=2)
    assert "--crib app:crib is no file" in ran.err


def test_a_server_is_shown_by_its_name_or_its_command(project: Project) -> None:
    project.run("mcp", "add", "kit", "--no-check", "--", *KIT)
    by_name = project.run("mcp", "inspect", "kit", "--json").json
    assert by_name["server"]["name"]
    echo = next(tool for tool in by_name["tools"] if tool["name"] == "echo")
    assert (echo["annotations"], echo["input_schema"]["required"]) == (["read_only"], ["text"])
    assert (by_name["prompts"], by_name["resources"]) == (0, 0)
    (project.folder / "crib.yaml").unlink()
    shown = project.run("mcp", "inspect", "--", *KIT).out
    assert "Revision      2026-07-28" in shown
    assert "echo  (read only)\nSay it again." in shown


def test_a_server_that_nobody_knows_is_told(project: Project) -> None:
    project.run("mcp", "add", "kitchen", "--no-check", "http://127.0.0.1:9/mcp")
    assert "did you mean kitchen?" in project.run("mcp", "inspect", "kitchn", code=1).err
    away = project.run("mcp", "inspect", "http://127.0.0.1:9/mcp", "--json", code=1)
    assert json.loads(away.err)["error"]["code"] == "unavailable"


@requirement("mcp.server.14")
def test_what_a_desktop_client_is_given_starts_the_crib(project: Project) -> None:
    (server,) = project.run("mcp", "config", "--name", "My Shop").json["mcpServers"].items()
    assert server[0] == "my-shop"
    folder = project.folder / "elsewhere"
    folder.mkdir()
    (project.folder / "their.json").write_text(json.dumps({"mcpServers": {"shop": server[1]}}))
    project.write("other/crib.yaml", "")
    project.run("--crib", "other/crib.yaml", "mcp", "import", "their.json", "--yes")
    (listed,) = project.run("--crib", "other/crib.yaml", "mcp", "list", "--json").json
    assert listed["ok"], listed
    assert "find" in listed["tools"]


def test_a_crib_of_a_program_is_started_from_anywhere(project: Project) -> None:
    project.write("app.py", "import shop_tools\nfrom toolcrib import Crib\nmade = Crib([shop_tools])\n")
    ran = project.run("--crib", "app:made", "--store", "sqlite:///x.db", "mcp", "config", "--json")
    (server,) = ran.json["mcpServers"].values()
    assert server["env"] == {
        "TOOLCRIB_STORE": f"sqlite:///{project.folder}/x.db",
        "PYTHONPATH": str(project.folder),
    }

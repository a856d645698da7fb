"""`toolcrib mcp import`: what desktop clients and editors use."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.project import Project, Screen
from toolcrib.cli.mcp_import import places, read

SERVERS: dict[str, Any] = {
    "Git Hub": {"command": "npx", "args": ["-y", "git hub", "--port", 80], "env": {"TOKEN": "${env:TOKEN}", "NO": ""}},
    "docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"Authorization": "Bearer ${DOCS}"}},
    "old": {"type": "sse", "url": "https://old.example/sse"},
    "off": {"command": "x", "disabled": True},
    "asks": {"command": "x", "env": {"KEY": "${input:key}"}},
    "here": {"command": "x", "args": ["${workspaceFolder}"]},
    "sock": {"type": "ws", "url": "ws://example"},
    "git-hub": {"command": "other"},
    "none": {},
    "odd": 3,
}


def written(project: Project, servers: Any = SERVERS, key: str = "mcpServers", name: str = "theirs.json") -> str:
    project.write(name, json.dumps({key: servers}))
    return name


def sources(project: Project) -> list[Any]:
    found: list[Any] = yaml.safe_load((project.folder / "crib.yaml").read_text())["sources"]
    return found


def test_all_that_fit_are_added_and_the_rest_is_told(project: Project) -> None:
    ran = project.run("mcp", "import", written(project), "--yes", "--json")
    assert sources(project) == ["shop_tools", *ran.json["added"]]
    assert ran.json["added"] == [
        {"mcp": "npx -y 'git hub' --port 80", "name": "git-hub", "env": {"TOKEN": "${TOKEN}"}},
        {"mcp": "https://docs.example/mcp", "name": "docs", "headers": {"Authorization": "Bearer ${DOCS}"}},
        {"mcp": "https://old.example/sse", "name": "old"},
    ]
    told = {left["name"]: left["problem"] for left in ran.json["left_out"]}
    assert told.keys() == {"off", "asks", "here", "sock", "git-hub", "none", "odd"}
    assert "env.KEY" in told["asks"]
    assert "stands above already" in told["git-hub"]


def test_what_is_there_already_is_left_alone(project: Project) -> None:
    servers = {"docs": SERVERS["docs"]}
    project.run("mcp", "import", written(project, servers), "--yes")
    ran = project.run("mcp", "import", written(project, servers), "--yes")
    assert "Left out: docs of theirs.json: there is a server 'docs' in the crib already" in ran.err
    assert len(sources(project)) == 2


def test_nothing_is_added_unless_somebody_agrees(project: Project) -> None:
    ran = project.run("mcp", "import", written(project), code=1)
    assert "https://docs.example/mcp" in ran.out
    assert sources(project) == ["shop_tools"]


@pytest.mark.parametrize(("key", "code", "count"), [("y", 0, 4), ("n", 1, 1)])
def test_a_person_is_asked(project: Project, key: str, code: int, count: int) -> None:
    name = written(project)
    with Screen(["mcp", "import", name], project.folder) as screen:
        screen.expect("Add them to the crib? [y]es, [n]o: ").press(f"{key}\n")
        assert screen.ended() == code
    assert len(sources(project)) == count


def test_a_value_that_was_copied_is_warned_of(project: Project) -> None:
    servers = {"one": {"command": "x", "env": {"KEY": "plain"}}}
    assert "${NAME} takes a secret" in project.run("mcp", "import", written(project, servers), "--yes").err


def test_usual_places_are_looked_at(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    home = project.folder / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert "No client on this machine" in project.run("mcp", "import", code=1).err
    for number, path in enumerate(places(home, project.folder)):
        path.parent.mkdir(parents=True, exist_ok=True)
        key = "servers" if path.parent.name in (".vscode", "User") else "mcpServers"
        path.write_text(json.dumps({key: {f"s{number}": {"command": "x"}}}))
    (home / ".cursor" / "mcp.json").write_text("{ // a comment")
    ran = project.run("mcp", "import", "--yes")
    assert len(sources(project)) == len(places(home, project.folder))
    assert "mcp.json is no JSON" in ran.err


def test_servers_of_one_project_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / ".claude.json"
    ours, theirs = ({"mcpServers": {name: {"command": "x"}}} for name in ("ours", "theirs"))
    path.write_text(json.dumps({"projects": {str(tmp_path): ours, "/elsewhere": theirs}}))
    assert [found.name for found in read(path, tmp_path)] == ["ours"]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("{", 2, "is no JSON"),
        ("[]", 1, "names no MCP servers"),
        ("{}", 1, "names no MCP servers"),
        (None, 2, "No such"),
    ],
)
def test_a_file_without_servers_is_told(project: Project, text: str | None, code: int, said: str) -> None:
    if text is not None:
        project.write("theirs.json", text)
    assert said in project.run("mcp", "import", "theirs.json", code=code).err

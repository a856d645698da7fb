"""`toolcrib install` and `uninstall`, in home folders of their own."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import ready
from tests.cli.project import Project, Ran, environment
from tests.requirements import requirement
from toolcrib.cli.clients import settings_text
from toolcrib.cli.clients.catalog import CLIENTS, Machine, is_our_hook, is_ours

GUARDED = [name for name, one in CLIENTS.items() if one.hooks is not None]
OLD = {
    "json": '{\n  // mine\n  "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": []}]},\n  "theme": "dark"\n}\n',
    "toml": '# mine\nmodel = "o9"\n',
    "yaml": "# mine\nGOOSE_MODEL: m\n",
}


class Home:
    """A person's machine: a project, and a home folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        (folder / "project").mkdir()
        self.project = Project(folder / "project")
        self.env: dict[str, str] = {}

    def run(self, *words: str, code: int = 0) -> Ran:
        unset = ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "APPDATA")
        env = {name: value for name, value in environment().items() if name not in unset}
        env |= {"HOME": str(self.home), **self.env}
        done = ready.run("-m", "toolcrib", *words, folder=self.project.folder, env=env, stdin="")
        ran = Ran(done.returncode, done.stdout, done.stderr)
        assert ran.code == code, ran
        return ran

    def path(self, client: str, *, hooks: bool = False) -> Path:
        settings: Any = CLIENTS[client].hooks if hooks else CLIENTS[client].server
        path: Path = settings.path(Machine("linux", self.home, {}))
        return path

    def old(self, path: Path) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = OLD[{".toml": "toml", ".yaml": "yaml"}.get(path.suffix, "json")]
        path.write_text(text)
        return text

    def server(self, client: str) -> Any:
        settings = CLIENTS[client].server
        return settings_text.read(settings.form, self.path(client).read_text())[settings.key]["project"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@requirement("adapters.install.1", "adapters.install.2")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_is_installed_and_taken_out_again(home: Home, client: str) -> None:
    path = home.path(client)
    old = home.old(path)
    home.run("install", client, "--no-check")
    assert is_ours(home.server(client), str(home.project.folder / "crib.yaml"))
    assert "# mine" in path.read_text() or "// mine" in path.read_text()
    assert path.with_name(f"{path.name}.before-toolcrib").read_text() == old
    home.run("uninstall", client)
    assert path.read_text() == old
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@requirement("adapters.install.1", "adapters.install.2")
@pytest.mark.parametrize("client", GUARDED)
def test_the_guard_is_installed_once_and_taken_out_again(home: Home, client: str) -> None:
    hooks = CLIENTS[client].hooks
    assert hooks is not None
    path = home.path(client, hooks=True)
    old = home.old(path)
    for _ in range(2):
        home.run("install", client, "--guard", "--no-check")
    listed = settings_text.read("json", path.read_text())["hooks"]
    for event in hooks.events:
        assert [is_our_hook(group, hooks.client) for group in listed[event]][-1:] == [True]
        assert sum(is_our_hook(group, hooks.client) for group in listed[event]) == 1
    home.run("uninstall", client)
    assert path.read_text() == old


@requirement("adapters.install.2")
@pytest.mark.parametrize("client", ["claude-code", "cursor", "codex", "goose"])
def test_a_file_that_was_made_is_removed(home: Home, client: str) -> None:
    home.run("install", client, "--no-check")
    if client in GUARDED:
        home.run("install", client, "--guard", "--no-check")
    home.run("uninstall", client)
    assert [path for path in home.home.rglob("*") if path.is_file() and path.name != "trusted.json"] == []


@requirement("adapters.install.2")
def test_what_was_changed_since_stays(home: Home) -> None:
    path = home.path("cursor")
    home.old(path)
    home.run("install", "cursor", "--no-check")
    path.write_text(path.read_text().replace('"dark"', '"light"'))
    home.run("uninstall", "cursor")
    assert path.read_text() == OLD["json"].replace('"dark"', '"light"')
    assert "toolcrib" not in path.read_text()


@requirement("adapters.install.3")
@pytest.mark.parametrize(
    ("client", "shown"),
    [
        ("claude-code", {"env": {"SHOP_KEY": "${SHOP_KEY}"}}),
        ("cursor", {"env": {"SHOP_KEY": "${env:SHOP_KEY}"}}),
        ("vscode", {"env": {"SHOP_KEY": "${env:SHOP_KEY}"}}),
        ("windsurf", {"env": {"SHOP_KEY": "${env:SHOP_KEY}"}}),
        ("gemini", {"env": {"SHOP_KEY": "${SHOP_KEY}"}}),
        ("codex", {"env_vars": ["SHOP_KEY"]}),
        ("goose", {"env_keys": ["SHOP_KEY"], "envs": {}}),
        ("claude-desktop", {}),
    ],
)
def test_variables_are_passed_on_by_their_names(home: Home, client: str, shown: dict[str, Any]) -> None:
    home.env = {"SHOP_KEY": "sesame-4711"}
    home.project.write("crib.yaml", 'sources: [{mcp: "x", env: {KEY: "${SHOP_KEY}", OTHER: "${SET}"}}]\n')
    home.project.write(".env", "SET=1\n")
    ran = home.run("install", client, "--no-check")
    assert home.server(client).items() >= shown.items()
    assert "sesame" not in home.path(client).read_text()
    assert ("write them into the .env" in ran.err) == (client == "claude-desktop")
    home.run("install", client, "--no-check", "--values")
    assert "sesame-4711" in home.path(client).read_text()
    home.run("uninstall", client)
    home.run("install", client, "--no-check", "--values")
    assert home.path(client).stat().st_mode & 0o077 == 0


@requirement("adapters.install.4")
def test_a_server_that_does_not_start_is_not_installed(home: Home) -> None:
    assert "It starts, and has" in home.run("install", "vscode").err
    home.run("uninstall", "vscode")
    home.project.write("crib.yaml", "sources: [nothing_there]\n")
    assert "could not be started" in home.run("install", "vscode", code=1).err
    assert not home.path("vscode").exists()


@requirement("adapters.install.4")
def test_a_server_is_tried_with_the_variables_that_its_client_gives_it(home: Home) -> None:
    home.env = {"SHOP_KEY": "sesame-4711"}
    home.project.write("crib.yaml", 'sources: [{mcp: "http://127.0.0.1:9/", headers: {Key: "${SHOP_KEY}"}}]\n')
    home.run("install", "vscode")
    refused = home.run("install", "claude-desktop", code=1)
    assert "the variable SHOP_KEY is not set" in refused.err
    assert not home.path("claude-desktop").exists()
    home.run("install", "claude-desktop", "--values")
    assert home.server("claude-desktop")["env"] == {"SHOP_KEY": "sesame-4711"}


@requirement("adapters.install.4")
def test_a_server_starts_by_the_line_that_was_written(home: Home) -> None:
    home.run("install", "codex")
    entry = home.server("codex")
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _INITIALIZE}
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=home.home,
        env={"HOME": str(home.home), "TOOLCRIB_ALLOW_ROOT": "1"},
    )
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"], done


@requirement("adapters.install.5")
def test_what_was_installed_takes_no_code_from_the_folder_that_it_is_started_in(home: Home, tmp_path: Path) -> None:
    home.run("install", "claude-code", "--no-check")
    home.run("install", "claude-code", "--guard", "--no-check")
    [hook] = json.loads(home.path("claude-code", hooks=True).read_text())["hooks"]["PreToolUse"][0]["hooks"]
    server = home.server("claude-code")
    work = tmp_path / "work"
    work.mkdir()
    for name in ("toolcrib", "socket", "hashlib"):
        (work / f"{name}.py").write_text("import os; os._exit(77)\n")
    env = {"HOME": str(home.home), "TOOLCRIB_ALLOW_ROOT": "1", "TOOLCRIB_GUARD_RESIDENT": "0"}
    hook_env = env | {"PYTHONPATH": "."}
    started = {hook["command"]: hook_env, shlex.join([server["command"], *server["args"]]): env}
    for line, variables in started.items():
        done = subprocess.run(
            ["sh", "-c", line], input="{}", capture_output=True, text=True, cwd=work, env=variables, check=False
        )
        assert done.returncode in (0, 2), (line, done)


@requirement("adapters.install.2")
@pytest.mark.parametrize("place", ["else/project/crib.yaml", "it's/project/crib.yaml"])
def test_only_the_crib_that_is_named_is_taken_out(home: Home, tmp_path: Path, place: str) -> None:
    other = tmp_path / place
    other.parent.mkdir(parents=True)
    other.write_text("store: memory\n")
    path = home.path("claude-code", hooks=True)
    home.run("install", "claude-code", "--guard", "--no-check", "--crib", str(other))
    home.run("uninstall", "claude-code", "--crib", str(other.parent.parent.name + "/project/crib.yaml"))
    assert path.exists()
    home.run("uninstall", "claude-code", "--crib", str(other))
    assert not path.exists()


_INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@requirement("adapters.install.4")
def test_a_guard_whose_policy_does_not_hold_is_not_installed(home: Home) -> None:
    assert "The hook runs" in home.run("install", "claude-code", "--guard").err
    home.run("uninstall", "claude-code")
    home.project.write("crib.yaml", "policy: {rules: [{maybe: x}]}\n")
    assert "maybe" in home.run("install", "claude-code", "--guard", code=2).err
    assert not home.path("claude-code", hooks=True).exists()


@requirement("adapters.install.1")
def test_print_writes_nothing(home: Home) -> None:
    assert json.loads(home.run("install", "vscode", "--print").out)["servers"]["project"]["type"] == "stdio"
    assert "[mcp_servers.project]" in home.run("install", "codex", "--print").out
    assert json.loads(home.run("install", "cursor", "--guard", "--print").out)["version"] == 1
    assert [path for path in home.home.rglob("*") if path.is_file() and path.name != "trusted.json"] == []


@requirement("adapters.install.1")
def test_a_project_has_files_of_its_own(home: Home) -> None:
    home.run("install", "claude-code", "--project", "--name", "shop", "--no-check")
    assert list(json.loads((home.project.folder / ".mcp.json").read_text())["mcpServers"]) == ["shop"]
    assert "no such files in projects" in home.run("install", "goose", "--project", code=2).err
    home.run("uninstall", "claude-code", "--project")
    assert not (home.project.folder / ".mcp.json").exists()


@requirement("adapters.install.2")
def test_servers_of_others_are_left_alone(home: Home) -> None:
    path = home.path("windsurf")
    path.parent.mkdir(parents=True)
    path.write_text('{"mcpServers": {"project": {"command": "theirs"}}}')
    assert "another one" in home.run("install", "windsurf", "--no-check", code=1).err
    home.run("install", "windsurf", "--name", "crib", "--no-check")
    home.run("uninstall", "windsurf")
    assert json.loads(path.read_text()) == {"mcpServers": {"project": {"command": "theirs"}}}
    path.write_text("{")
    assert "JSON" in home.run("install", "windsurf", "--no-check", code=1).err
    assert path.read_text() == "{"


@requirement("adapters.install.1")
def test_wrong_names_are_explained(home: Home) -> None:
    assert "there are claude-code, claude-desktop" in home.run("install", "emacs", code=2).err
    assert "no hooks for Goose" in home.run("install", "goose", "--guard", code=2).err
    for option in (("--values",), ("--env", "TOKEN")):
        assert "are for the server" in home.run("install", "cursor", "--guard", *option, code=2).err
    assert "has nothing of Toolcrib" in home.run("uninstall", "gemini").err


@requirement("adapters.install.1")
@pytest.mark.parametrize(
    ("system", "client", "place"),
    [
        ("linux", "claude-desktop", "/h/.config/Claude/claude_desktop_config.json"),
        ("darwin", "claude-desktop", "/h/Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", "/r/Claude/claude_desktop_config.json"),
        ("linux", "vscode", "/h/.config/Code/User/mcp.json"),
        ("darwin", "vscode", "/h/Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", "/r/Code/User/mcp.json"),
        ("darwin", "goose", "/h/.config/goose/config.yaml"),
        ("win32", "goose", "/r/Block/goose/config/config.yaml"),
        ("win32", "codex", "/h/.codex/config.toml"),
        ("darwin", "claude-code", "/h/.claude.json"),
        ("win32", "windsurf", "/h/.codeium/windsurf/mcp_config.json"),
        ("linux", "gemini", "/h/.gemini/settings.json"),
        ("linux", "cursor", "/h/.cursor/mcp.json"),
    ],
)
def test_each_system_has_its_places(system: str, client: str, place: str) -> None:
    machine = Machine(system, Path("/h"), {"APPDATA": "/r"} if system == "win32" else {})
    assert CLIENTS[client].server.path(machine) == Path(place)


def test_a_link_stays_a_link(home: Home, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    path = home.path("cursor")
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    home.run("install", "cursor", "--no-check")
    assert path.is_symlink()
    assert "project" in real.read_text()

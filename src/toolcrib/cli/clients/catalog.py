"""The clients that can be configured: where each keeps its MCP servers and hooks, and in which words."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.cli.clients.settings_text import Form


class Machine(NamedTuple):
    """Where a person's files are: the kind of system, the home folder and the environment."""

    system: str
    home: Path
    env: Mapping[str, str]

    @property
    def settings(self) -> Path:
        """The folder of applications' settings."""
        if self.system == "darwin":
            return self.home / "Library" / "Application Support"
        if self.system == "win32":
            return Path(self.env.get("APPDATA") or self.home / "AppData" / "Roaming")
        return Path(self.env.get("XDG_CONFIG_HOME") or self.home / ".config")

    def folder(self, variable: str, name: str) -> Path:
        """The folder that a variable names, else one in the home folder."""
        return Path(self.env.get(variable) or self.home / name)


class Launch(NamedTuple):
    """How a client starts a server: its command, variables with their values, and those that it only names."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str] = {}
    names: tuple[str, ...] = ()


class ServerSettings(NamedTuple):
    """Where a client keeps its MCP servers. `project` is the file of one project, if there is such a thing.

    `reference` is how a value names a variable of the environment; None where a client cannot take one by its name.
    """

    form: Form
    path: Callable[[Machine], Path]
    key: str
    project: str | None = None
    reference: str | None = None
    entry: Callable[[Launch, str | None], dict[str, Any]] | None = None

    def data(self, launch: Launch) -> dict[str, Any]:
        """Return what is written of a server."""
        return (self.entry or _plain)(launch, self.reference)


class HookSettings(NamedTuple):
    """Where a client keeps its hooks: JSON, with a list for each event."""

    path: Callable[[Machine], Path]
    project: str
    client: str
    events: Sequence[str]
    group: Callable[[str], dict[str, Any]]
    extra: Mapping[str, Any] = {}
    note: str = ""


class ClientProgram(NamedTuple):
    """A program that people use agents with."""

    title: str
    server: ServerSettings
    hooks: HookSettings | None = None


def _plain(launch: Launch, reference: str | None) -> dict[str, Any]:
    named = {} if reference is None else {name: reference.format(name) for name in launch.names}
    env = {**named, **launch.env}
    return {"command": launch.command, "args": [*launch.args]} | ({"env": env} if env else {})


def _typed(launch: Launch, reference: str | None) -> dict[str, Any]:
    return {"type": "stdio", **_plain(launch, reference)}


def _codex(launch: Launch, reference: str | None) -> dict[str, Any]:
    names = {"env_vars": [*launch.names]} if launch.names else {}
    return _plain(launch, None) | names


def _goose(launch: Launch, reference: str | None) -> dict[str, Any]:
    return {
        "name": "toolcrib",
        "description": "Tools of a crib",
        "type": "stdio",
        "enabled": True,
        "cmd": launch.command,
        "args": [*launch.args],
        "envs": dict(launch.env),
        "env_keys": [*launch.names],
        "timeout": 300,
    }


def _goose_path(machine: Machine) -> Path:
    if machine.system == "win32":
        return machine.settings / "Block" / "goose" / "config" / "config.yaml"
    root = Path(machine.env.get("XDG_CONFIG_HOME") or machine.home / ".config")
    return root / "goose" / "config.yaml"


def _matched(command: str) -> dict[str, Any]:
    return {"matcher": "*", "hooks": [{"type": "command", "command": command}]}


def _gemini_group(command: str) -> dict[str, Any]:
    return {"matcher": ".*", "hooks": [{"name": "toolcrib", "type": "command", "command": command}]}


def _cursor_group(command: str) -> dict[str, Any]:
    return {"command": command, "failClosed": True}


_CLAUDE_EVENTS = ("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "SessionEnd")
_CURSOR_EVENTS = (
    "beforeShellExecution",
    "beforeMCPExecution",
    "beforeReadFile",
    "preToolUse",
    "afterShellExecution",
    "afterMCPExecution",
    "postToolUse",
    "sessionEnd",
)

MODULE = ("-P", "-m", "toolcrib")
"""How Python starts the command: without the folder that a client starts it in, where an agent may write."""

CLIENTS: dict[str, ClientProgram] = {
    "claude-code": ClientProgram(
        "Claude Code",
        ServerSettings(
            "json",
            lambda m: Path(m.env.get("CLAUDE_CONFIG_DIR") or m.home) / ".claude.json",
            "mcpServers",
            ".mcp.json",
            "${{{}}}",
            _typed,
        ),
        HookSettings(
            lambda m: m.folder("CLAUDE_CONFIG_DIR", ".claude") / "settings.json",
            ".claude/settings.json",
            "claude-code",
            _CLAUDE_EVENTS,
            _matched,
        ),
    ),
    "claude-desktop": ClientProgram(
        "Claude Desktop",
        ServerSettings("json", lambda m: m.settings / "Claude" / "claude_desktop_config.json", "mcpServers"),
    ),
    "cursor": ClientProgram(
        "Cursor",
        ServerSettings(
            "json", lambda m: m.home / ".cursor" / "mcp.json", "mcpServers", ".cursor/mcp.json", "${{env:{}}}"
        ),
        HookSettings(
            lambda m: m.home / ".cursor" / "hooks.json",
            ".cursor/hooks.json",
            "cursor",
            _CURSOR_EVENTS,
            _cursor_group,
            {"version": 1},
        ),
    ),
    "vscode": ClientProgram(
        "VS Code",
        ServerSettings(
            "json",
            lambda m: m.settings / "Code" / "User" / "mcp.json",
            "servers",
            ".vscode/mcp.json",
            "${{env:{}}}",
            _typed,
        ),
    ),
    "gemini": ClientProgram(
        "Gemini CLI",
        ServerSettings(
            "json", lambda m: m.home / ".gemini" / "settings.json", "mcpServers", ".gemini/settings.json", "${{{}}}"
        ),
        HookSettings(
            lambda m: m.home / ".gemini" / "settings.json",
            ".gemini/settings.json",
            "gemini",
            ("BeforeTool", "AfterTool", "SessionEnd"),
            _gemini_group,
        ),
    ),
    "codex": ClientProgram(
        "Codex",
        ServerSettings(
            "toml",
            lambda m: m.folder("CODEX_HOME", ".codex") / "config.toml",
            "mcp_servers",
            ".codex/config.toml",
            "{}",
            _codex,
        ),
        HookSettings(
            lambda m: m.folder("CODEX_HOME", ".codex") / "hooks.json",
            ".codex/hooks.json",
            "codex",
            ("PreToolUse", "PermissionRequest", "PostToolUse"),
            _matched,
            note="Codex runs no hook before you have looked at it: type /hooks there.",
        ),
    ),
    "goose": ClientProgram("Goose", ServerSettings("yaml", _goose_path, "extensions", None, "{}", _goose)),
    "windsurf": ClientProgram(
        "Windsurf",
        ServerSettings(
            "json",
            lambda m: m.home / ".codeium" / "windsurf" / "mcp_config.json",
            "mcpServers",
            None,
            "${{env:{}}}",
        ),
    ),
}
"""Each client by the name that people type."""


def is_ours(entry: Any, crib: str | None = None) -> bool:
    """True if an entry of a client starts a crib of Toolcrib; with `crib`, that one."""
    args = entry.get("args") if isinstance(entry, Mapping) else None
    if not isinstance(args, list) or args[:4] != [*MODULE, "mcp"]:
        return False
    return crib is None or crib in args


def hook_command(system: str, words: Sequence[str]) -> str:
    """Return a command as the shell of a system takes it."""
    return subprocess.list2cmdline(words) if system == "win32" else shlex.join(words)


def is_our_hook(group: Any, client: str, crib: str | None = None) -> bool:
    """True if an entry of an event runs the guard; with `crib`, that of one crib."""
    own = f"toolcrib guard {client} --crib " + ("" if crib is None else hook_command(sys.platform, (crib,)) + " ")
    if not isinstance(group, Mapping):
        return False
    inner = group.get("hooks")
    hooks = inner if isinstance(inner, list) else [group]
    commands = [one.get("command") for one in hooks if isinstance(one, Mapping)]
    return any(isinstance(command, str) and own in f"{command} " for command in commands)


def holds_ours(data: Any) -> bool:
    """True if a file of a client has something of Toolcrib."""
    if is_ours(data):
        return True
    if isinstance(data, Mapping):
        return any(map(holds_ours, data.values()))
    if isinstance(data, list):
        return any(map(holds_ours, data))
    return isinstance(data, str) and " toolcrib guard " in data

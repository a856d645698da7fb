"""The tools of each client: what stands for a command, a file, a search and an address in their arguments.

A tool that is not listed is judged by its name alone (`client.call_tool`), and asks unless a rule allows it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from toolcrib.guard.hook import AgentAct, BadHook, command, fetch, file, other, patch, search

Arguments = Mapping[str, Any]
Reading = Callable[[Arguments, str], Iterable[AgentAct]]


class ToolTable(NamedTuple):
    """The tools of one client that are looked into, and those that do nothing by themselves."""

    known: Mapping[str, Reading]
    harmless: frozenset[str] = frozenset()

    def acts(self, tool: str, arguments: Arguments, cwd: str) -> list[AgentAct]:
        """Return what a call of a tool comes down to.

        Raises:
            BadHook: an argument that it needs is not there.
        """
        reading = self.known.get(tool)
        if reading is None:
            return [other(tool, arguments)]
        try:
            return list(reading(arguments, cwd))
        except BadHook as error:
            raise BadHook(f"{tool}: {error}") from None


def _first(arguments: Arguments, names: tuple[str, ...]) -> Any:
    return next((arguments[name] for name in names if arguments.get(name) is not None), None)


def _shell(*folders: str) -> Reading:
    def acts(arguments: Arguments, cwd: str) -> list[AgentAct]:
        folder = _first(arguments, folders) if folders else None
        place = posixpath.join(cwd, folder) if isinstance(folder, str) else cwd
        return [command(_first(arguments, ("command", "cmd")), place)]

    return acts


def _file(tool: str, *names: str) -> Reading:
    return lambda arguments, cwd: [file(tool, _first(arguments, names), cwd)]


def _folder(tool: str, *names: str) -> Reading:
    """A folder that need not be named: then it is the one that the client works in."""

    def acts(arguments: Arguments, cwd: str) -> list[AgentAct]:
        path = _first(arguments, names)
        return [file(tool, "." if path is None else path, cwd)]

    return acts


def _search(*names: str) -> Reading:
    return lambda arguments, cwd: [search(_first(arguments, names), cwd)]


def _glob(*names: str) -> Reading:
    return lambda arguments, cwd: [search(_first(arguments, names), cwd, _first(arguments, ("pattern",)))]


def _fetch(*names: str) -> Reading:
    return lambda arguments, cwd: fetch(*(arguments.get(name) for name in names))


def _patch(*names: str) -> Reading:
    return lambda arguments, cwd: patch(_first(arguments, names), cwd)


CLAUDE_CODE = ToolTable(
    {
        "Bash": _shell(),
        "Read": _file("read_file", "file_path"),
        "NotebookRead": _file("read_file", "notebook_path"),
        "LS": _folder("list_dir", "path"),
        "Glob": _glob("path"),
        "Grep": _search("path"),
        "Write": _file("write_file", "file_path"),
        "Edit": _file("edit_file", "file_path"),
        "MultiEdit": _file("edit_file", "file_path"),
        "NotebookEdit": _file("edit_file", "notebook_path"),
        "WebFetch": _fetch("url"),
    },
    frozenset({"Agent", "AskUserQuestion", "BashOutput", "EnterPlanMode", "ExitPlanMode", "KillShell"})
    | {"ListMcpResourcesTool", "Skill", "Task", "TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop"}
    | {"TaskUpdate", "TodoRead", "TodoWrite", "ToolSearch"},
)

CODEX = ToolTable(
    {"Bash": _shell("workdir"), "apply_patch": _patch("command", "input", "patch")},
    frozenset({"update_plan"}),
)

_FOLDERS = ("dir_path", "path", "directory")

GEMINI = ToolTable(
    {
        "run_shell_command": _shell("dir_path", "directory"),
        "read_file": _file("read_file", "file_path", "absolute_path"),
        "list_directory": _folder("list_dir", *_FOLDERS),
        "glob": _glob(*_FOLDERS),
        "search_file_content": _search(*_FOLDERS),
        "grep_search": _search(*_FOLDERS),
        "write_file": _file("write_file", "file_path"),
        "replace": _file("edit_file", "file_path"),
        "web_fetch": _fetch("prompt", "url"),
    },
    frozenset({"ask_user", "write_todos"}),
)

COPILOT = ToolTable(
    {
        "bash": _shell(),
        "view": _file("read_file", "path"),
        "glob": _glob("path"),
        "grep": _search("path"),
        "create": _file("write_file", "path"),
        "edit": _file("edit_file", "path"),
        "str_replace": _file("edit_file", "path"),
        "apply_patch": _patch("input", "patch"),
        "web_fetch": _fetch("url"),
    },
    frozenset({"ask_user", "report_intent", "update_todo"}),
)

OPENCODE = ToolTable(
    {
        "bash": _shell("workdir"),
        "read": _file("read_file", "filePath"),
        "list": _folder("list_dir", "path"),
        "glob": _glob("path"),
        "grep": _search("path"),
        "write": _file("write_file", "filePath"),
        "edit": _file("edit_file", "filePath"),
        "apply_patch": _patch("patchText"),
        "patch": _patch("patchText"),
        "webfetch": _fetch("url"),
    },
    frozenset({"question", "task", "todoread", "todowrite"}),
)

CURSOR = ToolTable(
    {
        "Shell": _shell("working_directory", "cwd"),
        "Read": _file("read_file", "file_path", "path", "target_file"),
        "Grep": _search("path"),
        "Glob": _glob("path", "target_directory"),
        "Write": _file("write_file", "file_path", "path"),
        "Edit": _file("edit_file", "file_path", "path"),
        "StrReplace": _file("edit_file", "file_path", "path"),
        "Delete": _file("write_file", "file_path", "path"),
    },
    frozenset({"Task", "TodoWrite"}),
)

PLAIN = ToolTable(
    {
        "shell": _shell("cwd"),
        "read_file": _file("read_file", "path"),
        "list_dir": _folder("list_dir", "path"),
        "grep": _search("path"),
        "glob": _glob("path"),
        "write_file": _file("write_file", "path"),
        "edit_file": _file("edit_file", "path"),
        "apply_patch": _patch("patch"),
        "http_fetch": _fetch("url"),
    }
)

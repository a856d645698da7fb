"""The hooks of each client, in the JSON of its documentation: what is read, and what is answered."""

import json
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib.guard.formats import FORMATS, read, write
from toolcrib.guard.hook import AgentAct, BadHook, Judgement

CWD = "/tmp/project"
CODEX = {
    "session_id": "s",
    "turn_id": "t",
    "transcript_path": None,
    "cwd": CWD,
    "model": "gpt",
    "permission_mode": "default",
}
GEMINI = {"session_id": "s", "transcript_path": "/tmp/t", "cwd": CWD, "timestamp": "2026-01-01T00:00:00Z"}
CURSOR = {"conversation_id": "s", "generation_id": "g", "workspace_roots": [CWD], "cursor_version": "2.0.77"}
COPILOT = {"sessionId": "s", "timestamp": 1704614600000, "cwd": CWD}
OPENCODE = {"sessionID": "s", "callID": "c", "directory": CWD}
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Move to: /etc/b.py\n*** End Patch"
LS = AgentAct("shell", {"command": "ls", "cwd": CWD})


def file(tool: str, path: str) -> AgentAct:
    return AgentAct(tool, {"path": path})


READ: list[tuple[str, dict[str, Any], list[AgentAct]]] = [
    ("codex", {**CODEX, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}, [LS]),
    (
        "codex",
        {**CODEX, "hook_event_name": "PreToolUse", "tool_name": "apply_patch", "tool_input": {"command": PATCH}},
        [file("edit_file", f"{CWD}/a.py"), file("edit_file", "/etc/b.py")],
    ),
    (
        "gemini",
        {**GEMINI, "hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": {"command": "ls"}},
        [LS],
    ),
    (
        "gemini",
        {
            **GEMINI,
            "hook_event_name": "BeforeTool",
            "tool_name": "web_fetch",
            "tool_input": {"prompt": "Compare https://a.example/x and https://b.example/y"},
        },
        [AgentAct("http_fetch", {"url": f"https://{host}"}) for host in ("a.example/x", "b.example/y")],
    ),
    (
        "gemini",
        {**GEMINI, "hook_event_name": "BeforeTool", "tool_name": "replace", "tool_input": {"file_path": "a.py"}},
        [file("edit_file", f"{CWD}/a.py")],
    ),
    ("cursor", {**CURSOR, "hook_event_name": "beforeShellExecution", "command": "ls", "cwd": CWD}, [LS]),
    ("cursor", {**CURSOR, "hook_event_name": "beforeShellExecution", "command": "ls", "cwd": ""}, [LS]),
    (
        "cursor",
        {**CURSOR, "hook_event_name": "beforeReadFile", "file_path": "/etc/x", "content": "", "attachments": []},
        [file("read_file", "/etc/x")],
    ),
    (
        "cursor",
        {**CURSOR, "hook_event_name": "beforeMCPExecution", "tool_name": "query", "tool_input": '{"q": 1}'},
        [AgentAct("call_tool", {"name": "mcp__query", "arguments": {"q": 1}})],
    ),
    ("copilot", {**COPILOT, "toolName": "bash", "toolArgs": '{"command": "ls"}'}, [LS]),
    ("copilot", {**COPILOT, "toolName": "create", "toolArgs": {"path": "a"}}, [file("write_file", f"{CWD}/a")]),
    ("opencode", {**OPENCODE, "event": "tool.execute.before", "tool": "bash", "args": {"command": "ls"}}, [LS]),
    (
        "opencode",
        {**OPENCODE, "event": "tool.execute.before", "tool": "edit", "args": {"filePath": "a"}},
        [file("edit_file", f"{CWD}/a")],
    ),
]


@requirement("adapters.guard.8")
@pytest.mark.parametrize(("client", "data", "acts"), READ)
def test_hooks_come_down_to_commands_files_and_addresses(
    client: str, data: dict[str, Any], acts: list[AgentAct]
) -> None:
    event = read(client, json.dumps(data))
    assert (event.session, event.phase, list(event.acts)) == ("s", "before", acts)


ALLOW, DENY, ASK = Judgement("allow", "fine"), Judgement("deny", "no"), Judgement("ask", "may it?", "q-1")


def decided(effect: str, reason: str) -> dict[str, Any]:
    said = {"hookEventName": "PreToolUse", "permissionDecision": effect, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": said}


def cursor(effect: str, reason: str) -> dict[str, str]:
    return {"permission": effect, "user_message": reason, "agent_message": reason}


def copilot(effect: str, reason: str) -> dict[str, str]:
    return {"permissionDecision": effect, "permissionDecisionReason": reason}


WRITTEN: list[tuple[int, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (0, {}, decided("deny", "no"), decided("deny", "may it?")),
    (2, {"decision": "allow"}, {"decision": "deny", "reason": "no"}, {"decision": "deny", "reason": "may it?"}),
    (5, {"permission": "allow"}, cursor("deny", "no"), cursor("ask", "may it?")),
    (7, {"permission": "allow"}, cursor("deny", "no"), cursor("deny", "may it?")),
    (9, copilot("allow", "fine"), copilot("deny", "no"), copilot("ask", "may it?")),
    (
        11,
        {"decision": "allow", "reason": "fine"},
        {"decision": "deny", "reason": "no"},
        {"decision": "ask", "reason": "may it?", "question": "q-1"},
    ),
]


@requirement("adapters.guard.8")
@pytest.mark.parametrize(("number", "allow", "deny", "ask"), WRITTEN)
def test_judgements_are_said_as_the_client_documents_it(
    number: int, allow: dict[str, Any], deny: dict[str, Any], ask: dict[str, Any]
) -> None:
    client, data, _ = READ[number]
    event = read(client, json.dumps(data))
    replies = [write(event, one) for one in (ALLOW, DENY, ASK)]
    assert [reply.output for reply in replies] == [allow, deny, ask]
    assert {reply.code for reply in replies} == {0}


@requirement("adapters.guard.8")
def test_a_permission_request_of_codex_is_answered() -> None:
    data = {**CODEX, "hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    event = read("codex", json.dumps(data))
    said = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    assert write(event, ALLOW).output == {"hookSpecificOutput": said}
    assert write(event, ASK).output == {}


@requirement("adapters.guard.8")
@pytest.mark.parametrize("client", sorted(FORMATS))
def test_a_tool_without_its_argument_is_no_hook(client: str) -> None:
    tool = {
        "codex": "Bash",
        "gemini": "run_shell_command",
        "copilot": "bash",
        "opencode": "bash",
        "generic": "shell",
        "cursor": "Shell",
        "claude-code": "Bash",
    }[client]
    name = next(name for name, phase in FORMATS[client].phases.items() if phase == "before")
    data = {"tool_name": tool, "toolName": tool, "tool": tool, "cwd": CWD, "tool_input": {}}
    with pytest.raises(BadHook, match=tool):
        read(client, json.dumps(data), name)

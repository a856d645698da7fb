"""The hooks of each client: how theirs are read, and how a judgement is said in the JSON that each takes.

A client that cannot ask is told to deny, with the question in the reason: once it is answered, the same call passes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from toolcrib.guard import tool_names
from toolcrib.guard.hook import BadHook, HookEvent, Judgement, Phase

Asking = Literal["ask", "deny", "defer"]
"""How an act that asks is told to a client that can ask; `defer` is Claude Code's pause of a run without a person."""


class HookReply(NamedTuple):
    """What the hook prints, and its exit code; 2 blocks in every client."""

    output: Mapping[str, Any] | None
    error: str = ""
    code: int = 0

    @property
    def text(self) -> str:
        """Its standard output."""
        return "" if self.output is None else json.dumps(self.output, ensure_ascii=False) + "\n"


class HookFormat(NamedTuple):
    """One client: its name for people, the phases of its hooks, and how it reads and answers."""

    title: str
    phases: Mapping[str, Phase]
    read: Callable[[str, Phase, Mapping[str, Any]], HookEvent]
    write: Callable[[HookEvent, Judgement, Asking], HookReply]


def read(client: str, text: str | bytes, event: str | None = None) -> HookEvent:
    """Return what came on standard input as a hook; `event` names it where the client does not.

    Raises:
        BadHook: it is none of this client.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise BadHook("what came on standard input is no JSON") from None
    if not isinstance(data, dict):
        raise BadHook("what came on standard input is no JSON object")
    format = FORMATS[client]
    name = event or data.get("hook_event_name") or data.get("event") or _guessed(client, data)
    if not isinstance(name, str):
        raise BadHook("it does not say which event it is; name it with --event")
    return format.read(name, format.phases.get(name, "other"), data)


def _guessed(client: str, data: Mapping[str, Any]) -> str | None:
    """Copilot CLI names no event in the JSON of its own spelling, and says the result only afterwards."""
    if client != "copilot":
        return "before" if client == "generic" else None
    return "postToolUse" if "toolResult" in data else "preToolUse" if "toolName" in data else None


def write(event: HookEvent, judgement: Judgement, asking: Asking = "ask") -> HookReply:
    """Return a judgement in the words of the client."""
    return FORMATS[event.client].write(event, judgement, asking)


def unreadable(reason: str) -> HookReply:
    """Return the answer to what could not be read: it is blocked, since it may act."""
    return HookReply(None, f"toolcrib guard: {reason}\n", 2)


# Reading


def _session(data: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := data.get(name), str) and value), "none")


def _id(data: Mapping[str, Any], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := data.get(name), str) and value), None)


def _cwd(data: Mapping[str, Any]) -> str:
    roots = data.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else None
    cwd = data.get("cwd") or data.get("directory") or first
    if not isinstance(cwd, str) or not cwd.startswith("/"):
        raise BadHook("it does not say its folder (cwd) as an absolute path")
    return cwd


def _reader(
    client: str, table: tool_names.ToolTable, session: tuple[str, ...], ids: tuple[str, ...], names: tuple[str, str]
) -> Callable[[str, Phase, Mapping[str, Any]], HookEvent]:
    """A client whose hooks name a tool and its input."""

    def read(name: str, phase: Phase, data: Mapping[str, Any]) -> HookEvent:
        conversation = _session(data, *session)
        if phase in ("other", "end"):
            return HookEvent(client, name, phase, conversation)
        tool = data.get(names[0])
        if not isinstance(tool, str) or not tool:
            raise BadHook(f"it has no {names[0]}")
        arguments = _object(data.get(names[1]))
        details = {"ok": "error" not in data and "Failure" not in name} if phase == "after" else {}
        acts = () if tool in table.harmless else tuple(table.acts(tool, arguments, _cwd(data)))
        return HookEvent(client, name, phase, conversation, tool, acts, _id(data, *ids), details)

    return read


def _cursor_read(name: str, phase: Phase, data: Mapping[str, Any]) -> HookEvent:
    """Cursor names a tool in some hooks, and a command, an MCP tool or a file in others."""
    named: dict[str, tuple[str, Mapping[str, Any]]] = {
        "beforeShellExecution": ("Shell", {"command": data.get("command")}),
        "afterShellExecution": ("Shell", {"command": data.get("command")}),
        "beforeReadFile": ("Read", {"file_path": data.get("file_path")}),
        "beforeMCPExecution": (f"mcp__{data.get('tool_name')}", _object(data.get("tool_input"))),
        "afterMCPExecution": (f"mcp__{data.get('tool_name')}", _object(data.get("tool_input"))),
    }
    if name in named:
        tool, arguments = named[name]
        data = {**data, "tool_name": tool, "tool_input": arguments, "cwd": data.get("cwd") or None}
    return _CURSOR_TOOLS(name, phase, data)


def _object(value: Any) -> Mapping[str, Any]:
    """Arguments may be JSON in a text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise BadHook("the arguments of the tool are no JSON") from None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadHook("the arguments of the tool are no JSON object")
    return value


_CURSOR_TOOLS = _reader(
    "cursor", tool_names.CURSOR, ("conversation_id",), ("tool_use_id",), ("tool_name", "tool_input")
)


# Answering


def _claude(event: HookEvent, judgement: Judgement, asking: Asking) -> HookReply:
    effect, reason, _ = judgement
    if event.phase == "permission":
        if effect not in ("allow", "deny"):
            return HookReply(_message(judgement))
        decision = {"behavior": effect} | ({"message": reason} if effect == "deny" else {})
        return HookReply({"hookSpecificOutput": {"hookEventName": event.name, "decision": decision}})
    if event.phase != "before" or effect == "defer":
        return HookReply(_message(judgement))
    shown = asking if effect == "ask" else effect
    output = {"hookEventName": event.name, "permissionDecision": shown, "permissionDecisionReason": reason}
    return HookReply({"hookSpecificOutput": output})


def _message(judgement: Judgement) -> dict[str, Any]:
    """What a person is shown where nothing is decided, if there is something to say."""
    broken = judgement.effect == "defer" and judgement.reason.startswith("toolcrib")
    return {"systemMessage": judgement.reason} if broken else {}


def _codex(event: HookEvent, judgement: Judgement, asking: Asking) -> HookReply:
    """Codex takes a refusal before a tool, and an answer in place of its own question; else its own rules count."""
    if event.phase == "before" and judgement.effect in ("allow", "defer"):
        return HookReply(_message(judgement))
    return _claude(event, judgement, "deny")


def _gemini(event: HookEvent, judgement: Judgement, asking: Asking) -> HookReply:
    """Gemini CLI knows allow and deny; an allow leaves its own confirmation as it is."""
    if event.phase != "before" or judgement.effect == "defer":
        return HookReply(_message(judgement))
    if judgement.effect == "allow":
        return HookReply({"decision": "allow"})
    return HookReply({"decision": "deny", "reason": judgement.reason})


_CURSOR_ASKS = ("beforeShellExecution", "beforeMCPExecution")


def _cursor(event: HookEvent, judgement: Judgement, asking: Asking) -> HookReply:
    """Cursor asks before commands and MCP tools alone."""
    effect, reason, _ = judgement
    if event.phase != "before" or effect == "defer":
        return HookReply({})
    if effect == "ask" and (asking == "deny" or event.name not in _CURSOR_ASKS):
        effect = "deny"
    if effect == "allow":
        return HookReply({"permission": "allow"})
    return HookReply({"permission": effect, "user_message": reason, "agent_message": reason})


def _copilot(event: HookEvent, judgement: Judgement, asking: Asking) -> HookReply:
    effect, reason, _ = judgement
    if event.phase == "permission":
        if effect not in ("allow", "deny"):
            return HookReply({})
        return HookReply({"behavior": effect} | ({"message": reason} if effect == "deny" else {}))
    if event.phase != "before" or effect == "defer":
        return HookReply({})
    shown = "deny" if effect == "ask" and asking != "ask" else effect
    return HookReply({"permissionDecision": shown, "permissionDecisionReason": reason})


def _plain(event: HookEvent, judgement: Judgement, asking: Asking) -> HookReply:
    """For programs of one's own, and for the plugin of opencode."""
    effect, reason, question = judgement
    shown = "deny" if effect == "ask" and asking == "deny" else effect
    output = {"decision": shown, "reason": reason}
    return HookReply(output | ({} if question is None else {"question": question}))


_CLAUDE_PHASES: Mapping[str, Phase] = {
    "PreToolUse": "before",
    "PermissionRequest": "permission",
    "PostToolUse": "after",
    "PostToolUseFailure": "after",
    "SessionEnd": "end",
}
_NAMES = ("tool_name", "tool_input")

FORMATS: dict[str, HookFormat] = {
    "claude-code": HookFormat(
        "Claude Code",
        _CLAUDE_PHASES,
        _reader("claude-code", tool_names.CLAUDE_CODE, ("session_id",), ("tool_use_id",), _NAMES),
        _claude,
    ),
    "codex": HookFormat(
        "Codex",
        _CLAUDE_PHASES,
        _reader("codex", tool_names.CODEX, ("session_id",), ("tool_use_id",), _NAMES),
        _codex,
    ),
    "gemini": HookFormat(
        "Gemini CLI",
        {"BeforeTool": "before", "AfterTool": "after", "SessionEnd": "end"},
        _reader("gemini", tool_names.GEMINI, ("session_id",), (), _NAMES),
        _gemini,
    ),
    "cursor": HookFormat(
        "Cursor",
        {
            "preToolUse": "before",
            "beforeShellExecution": "before",
            "beforeMCPExecution": "before",
            "beforeReadFile": "before",
            "postToolUse": "after",
            "afterShellExecution": "after",
            "afterMCPExecution": "after",
            "sessionEnd": "end",
        },
        _cursor_read,
        _cursor,
    ),
    "copilot": HookFormat(
        "Copilot CLI",
        {
            "preToolUse": "before",
            "permissionRequest": "permission",
            "postToolUse": "after",
            "postToolUseFailure": "after",
            "sessionEnd": "end",
        },
        _reader("copilot", tool_names.COPILOT, ("sessionId",), (), ("toolName", "toolArgs")),
        _copilot,
    ),
    "opencode": HookFormat(
        "opencode",
        {"tool.execute.before": "before", "tool.execute.after": "after"},
        _reader("opencode", tool_names.OPENCODE, ("sessionID",), ("callID",), ("tool", "args")),
        _plain,
    ),
    "generic": HookFormat(
        "a program of your own",
        {"before": "before", "permission": "permission", "after": "after", "end": "end"},
        _reader("generic", tool_names.PLAIN, ("session",), ("id",), ("tool", "arguments")),
        _plain,
    ),
}

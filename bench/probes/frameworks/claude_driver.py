"""The Claude Agent SDK with the Claude Code that it brings, whose model is a scripted server on loopback."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    ResultMessage,
    SdkMcpTool,
    ToolResultBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
)

from bench.probes.frameworks.driver import Setting, Turn
from bench.probes.frameworks.scripted_messages import ScriptedMessages
from toolcrib.adapters.claude import CribHooks, claude_server, no_prompt
from toolcrib.sources.functions import as_tool


class ClaudeAgent:
    """An agent whose sessions Claude Code keeps in the folder of the probe."""

    can_edit = True

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.kept = setting.folder / "claude-session"

    async def start(self, *calls: tuple[str, dict[str, Any]]) -> Turn:
        server = "crib" if self.setting.out else "desk"
        made = [
            {"type": "tool_use", "id": f"toolu_{n}", "name": f"mcp__{server}__{name}", "input": args}
            for n, (name, args) in enumerate(calls)
        ]
        return await self._run(made, approve=False)

    async def resume(self, edited: dict[str, Any] | None = None) -> Turn:
        return await self._run([], approve=True, edited=edited, resume=self.kept.read_text())

    async def _run(
        self, calls: list[Any], *, approve: bool, edited: dict[str, Any] | None = None, resume: str | None = None
    ) -> Turn:
        model = ScriptedMessages(calls)
        options = self._options(model.url, approve, edited)
        options.resume = resume
        texts, waits, over = [], False, asyncio.Event()
        async for message in query(prompt="Go." if resume is None else no_prompt(over), options=options):
            if isinstance(message, UserMessage) and isinstance(message.content, list):
                texts += [_text(one) for one in message.content if isinstance(one, ToolResultBlock)]
            elif isinstance(message, ResultMessage):
                over.set()
                self.kept.write_text(message.session_id)
                waits = message.deferred_tool_use is not None
        return Turn(tuple(texts), waits)

    def _options(self, url: str, approve: bool, edited: dict[str, Any] | None) -> ClaudeAgentOptions:
        setting, crib = self.setting, self.setting.session
        tools = [native(one) for one in setting.functions]
        hooks: Any = {}
        if crib is not None and not setting.out:
            guard = CribHooks(crib)
            tools, hooks = guard.guard(tools), guard.hooks
        elif crib is None and setting.asks:
            hooks = {"PreToolUse": [HookMatcher(hooks=[permission(approve, edited)])]}
        elif setting.idle:
            hooks = {name: [HookMatcher(hooks=[nothing])] for name in ("PreToolUse", "PostToolUse")}
        servers: Any = {"desk": create_sdk_mcp_server("desk", tools=tools)}
        if crib is not None and setting.out:
            servers = {"crib": claude_server(crib)}
        home = str(setting.folder)
        env = {"HOME": home, "PATH": os.environ["PATH"], "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}
        env |= dict.fromkeys(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER"), "1")
        if setting.timeout_s is not None:
            env["MCP_TOOL_TIMEOUT"] = str(int(setting.timeout_s * 1000))
        names = [f"mcp__{server}" for server in servers]
        return ClaudeAgentOptions(
            mcp_servers=servers, allowed_tools=names, tools=[], hooks=hooks, env=env, cwd=home, setting_sources=[]
        )


def permission(approve: bool, edited: dict[str, Any] | None) -> Callable[..., Awaitable[Any]]:
    """A hook as programs write it that have calls approved later: it defers first, and allows when it is resumed."""

    async def before(data: Any, tool_use_id: str | None, context: Any) -> Any:
        output: dict[str, Any] = {"hookEventName": "PreToolUse", "permissionDecision": "allow" if approve else "defer"}
        return {"hookSpecificOutput": output | ({"updatedInput": edited} if edited else {})}

    return before


async def nothing(data: Any, tool_use_id: str | None, context: Any) -> Any:
    """A hook that does nothing."""
    return {}


def native(function: Any) -> SdkMcpTool[Any]:
    """Return a function as a tool of the SDK."""
    tool = as_tool(function)

    async def call(arguments: dict[str, Any]) -> dict[str, Any]:
        blocks = not inspect.iscoroutinefunction(function)
        value = await (asyncio.to_thread(function, **arguments) if blocks else function(**arguments))
        return {"content": [{"type": "text", "text": str(value)}]}

    return SdkMcpTool(function.__name__, tool.description, dict(tool.input_schema), call)


def _text(block: ToolResultBlock) -> str:
    if isinstance(block.content, list):
        return " ".join(str(one.get("text", "")) for one in block.content)
    return str(block.content)

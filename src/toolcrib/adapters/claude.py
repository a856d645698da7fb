"""Claude Agent SDK: tools of a crib as an in-process MCP server, and hooks round the tools that an agent has.

Keys are made of the session and the tool use. `PreToolUse` makes the call in the crib, whose body is what Claude Code
then runs; `PostToolUse` ends it. A call that waits is deferred: the run stops with `deferred_tool_use`, and resuming
its session asks the crib again. A permission that only Claude Code was given runs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from claude_agent_sdk import HookMatcher, McpSdkServerConfig, SdkMcpTool, create_sdk_mcp_server

from toolcrib.adapters.calls import FrameworkCall, SessionChoice, WaitingCall, make, new_key, session_for
from toolcrib.adapters.handlers import Handler, guarded_tool, pass_through
from toolcrib.errors import ToolFailure
from toolcrib.session import Session
from toolcrib.tool import Tool
from toolcrib.types import Result

FRAMEWORK = "claude-agent-sdk"
SERVER = "crib"
HOOK_S = 3600.0
"""How long a hook may take: a call may have to wait for others."""


def claude_server(session: Session, *, name: str = SERVER, agent: str | None = None) -> McpSdkServerConfig:
    """Return the tools of a session: `ClaudeAgentOptions(mcp_servers={"crib": claude_server(session)})`.

    A call that waits, or failed, is an error for the model.
    """
    tools = [_outward(session, own, tool, agent) for own, tool in session.model_tools().items()]
    return create_sdk_mcp_server(name, tools=tools)


def _outward(session: Session, name: str, tool: Tool, agent: str | None) -> SdkMcpTool[Any]:
    async def call(arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = FrameworkCall(FRAMEWORK, tool.id, arguments, (), agent)
        return _shown(await make(session, wanted, key=new_key()))

    return SdkMcpTool(name, tool.description, dict(tool.input_schema), call)


def guarded_tools(tools: Iterable[SdkMcpTool[Any] | Mapping[str, Any]], **fields: Any) -> list[Tool]:
    """Return the tools of an agent for the catalog of a crib: `Crib(guarded_tools(tools))`. Fields are those of `Tool`.

    A tool of Claude Code is a mapping with `name`, `description` and `input_schema`. Their bodies stay where they are.
    """
    return [_inward(one, fields) for one in tools]


def _inward(tool: SdkMcpTool[Any] | Mapping[str, Any], fields: Mapping[str, Any]) -> Tool:
    if isinstance(tool, SdkMcpTool):
        name, description, schema = tool.name, tool.description, tool.input_schema
    else:
        name, description, schema = tool["name"], tool.get("description", ""), tool["input_schema"]
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise TypeError(f"{name}: give its input_schema as JSON Schema")
    return guarded_tool(name, description, schema, FRAMEWORK, **fields)


class CribHooks:
    """Lets every tool call of an agent pass through a crib: `ClaudeAgentOptions(hooks=CribHooks(session).hooks)`.

    `session` may also be a function of Claude's session id. Tools that the crib does not have are refused. The names of
    tools of MCP servers are taken without `mcp__SERVER__`; tools of the crib itself (`own`) are left to their server.
    """

    def __init__(self, session: SessionChoice, *, agent: str | None = None, own: str = SERVER) -> None:
        self._session = session
        self._agent = agent
        self._own = f"mcp__{own}__"
        self._running: dict[str, _RunningCall] = {}

    @property
    def hooks(self) -> dict[Any, list[HookMatcher]]:
        """The hooks, for `ClaudeAgentOptions`."""
        return {
            "PreToolUse": [HookMatcher(hooks=[self.before], timeout=HOOK_S)],
            "PostToolUse": [HookMatcher(hooks=[self.after])],
            "PostToolUseFailure": [HookMatcher(hooks=[self.after])],
        }

    def guard(self, tools: Iterable[SdkMcpTool[Any]]) -> list[SdkMcpTool[Any]]:
        """Return tools of this process with bodies that run under the limits of the crib: `create_sdk_mcp_server(...)`.

        A call of them that did not come through the hooks is refused.
        """
        return [replace(tool, handler=self._handler(tool)) for tool in tools]

    def _handler(self, tool: SdkMcpTool[Any]) -> Callable[[Any], Awaitable[dict[str, Any]]]:
        async def call(arguments: Any) -> dict[str, Any]:
            waiting = (one for one in self._running.values() if one.expects(tool.name, arguments))
            running = next(waiting, None)
            if running is None:
                return _content("The call was not judged, so it is refused.", failed=True)
            returned: list[dict[str, Any]] = []

            async def body() -> Any:
                returned.append(await tool.handler(arguments))
                return _recorded(returned[-1])

            outcome = await running.run(body)
            unchanged = returned and isinstance(outcome, Result) and outcome.ok and not outcome.metadata.get("edited")
            return returned[-1] if unchanged else _shown(outcome)

        return call

    async def before(self, data: Any, tool_use_id: str | None, context: Any) -> Any:
        """Answer `PreToolUse`: allow, deny with the reason, or defer."""
        if data["tool_name"].startswith(self._own):
            return {}
        name = data["tool_name"].split("__", 2)[-1] if data["tool_name"].startswith("mcp__") else data["tool_name"]
        session = await session_for(self._session, data["session_id"])
        use = tool_use_id or data.get("tool_use_id")
        ids = (data["session_id"], use)
        agent = self._agent or data.get("agent_type")
        wanted = FrameworkCall(
            FRAMEWORK, name, dict(data["tool_input"]), ids, agent, provider_id=use, run=data.get("prompt_id")
        )
        running = _RunningCall(name)
        outcome = await running.begin(session, wanted)
        if outcome is None:
            self._running[str(use)] = running
            edited = running.values != wanted.arguments
            return _decision("allow", "", {"updatedInput": running.values} if edited else {})
        if isinstance(outcome, WaitingCall):
            return _decision("defer", str(outcome))
        return _decision("deny", outcome.text)

    async def after(self, data: Any, tool_use_id: str | None, context: Any) -> Any:
        """Take what a tool returned, or that it failed, as the end of its call; what the crib makes of it is added."""
        running = self._running.pop(str(tool_use_id or data.get("tool_use_id")), None)
        if running is None:
            return {}
        failed = data["hook_event_name"] == "PostToolUseFailure"
        outcome = await running.run(_ended(data.get("error") if failed else data.get("tool_response"), failed))
        if isinstance(outcome, Result) and outcome.ok and not outcome.metadata.get("edited"):
            return {}
        text = str(outcome) if isinstance(outcome, WaitingCall) else outcome.text
        return {"hookSpecificOutput": {"hookEventName": data["hook_event_name"], "additionalContext": text}}


async def no_prompt(until: asyncio.Event) -> AsyncIterator[dict[str, Any]]:
    """Return the prompt with which a session is resumed for the call that was deferred; any other passes it over.

    `query(prompt=no_prompt(over), options=...)` needs `over.set()` when its `ResultMessage` has come.
    """
    await until.wait()
    none: tuple[dict[str, Any], ...] = ()
    for prompt in none:
        yield prompt


class _RunningCall:
    """A call whose body runs elsewhere: it begins when the hook allows it, and is handed in afterwards."""

    def __init__(self, tool: str) -> None:
        self.values: dict[str, Any] = {}
        loop = asyncio.get_running_loop()
        self._tool = tool
        self._begun: asyncio.Future[bool] = loop.create_future()
        self._work: asyncio.Future[Callable[[], Awaitable[Any]]] = loop.create_future()
        self._task: asyncio.Task[Result | WaitingCall] | None = None

    def expects(self, tool: str, arguments: Any) -> bool:
        """True if this call waits for a body of that tool with these arguments."""
        return tool == self._tool and not self._work.done() and self.values == arguments

    async def begin(self, session: Session, wanted: FrameworkCall) -> Result | WaitingCall | None:
        """Make the call; return None when its body may run, else what came of it without."""
        self._task = asyncio.create_task(pass_through(session, wanted, Handler(self._body)))
        self._task.add_done_callback(lambda _: self._tell(runs=False))
        try:
            runs = await self._begun
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        return None if runs and not self._task.done() else await self._task

    def _tell(self, *, runs: bool) -> None:
        """Let whoever began the call go on: its body may run, or it came to its end without."""
        if not self._begun.done():
            self._begun.set_result(runs)

    async def run(self, work: Callable[[], Awaitable[Any]]) -> Result | WaitingCall:
        """Hand in the body, unless that was done; return what the crib makes of it. Whoever cancels this stops it."""
        assert self._task is not None
        if not self._work.done():
            self._work.set_result(work)
        return await self._task

    async def _body(self, values: Mapping[str, Any]) -> Any:
        self.values = dict(values)
        self._tell(runs=True)
        return await (await self._work)()


def _ended(value: Any, failed: bool) -> Callable[[], Awaitable[Any]]:
    async def body() -> Any:
        if failed:
            raise ToolFailure("The tool failed.")
        return value

    return body


def _recorded(returned: Mapping[str, Any]) -> Any:
    """What the crib keeps of what a tool of this process returned.

    Raises:
        ToolFailure: it says that it failed.
    """
    texts = [str(one.get("text", "")) for one in returned.get("content", ()) if one.get("type") == "text"]
    if returned.get("is_error"):
        raise ToolFailure("\n".join(texts) or "The tool failed.")
    return "\n".join(texts) if len(texts) == len(returned.get("content", ())) else dict(returned)


def _shown(outcome: Result | WaitingCall) -> dict[str, Any]:
    if isinstance(outcome, WaitingCall):
        return _content(str(outcome), failed=True)
    return _content(outcome.text, failed=outcome.failure is not None)


def _content(text: str, *, failed: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]} | ({"is_error": True} if failed else {})


def _decision(decision: str, reason: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    output: dict[str, Any] = {"hookEventName": "PreToolUse", "permissionDecision": decision, **(more or {})}
    return {"hookSpecificOutput": output | ({"permissionDecisionReason": reason} if reason else {})}

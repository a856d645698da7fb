"""Whether the tools of files are well: they are really asked, and what was found is kept for a while.

What is found lives here and not in the definition, which says only how to find it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec

from toolcrib.context import Context
from toolcrib.definitions import mcp_servers, validators
from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.detached_call import DetachedCall
from toolcrib.definitions.mcp_servers import Servers, lacking, mcp_tool
from toolcrib.definitions.runners import BadTemplate, environment, processes, protocol, runner
from toolcrib.definitions.runners.meta import aggregated
from toolcrib.definitions.values import mapping, text
from toolcrib.errors import Refused, ToolFailure
from toolcrib.schema.redaction import without
from toolcrib.sources import Health as Told
from toolcrib.types import Result, block
from toolcrib.yaml import thaw

TIMEOUT_S = 5.0
TTL_S = 300.0
TOLD = 300
ACTIONS = {"fail": "fail", "fail_fast": "fail", "skip_tool": "skip_tool", "fallback": "fallback"}
"""What a file may want of one that is not well, by the words for it; all else is a warning."""

log = logging.getLogger("toolcrib.files")

Level = Literal["reachable", "listed", "called"]


@dataclass(frozen=True, slots=True)
class HealthReport:
    """How a tool is, how far that was looked at, and why it is so."""

    id: str
    status: Literal["healthy", "unhealthy", "unknown"]
    level: Level | None = None
    reason: str = ""
    checked_at: float = 0.0

    def data(self) -> dict[str, Any]:
        """It as JSON data."""
        return asdict(self)


class _Unwell(Exception):
    """The check says that the tool is not well."""


class _Untold(Exception):
    """Nothing can be said."""


class HealthCheck:
    """How a file wants to be looked at, and what is to be done where it is not well."""

    def __init__(self, definition: ToolDefinition) -> None:
        said = mapping(definition.tool.get("health_check")) or mapping(definition.specific.get("health_check"))
        failing = mapping(said.get("on_failure"))
        action = text(failing.get("action"))
        self.said = said
        self.enabled = bool(said) and said.get("enabled") is not False
        self.required = self.enabled and said.get("required") is True
        self.ttl_s = _number(said.get("ttl_s"), TTL_S)
        self.action = ACTIONS.get(action, "warn") if action and self.enabled else ""
        self.fallback = text(failing.get("fallback_tool")) or text(said.get("fallback"))
        self.message = text(failing.get("message"))

    @property
    def gates(self) -> bool:
        """True if calls want to know how the tool is. A file that does not say what for makes nobody wait."""
        return self.required or bool(self.action)

    @property
    def skips(self) -> bool:
        """True if the tool is given out only while it is well."""
        return self.action == "skip_tool" and not self.required


class HealthMonitor:
    """Looks at tools, and keeps what it found for as long as their files say."""

    def __init__(
        self,
        settings: protocol.RunnerSettings,
        sandboxes: validators.CodeSandboxes,
        servers: Servers,
        resolve: Callable[[str], Awaitable[ToolDefinition]],
    ) -> None:
        self._settings = settings
        self._sandboxes = sandboxes
        self._servers = servers
        self._resolve = resolve
        self._found: dict[str, tuple[str, HealthReport]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def last(self, definition: ToolDefinition) -> HealthReport | None:
        """What was found of this very file, as long as it counts."""
        sha, report = self._found.get(definition.id, ("", None))
        fresh = report is not None and time.time() - report.checked_at < HealthCheck(definition).ttl_s
        return report if fresh and sha == definition.sha256 else None

    def told(self, definition: ToolDefinition) -> Told:
        """How the tool is, by what was found lately and by its server; nobody is asked for that."""
        found = self.last(definition)
        if found is not None and found.status == "unhealthy":
            return Told("unavailable", found.reason)
        status, reason = self._servers.health(definition)
        return Told(status, without(self._masks(definition), reason) if reason else "")

    def due(self, definition: ToolDefinition) -> bool:
        """True if it has to be looked at although nobody asks, since it is given out only while it is well.

        A file that nobody vouches for is looked at by the wish of a person alone: a look may start whatever it names.
        """
        return definition.trusted and HealthCheck(definition).skips and self.last(definition) is None

    def skipped(self, definition: ToolDefinition) -> bool:
        """True if it is kept back: at the last look it was not well, or nobody has looked yet."""
        if not definition.trusted or not HealthCheck(definition).skips:
            return False
        known = self._found.get(definition.id)
        return known is None or known[1].status == "unhealthy"

    async def check(self, definition: ToolDefinition, *, fresh: bool = True) -> HealthReport:
        """How the tool is; unless `fresh`, what was found lately will do."""
        async with self._locks.setdefault(definition.id, asyncio.Lock()):
            known = None if fresh else self.last(definition)
            if known is None:
                known = await self._look(definition)
                self._found[definition.id] = definition.sha256, known
            return known

    async def gate(
        self, definition: ToolDefinition, command: Command, ctx: Context, values: Mapping[str, Any]
    ) -> Result | None:
        """Lets a call through, refuses it, or has another tool do it.

        Raises:
            ToolFailure: `unavailable`, the tool is not well and its file wants that to be said.
        """
        block = HealthCheck(definition)
        if not block.gates:
            return None
        report = await self.check(definition, fresh=False) if definition.trusted else self.last(definition)
        if report is None or report.status != "unhealthy":
            return None
        if block.required:
            raise ToolFailure("unavailable", f"Required tool '{definition.id}' health check failed", hint=report.reason)
        if block.action == "fallback" and block.fallback:
            name, dot, inner = block.fallback.partition(".")
            other = f"{name.lower()}.{inner if dot else command.name}"
            told = block.message or f"{definition.id} is not well ({report.reason}); {other} was called instead"
            return _instead(await ctx.call(other, dict(values)), other, told)
        if block.action == "warn":
            return None
        raise ToolFailure("unavailable", block.message or f"'{definition.id}' is not well: {report.reason}")

    # How it is looked at

    async def _look(self, definition: ToolDefinition) -> HealthReport:
        block, now = HealthCheck(definition), time.time()
        if block.said and not block.enabled:
            return HealthReport(definition.id, "unknown", None, "The check is switched off", now)
        try:
            level, reason = await self._tried(definition, block.said)
        except _Untold as error:
            return HealthReport(definition.id, "unknown", None, str(error), now)
        except _Unwell as error:
            log.warning("%s is not well: %s", definition.id, error)
            return HealthReport(definition.id, "unhealthy", None, str(error), now)
        except Exception as error:  # a look that cannot be had is no good sign, and no reason to fall over
            log.exception("%s could not be looked at", definition.id)
            return HealthReport(definition.id, "unhealthy", None, f"The check failed: {error}", now)
        return HealthReport(definition.id, "healthy", level, reason, now)

    async def _tried(self, definition: ToolDefinition, data: Mapping[str, Any]) -> tuple[Level, str]:
        """One check, and the one that stands in for it where it fails."""
        other = mapping(data.get("fallback"))
        try:
            return await self._within(definition, data)
        except _Unwell:
            if "method" not in other:
                raise
            return await self._within(definition, other)

    async def _within(self, definition: ToolDefinition, data: Mapping[str, Any]) -> tuple[Level, str]:
        seconds = _number(data.get("timeout_ms"), _patience(definition) * 1000) / 1000
        try:
            async with asyncio.timeout(seconds):
                return await self._method(definition, data)
        except TimeoutError:
            raise _Unwell(f"No answer within {seconds:g} s") from None
        except ToolFailure as error:
            raise _Unwell(error.message) from None
        except BadTemplate as error:
            raise _Unwell(str(error)) from None

    async def _method(self, definition: ToolDefinition, data: Mapping[str, Any]) -> tuple[Level, str]:
        method = text(data.get("method"))
        if "unix" in data or "windows" in data:
            return await self._commands(definition, data.get("windows" if os.name == "nt" else "unix"), data)
        if "method" not in data:
            return await self._by_type(definition)
        known = {
            "tool_call": self._tool_call,
            "command": lambda one, block: self._commands(one, [block.get("command")], block),
            "http": self._http,
            "function": self._function,
        }
        if method not in known:
            raise _Untold(f"Nobody knows the method '{method}'")
        return await known[method](definition, data)

    async def _by_type(self, definition: ToolDefinition) -> tuple[Level, str]:
        if definition.type == "mcp":
            offered = await self._servers.ask(definition)
            return "listed", f"The server offers {len(offered)} tools{_without(definition, offered)}"
        if definition.type in ("cli", "local"):
            return await self._installed(definition)
        if definition.type == "meta":
            return await self._members(definition)
        raise _Untold("The file says of no way to look")

    async def _installed(self, definition: ToolDefinition) -> tuple[Level, str]:
        said, env = definition.specific, self._env(definition)
        several = said.get("executables")
        names = [text(mapping(one).get("name")) or text(one) for one in (several if isinstance(several, tuple) else ())]
        programs = [name for name in (text(said.get("executable")), *names) if name]
        found = [processes.find(program, env, self._settings.workspace) for program in programs]
        wanted = said.get("install_check") or said.get("version_command")
        if text(wanted):
            return await self._commands(definition, [wanted], said)
        if not found:
            raise _Untold("The file names no program")
        return "reachable", ", ".join(found)

    async def _members(self, definition: ToolDefinition) -> tuple[Level, str]:
        """Asks all members, and those of members that are groups themselves, each once: groups may hold each other.

        Of one that nobody vouches for, what a person has found counts.
        """
        waiting, seen, asked = list(aggregated(definition)), {definition.id}, 0
        while waiting:
            id = waiting.pop(0).partition(".")[0]
            if id in seen:
                continue
            seen.add(id)
            try:
                member = await self._resolve(id)
            except Refused as error:
                raise _Unwell(error.message) from None
            if member.type == "meta" and not HealthCheck(member).said.keys() & {"method", "unix", "windows"}:
                waiting += aggregated(member)
                continue
            asked += 1
            report = await self.check(member, fresh=False) if member.trusted else self.last(member)
            if report is not None and report.status == "unhealthy":
                raise _Unwell(f"{id}: {report.reason}")
        if not asked:
            raise _Untold("There is no member that could be asked")
        return "reachable", "All members are well"

    async def _tool_call(self, definition: ToolDefinition, data: Mapping[str, Any]) -> tuple[Level, str]:
        """Calls a command that may be called without harm, after its checks; of any other it is enough to be there."""
        name, args = text(data.get("command")), data.get("args")
        command, given = definition.command(name) or Command(name), thaw(mapping(args))
        found = await self._callable(definition, command)
        if args is None and not found.harmless:
            return "listed", f"'{name}' is there{found.note}"
        verdict = await validators.validate(definition, name, given, self._sandboxes)
        if not verdict.valid:
            raise _Unwell(str(verdict.errors[0]))
        return "called", _expected(data, await found.run(Context(DetachedCall()), given)) + found.note

    async def _callable(self, definition: ToolDefinition, command: Command) -> _Callable:
        if definition.type != "mcp":
            made = runner(definition, command, self._settings) if command in definition.commands else None
            if made is None:
                raise _Untold(f"'{command.name}' is nothing that runs")
            return _Callable(made.run, not made.input_schema.get("required"))
        offered = await self._servers.ask(definition)
        found = next((one for one in offered if one.name == mcp_tool(command)), None)
        if found is None:
            raise _Unwell(f"The server has no tool '{mcp_tool(command)}'")
        harmless = not found.input_schema.get("required") and not found.annotations.destructive
        server = partial(self._servers.call, definition, found.name)
        return _Callable(lambda ctx, values: server(values, ctx), harmless, _without(definition, offered))

    async def _commands(self, definition: ToolDefinition, value: Any, data: Mapping[str, Any]) -> tuple[Level, str]:
        """Runs one program after the other; all have to end well."""
        level: Level | None = None
        reason = ""
        env, masks = self._env(definition), self._masks(definition)
        for one in value if _is_list(value) else [value]:
            argv = _argv(one, data.get("args"))
            if argv[0] in ("which", "where") and len(argv) == 2:
                level, reason = level or "reachable", processes.find(argv[1], env, self._settings.workspace)
                continue
            ended = await processes.run(processes.ProcessStart(argv, env, cwd=self._settings.workspace))
            printed, complained = (
                without(masks, part.decode("utf-8", "replace").strip()) for part in (ended.stdout, ended.stderr)
            )
            if ended.code != 0:
                told = (complained or printed)[-TOLD:]
                raise _Unwell(f"{argv[0]} ended with {ended.code}{told and f': {told}'}")
            level, reason = "called", _expected(data, _as_data(printed)) or printed[:TOLD]
        if level is None:
            raise _Untold("The check names no command")
        return level, reason

    async def _http(self, definition: ToolDefinition, data: Mapping[str, Any]) -> tuple[Level, str]:
        """Gets an address. What the file sends along, it sends to its own service and to nobody else."""
        endpoint, own = (
            text(data.get("endpoint")) or text(data.get("command")),
            mapping(definition.tool.get("http_specific")),
        )
        if endpoint.startswith(("http://", "https://")):
            own, endpoint = {"base_url": endpoint}, ""
        if not own.get("base_url"):
            raise _Untold("The check names no address")
        asked = replace(definition, type="http", tool={**definition.tool, "http_config": {}, "http_specific": own})
        made = runner(asked, Command("health", said={"method": "GET", "path": endpoint}), self._settings)
        assert made is not None
        return "called", _expected(data, await made.run(Context(DetachedCall()), {}))

    async def _function(self, definition: ToolDefinition, data: Mapping[str, Any]) -> tuple[Level, str]:
        id = (text(data.get("function")) or text(data.get("command"))).removeprefix("helpers.")
        value = await validators.helper(definition, id, thaw(mapping(data.get("args"))), self._sandboxes)
        if value is not True:
            raise _Unwell(f"The helper '{id}' did not return true")
        return "called", f"The helper '{id}' returned true"

    def _secrets(self, definition: ToolDefinition) -> dict[str, str]:
        return environment.values(environment.declared(definition), self._settings.environ)

    def _env(self, definition: ToolDefinition) -> dict[str, str]:
        return environment.for_program(self._secrets(definition), self._settings.environ)

    def _masks(self, definition: ToolDefinition) -> tuple[str, ...]:
        return environment.masks(self._secrets(definition))


class _Callable(NamedTuple):
    """A command that can be called; `harmless` where it needs no arguments and destroys nothing."""

    run: Callable[[Context, Mapping[str, Any]], Awaitable[Any]]
    harmless: bool
    note: str = ""


def _patience(definition: ToolDefinition) -> float:
    """How long a look may take where the file does not say: servers and members have limits of their own."""
    return TIMEOUT_S + (mcp_servers.START_S if definition.type in ("mcp", "meta") else 0)


def _without(definition: ToolDefinition, offered: Sequence[Any]) -> str:
    names = [one.name for one in lacking(definition, offered)]
    return f"; it has none of these commands: {', '.join(names)}" if names else ""


def _instead(result: Result, other: str, told: str) -> Result:
    """The result of a tool that stepped in; the model is told."""
    metadata = {**result.metadata, "fallback": {"tool": other, "reason": told}}
    failure = result.failure
    if failure is not None:
        return result.but(failure=replace(failure, message=f"{told}: {failure.message}"), metadata=metadata)
    shown = result.content or [block("text", text=result.text)]
    content = [block("text", ("model",), text=told), *shown]
    return result.but(content=content, metadata=metadata)


def _number(value: Any, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else otherwise


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple | list)


def _argv(value: Any, more: Any) -> list[str]:
    try:
        argv = shlex.split(value) if isinstance(value, str) else [str(one) for one in value if one is not None]
    except (ValueError, TypeError):
        argv = []
    if not argv:
        raise _Untold("The check names no command")
    return [*argv, *(str(one) for one in (more if _is_list(more) else ()))]


def _as_data(printed: str) -> Any:
    """What was printed: JSON where it is some, for a mapping that is expected of it."""
    try:
        return msgspec.json.decode(printed)
    except (msgspec.DecodeError, RecursionError):
        return printed


def _expected(data: Mapping[str, Any], value: Any) -> str:
    """What was answered holds what a mapping expects; words are for people."""
    if isinstance(value, Result):
        if value.failure is not None:
            raise _Unwell(value.failure.message)
        value = value.data if value.data is not None else value.text
    expected = data.get("expected_response")
    if isinstance(expected, Mapping) and not _holds(
        _as_data(value) if isinstance(value, str) else value, thaw(expected)
    ):
        raise _Unwell("The answer does not hold what is expected")
    return f"Expected: {expected}" if isinstance(expected, str) else ""


def _holds(value: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping):
        return isinstance(value, Mapping) and all(
            key in value and _holds(value[key], one) for key, one in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(value, list) and all(any(_holds(one, wanted) for one in value) for wanted in expected)
    return type(value) is type(expected) and bool(value == expected)

"""Health of the tools of files: they are really called, and reports are kept for a while.

Reports are kept here and not in the definition, which says only how to check.
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
    """The health cannot be known."""


class HealthCheck:
    """How a file wants to be looked at, and what is to be done where it is not well."""

    def __init__(self, definition: ToolDefinition) -> None:
        fields = mapping(definition.tool.get("health_check")) or mapping(definition.specific.get("health_check"))
        failing = mapping(fields.get("on_failure"))
        action = text(failing.get("action"))
        self.fields = fields
        self.enabled = bool(fields) and fields.get("enabled") is not False
        self.required = self.enabled and fields.get("required") is True
        self.ttl_s = _number(fields.get("ttl_s"), TTL_S)
        self.action = ACTIONS.get(action, "warn") if action and self.enabled else ""
        self.fallback = text(failing.get("fallback_tool")) or text(fields.get("fallback"))
        self.message = text(failing.get("message"))

    @property
    def gates(self) -> bool:
        """True if calls want to know how the tool is. A file that does not say what for makes nobody wait."""
        return self.required or bool(self.action)

    @property
    def skips(self) -> bool:
        """True if the tool is listed only while it is healthy."""
        return self.action == "skip_tool" and not self.required


class HealthMonitor:
    """Checks tools, and keeps reports for as long as their files say."""

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
        self._reports: dict[str, tuple[str, HealthReport]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def last(self, definition: ToolDefinition) -> HealthReport | None:
        """Return the last report about this version of the file, until it expires."""
        sha, report = self._reports.get(definition.id, ("", None))
        fresh = report is not None and time.time() - report.checked_at < HealthCheck(definition).ttl_s
        return report if fresh and sha == definition.sha256 else None

    def known(self, definition: ToolDefinition) -> Told:
        """Return the health of the tool by its last report and the state of its server, without a check."""
        report = self.last(definition)
        if report is not None and report.status == "unhealthy":
            return Told("unavailable", report.reason)
        status, reason = self._servers.health(definition)
        return Told(status, without(self._masks(definition), reason) if reason else "")

    def due(self, definition: ToolDefinition) -> bool:
        """True if it has to be checked in the background, since it is listed only while it is healthy.

        A file that nobody vouches for is looked at by the wish of a person alone: a look may start whatever it names.
        """
        return definition.trusted and HealthCheck(definition).skips and self.last(definition) is None

    def skipped(self, definition: ToolDefinition) -> bool:
        """True if it is kept back: at the last look it was not well, or nobody has looked yet."""
        if not definition.trusted or not HealthCheck(definition).skips:
            return False
        known = self._reports.get(definition.id)
        return known is None or known[1].status == "unhealthy"

    async def check(self, definition: ToolDefinition, *, fresh: bool = True) -> HealthReport:
        """Check the tool; unless `fresh`, a recent report will do."""
        async with self._locks.setdefault(definition.id, asyncio.Lock()):
            known = None if fresh else self.last(definition)
            if known is None:
                known = await self._look(definition)
                self._reports[definition.id] = definition.sha256, known
            return known

    async def gate(
        self, definition: ToolDefinition, command: Command, ctx: Context, values: Mapping[str, Any]
    ) -> Result | None:
        """Let a call through, refuse it, or call the fallback instead.

        Raises:
            ToolFailure: `unavailable`, the tool is unhealthy and its file wants calls to fail then.
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
            reason = block.message or f"{definition.id} is not well ({report.reason}); {other} was called instead"
            return _instead(await ctx.call(other, dict(values)), other, reason)
        if block.action == "warn":
            return None
        raise ToolFailure("unavailable", block.message or f"'{definition.id}' is not well: {report.reason}")

    # How it is looked at

    async def _look(self, definition: ToolDefinition) -> HealthReport:
        block, now = HealthCheck(definition), time.time()
        if block.fields and not block.enabled:
            return HealthReport(definition.id, "unknown", None, "The check is switched off", now)
        try:
            level, reason = await self._tried(definition, block.fields)
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
        block, env = definition.specific, self._env(definition)
        several = block.get("executables")
        names = [text(mapping(one).get("name")) or text(one) for one in (several if isinstance(several, tuple) else ())]
        programs = [name for name in (text(block.get("executable")), *names) if name]
        paths = [processes.find(program, env, self._settings.workspace) for program in programs]
        wanted = block.get("install_check") or block.get("version_command")
        if text(wanted):
            return await self._commands(definition, [wanted], block)
        if not paths:
            raise _Untold("The file names no program")
        return "reachable", ", ".join(paths)

    async def _members(self, definition: ToolDefinition) -> tuple[Level, str]:
        """Check all members, and those of members that are groups, each once: groups may contain each other.

        Of an untrusted one, the last report of a person's check counts.
        """
        waiting, seen, checked = list(aggregated(definition)), {definition.id}, 0
        while waiting:
            id = waiting.pop(0).partition(".")[0]
            if id in seen:
                continue
            seen.add(id)
            try:
                member = await self._resolve(id)
            except Refused as error:
                raise _Unwell(error.message) from None
            if member.type == "meta" and not HealthCheck(member).fields.keys() & {"method", "unix", "windows"}:
                waiting += aggregated(member)
                continue
            checked += 1
            report = await self.check(member, fresh=False) if member.trusted else self.last(member)
            if report is not None and report.status == "unhealthy":
                raise _Unwell(f"{id}: {report.reason}")
        if not checked:
            raise _Untold("There is no member that could be asked")
        return "reachable", "All members are well"

    async def _tool_call(self, definition: ToolDefinition, data: Mapping[str, Any]) -> tuple[Level, str]:
        """Call a harmless command after its checks; of any other it is enough to exist."""
        name, args = text(data.get("command")), data.get("args")
        command, arguments = definition.command(name) or Command(name), thaw(mapping(args))
        target = await self._callable(definition, command)
        if args is None and not target.harmless:
            return "listed", f"'{name}' is there{target.note}"
        verdict = await validators.validate(definition, name, arguments, self._sandboxes)
        if not verdict.valid:
            raise _Unwell(str(verdict.errors[0]))
        return "called", _expected(data, await target.run(Context(DetachedCall()), arguments)) + target.note

    async def _callable(self, definition: ToolDefinition, command: Command) -> _Callable:
        if definition.type != "mcp":
            made = runner(definition, command, self._settings) if command in definition.commands else None
            if made is None:
                raise _Untold(f"'{command.name}' is nothing that runs")
            return _Callable(made.run, not made.input_schema.get("required"))
        offered = await self._servers.ask(definition)
        offer = next((one for one in offered if one.name == mcp_tool(command)), None)
        if offer is None:
            raise _Unwell(f"The server has no tool '{mcp_tool(command)}'")
        harmless = not offer.input_schema.get("required") and not offer.annotations.destructive
        server = partial(self._servers.call, definition, offer.name)
        return _Callable(lambda ctx, values: server(values, ctx), harmless, _without(definition, offered))

    async def _commands(self, definition: ToolDefinition, value: Any, data: Mapping[str, Any]) -> tuple[Level, str]:
        """Run one program after the other; all have to succeed."""
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
                output = (complained or printed)[-TOLD:]
                raise _Unwell(f"{argv[0]} ended with {ended.code}{output and f': {output}'}")
            level, reason = "called", _expected(data, _as_data(printed)) or printed[:TOLD]
        if level is None:
            raise _Untold("The check names no command")
        return level, reason

    async def _http(self, definition: ToolDefinition, data: Mapping[str, Any]) -> tuple[Level, str]:
        """Request an address. Credentials of the file go to its own service and to nobody else."""
        endpoint, own = (
            text(data.get("endpoint")) or text(data.get("command")),
            mapping(definition.tool.get("http_specific")),
        )
        if endpoint.startswith(("http://", "https://")):
            own, endpoint = {"base_url": endpoint}, ""
        if not own.get("base_url"):
            raise _Untold("The check names no address")
        probe = replace(definition, type="http", tool={**definition.tool, "http_config": {}, "http_specific": own})
        made = runner(probe, Command("health", fields={"method": "GET", "path": endpoint}), self._settings)
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


def _instead(result: Result, other: str, reason: str) -> Result:
    """Return the result of the fallback, with a note for the model."""
    metadata = {**result.metadata, "fallback": {"tool": other, "reason": reason}}
    failure = result.failure
    if failure is not None:
        return result.but(failure=replace(failure, message=f"{reason}: {failure.message}"), metadata=metadata)
    shown = result.content or [block("text", text=result.text)]
    content = [block("text", ("model",), text=reason), *shown]
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

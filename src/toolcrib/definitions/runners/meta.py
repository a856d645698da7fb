"""Tools made of other tools: a workflow of fixed steps, or a helper that says what is called next.

Every call goes through the whole pipeline, and nothing is allowed here that is not allowed there. What a step gave is
recorded: a workflow that goes on after a crash finds it, and does not do it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.context import Context
from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.runners import protocol, templates
from toolcrib.definitions.runners.protocol import Runner, RunnerSettings
from toolcrib.definitions.runners.templates import BadTemplate, JsonTemplate, Placeholder
from toolcrib.errors import ToolFailure
from toolcrib.types import Effect, Result

MOST_TURNS = 50
HELPERS = "helpers."
_RANK: Mapping[Effect, int] = {"read": 0, "idempotent": 1, "once": 2}


def runner(definition: ToolDefinition, command: Command, settings: RunnerSettings) -> Runner | None:
    """How the tool `run` of a file runs; None where the file is only a group of tools.

    Raises:
        BadTemplate: a step does not hold.
    """
    block = definition.specific
    if command.name != "run":
        return None
    if block.get("workflow") is not None:
        steps = read_steps(block["workflow"])
        allowed = members(definition) or tuple(step.tool for step in steps)
        flow = Workflow(steps, allowed)
        called: Iterable[str] = [step.tool for step in steps]
        arguments = [
            Placeholder(one.path, one.steps[1:]) for step in steps for one in step.places if one.root == "args"
        ]
        schema = protocol.schema(command, [one for one in arguments if one.steps], ())
        return _runner(definition, command, schema, flow.run, worst(called, settings))
    if block.get("orchestration") is not None:
        directed = DirectedWorkflow(definition, _helper(block["orchestration"]), members(definition), settings)
        schema = protocol.schema(command, (), ())
        return _runner(definition, command, schema, directed.run, worst(members(definition), settings))
    return None


def _runner(
    definition: ToolDefinition, command: Command, schema: Mapping[str, Any], run: Any, members_effect: Effect
) -> Runner:
    own = protocol.effect(definition, command, "read")
    return Runner(
        run,
        schema,
        protocol.capabilities(definition, command),
        max(own, members_effect, key=_RANK.__getitem__),
        protocol.timeout_s(command, definition),
        resumes=True,
    )


def members(definition: ToolDefinition) -> tuple[str, ...]:
    """What a file may call: ids of tools, each for all its commands, or single commands; in small letters."""
    return tuple(one.lower() for one in aggregated(definition))


def aggregated(definition: ToolDefinition) -> tuple[str, ...]:
    """The same as it is written."""
    block = definition.specific
    names = block.get("aggregates") or block.get("orchestrates")
    listed = (names,) if isinstance(names, str) else names if isinstance(names, list | tuple) else ()
    return tuple(one for one in listed if isinstance(one, str))


def worst(called: Iterable[str], settings: RunnerSettings) -> Effect:
    """The worst effect of these tools; what nobody knows may happen once."""
    effects = [settings.effect_of(one) or "once" for one in called]
    return max(effects, key=_RANK.__getitem__, default="once")


def tool_id(data: Mapping[str, Any], where: str) -> str:
    """The tool that a step calls.

    Raises:
        BadTemplate: it names none.
    """
    tool, command = data.get("tool"), data.get("command")
    if not isinstance(tool, str) or not tool or not isinstance(command, str | None):
        raise BadTemplate(where, "it names a `tool` and a `command`")
    if command:
        return f"{tool.lower()}.{command}"
    namespace, dot, name = tool.partition(".")
    if not dot:
        raise BadTemplate(where, f"it names no `command` of {tool!r}")
    return f"{namespace.lower()}.{name}"


def _check_member(tool: str, allowed: tuple[str, ...]) -> None:
    if tool.lower() not in allowed and tool.partition(".")[0] not in allowed:
        raise ToolFailure("denied", f"{tool} is not among the tools that this one may call: {', '.join(allowed)}")


def _outcome_data(result: Result) -> dict[str, Any]:
    """Return what later steps see of a result."""
    failure = result.failure
    if failure is None:
        return {"ok": True, "data": result.data}
    failed = {"code": failure.code, "message": failure.message, "retryable": failure.retryable, "hint": failure.hint}
    failed |= {} if failure.reason is None else {"reason": failure.reason}
    return {"ok": False, "failure": failed}


async def _called(ctx: Context, key: str, tool: str, args: Any) -> dict[str, Any]:
    """Call a tool and record its result. A call made before a crash is resumed by the call itself,
    which also tells apart two steps that do the same.
    """
    result = await ctx.call(tool, args)
    data: dict[str, Any] = await ctx.step(key, lambda: _outcome_data(result))
    return data


# Fixed steps


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a workflow."""

    name: str
    tool: str
    input: JsonTemplate
    when: JsonTemplate | Placeholder | None
    goes_on: bool

    @property
    def places(self) -> tuple[Placeholder, ...]:
        """All place-holders."""
        when = () if self.when is None else (self.when,) if isinstance(self.when, Placeholder) else self.when.places
        return (*self.input.places, *when)

    def wanted(self, values: Mapping[str, Any]) -> bool:
        """True if the step's condition holds."""
        if self.when is None:
            return True
        condition = self.when.value(values) if isinstance(self.when, Placeholder) else self.when.fill(values)
        return templates.is_true(condition)


def read_steps(workflow: Any) -> tuple[Step, ...]:
    """Read a workflow.

    Raises:
        BadTemplate: a step does not hold, or speaks of one that does not come before it.
    """
    if not isinstance(workflow, list | tuple) or not workflow:
        raise BadTemplate("workflow", "it is a list of steps")
    steps: dict[str, Step] = {}
    for index, entry in enumerate(workflow):
        where = f"workflow[{index}]"
        if not isinstance(entry, Mapping):
            raise BadTemplate(where, "a step is a mapping")
        step = _step(entry, where, index)
        _check_places(step, steps, where)
        steps[step.name] = step
    return tuple(steps.values())


def _step(data: Mapping[str, Any], where: str, index: int) -> Step:
    input, on_error = data.get("input"), data.get("on_error", "stop")
    if not isinstance(input, Mapping | None):
        raise BadTemplate(f"{where}.input", "it is a mapping")
    if on_error not in ("stop", "continue"):
        raise BadTemplate(f"{where}.on_error", f"{on_error!r} is neither stop nor continue")
    name = str(data.get("step") or index + 1)
    arguments = templates.json(input or {}, f"{where}.input")
    return Step(name, tool_id(data, where), arguments, _when(data.get("when"), f"{where}.when"), on_error == "continue")


def _when(value: Any, where: str) -> JsonTemplate | Placeholder | None:
    if value is None:
        return None
    if isinstance(value, str) and "{{" not in value:
        return templates.place(value.strip(), where)
    return templates.json(value, where)


def _check_places(step: Step, earlier: Container[str], where: str) -> None:
    if step.name in earlier:
        raise BadTemplate(where, f"two steps are called {step.name!r}")
    for one in step.places:
        if one.root not in ("args", "steps"):
            raise BadTemplate(where, f"{one.path!r} begins neither with args nor with steps")
        if one.root == "steps" and (len(one.steps) == 1 or str(one.steps[1]) not in earlier):
            raise BadTemplate(where, f"{one.path!r} speaks of no earlier step")


@dataclass(frozen=True, slots=True)
class Workflow:
    """Steps that are done one after the other."""

    steps: tuple[Step, ...]
    allowed: tuple[str, ...]

    async def run(self, ctx: Context, values: Mapping[str, Any]) -> dict[str, Any]:
        """Does the steps; what each gave, by its name.

        Raises:
            ToolFailure: a step failed that may not, with its code.
        """
        done: dict[str, Any] = {}
        for number, step in enumerate(self.steps):
            _check_member(step.tool, self.allowed)
            seen = {"args": values, "steps": done}
            ctx.progress(step.name, number / len(self.steps))
            if step.wanted(seen):
                done[step.name] = await _called(ctx, step.name, step.tool, step.input.fill(seen))
            else:
                done[step.name] = await ctx.step(step.name, lambda: {"ok": True, "skipped": True})
            failure = done[step.name].get("failure")
            if failure is not None and not step.goes_on:
                raise _stopped(step.name, failure, done)
        return {"steps": done}


def _stopped(name: str, failure: Mapping[str, Any], done: Mapping[str, Any]) -> ToolFailure:
    return ToolFailure(
        failure["code"],
        f"Step '{name}' failed: {failure['message']}",
        retryable=failure["retryable"],
        hint=failure["hint"],
        metadata={"step": name, "steps": dict(done)},
    )


# A helper decides


def _helper(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith(HELPERS) or value == HELPERS:
        raise BadTemplate("orchestration", f"it names a helper: {HELPERS}<id>")
    return value.removeprefix(HELPERS)


@dataclass(frozen=True, slots=True)
class DirectedWorkflow:
    """A helper that decides, after each call, what to call next."""

    definition: ToolDefinition
    helper: str
    allowed: tuple[str, ...]
    settings: RunnerSettings

    async def run(self, ctx: Context, values: Mapping[str, Any]) -> Any:
        """Make the calls that the helper decides on until it is done.

        Raises:
            ToolFailure: it fails, returns something else, or never ends.
        """
        done: list[dict[str, Any]] = []
        for turn in range(1, MOST_TURNS + 1):
            decision = await ctx.step(f"turn {turn}", lambda: self._next_decision(values, done))
            if "done" in decision:
                return decision["done"]
            calls = decision["calls"] if "calls" in decision else [decision["call"]]
            made = [self._call(call) for call in calls]
            pending = [
                _called(ctx, f"turn {turn}, call {number}", tool, args) for number, (tool, args) in enumerate(made, 1)
            ]
            results = await asyncio.gather(*pending)
            done.extend({**call, **one} for call, one in zip(calls, results, strict=True))
        raise ToolFailure("failed", f"Helper '{self.helper}' was not done after {MOST_TURNS} turns")

    async def _next_decision(self, values: Mapping[str, Any], done: list[dict[str, Any]]) -> dict[str, Any]:
        if self.settings.helper is None:
            raise ToolFailure("unavailable", "Helpers cannot be run here", retryable=False)
        decision = await self.settings.helper(self.definition, self.helper, {"args": values, "steps": done})
        if not isinstance(decision, Mapping) or not _is_decision(decision):
            message = f"Helper '{self.helper}' returned neither a call, nor calls, nor that it is done"
            raise ToolFailure("failed", message)
        return dict(decision)

    def _call(self, data: Mapping[str, Any]) -> tuple[str, Any]:
        try:
            tool = tool_id(data, f"Helper '{self.helper}'")
        except BadTemplate as error:
            raise ToolFailure("failed", str(error)) from None
        _check_member(tool, self.allowed)
        return tool, data.get("args") or {}


def _is_decision(data: Mapping[str, Any]) -> bool:
    calls = data.get("calls", [data.get("call")])
    return "done" in data or (isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls))

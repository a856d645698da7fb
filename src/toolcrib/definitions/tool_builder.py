"""Commands as tools: what a file says of each, with the checks before it, the shaping around it and what is known.

No way leads around a command's checks: they are part of the tool.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from toolcrib.context import Context
from toolcrib.definitions import knowledge, transforms, validators
from toolcrib.definitions.argument_checks import ArgumentFinding
from toolcrib.definitions.definition import Command, Helper, ToolDefinition
from toolcrib.definitions.examples import examples_of
from toolcrib.definitions.filters import filtered
from toolcrib.definitions.mcp_servers import Servers, address_of, command_of, mcp_tool
from toolcrib.definitions.origin_labels import labels_of
from toolcrib.definitions.registry import RegistryEntry, input_examples
from toolcrib.definitions.runners import BadTemplate, Runner, protocol, runner
from toolcrib.definitions.values import text, texts
from toolcrib.errors import BadTool, ToolFailure
from toolcrib.policy import UnfitArgument, urls
from toolcrib.tool import Tool
from toolcrib.types import Annotations, Block, Effect, Knowledge, Limits, Result, block
from toolcrib.yaml import thaw

if TYPE_CHECKING:
    from toolcrib.sources.mcp import OfferedTool

OPEN: Mapping[str, Any] = {"type": "object", "properties": {}}
log = logging.getLogger("toolcrib.files")
trace = logging.getLogger("toolcrib.trace")

MOST_WARNED = 1000
"""Of so many calls it is known what validators warned of, while they have not ended."""

Gate = Callable[[ToolDefinition, Command, Context, Mapping[str, Any]], Awaitable[Result | None]]
"""What stands before a call: it raises where the tool is not well, and gives a result where another stepped in."""


@dataclass(frozen=True, slots=True)
class ToolResources:
    """What tools of files work with.

    `gate` looks at the health of a tool before it runs, `entry` gives what a registry says of it. `begun` holds the
    programs of untrusted files that somebody agreed to, as long as this process lives: after a restart, and on every
    node of a cluster, it is asked once more, which is a nuisance and no danger. A list of them that outlived the
    process would be one more thing that a stranger could write to. `warned` has what validators warned of, by call.
    """

    settings: protocol.RunnerSettings
    sandboxes: validators.CodeSandboxes
    servers: Servers
    gate: Gate
    renew: Callable[[str, str], Tool | None]
    entry: Callable[[str], RegistryEntry | None]
    begun: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    warned: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def warn(self, call: str, findings: list[dict[str, Any]]) -> None:
        """Keeps what validators warn of until the result of the call is there; of calls that never run, the last."""
        self.warned[call] = findings
        if len(self.warned) > MOST_WARNED:
            del self.warned[next(iter(self.warned))]


def tools(definition: ToolDefinition, resources: ToolResources) -> list[Tool]:
    """All tools of a file. A command that does not hold is left out, and the others stay."""
    made: dict[str, Tool] = {}
    if definition.status in ("invalid", "not_a_tool"):
        return []
    parts: list[Command | Helper] = [*_commands(definition, resources), *_exposed(definition)]
    for part in parts:
        try:
            tool = (
                _tool(definition, part, resources)
                if isinstance(part, Command)
                else _of_helper(definition, part, resources)
            )
        except (BadTool, BadTemplate) as error:
            log.warning("%s: %s", definition.path, error)
            continue
        if tool is not None:
            made.setdefault(tool.id, tool)
    return list(made.values())


def _commands(definition: ToolDefinition, resources: ToolResources) -> Iterator[Command]:
    """Yield the commands that are listed: those of the file, and those of its server that the file does not hide."""
    sound = [one for one in definition.commands if one.broken is None]
    if definition.type != "mcp":
        yield from sound
        return
    offered = resources.servers.offered(definition)
    listed = any(one.listed for one in definition.commands)
    all = definition.tool.get("expose", "listed" if listed else "all") == "all"
    there = None if offered is None else {one.name for one in offered}
    yield from (one for one in sound if (all or one.listed) and (there is None or mcp_tool(one) in there))
    known = {mcp_tool(one) for one in definition.commands}
    for one in offered or () if all else ():
        if one.name not in known:
            yield Command(one.legal_name, one.description, fields={"mcp_tool": one.name}, listed=False)


def _tool(definition: ToolDefinition, command: Command, resources: ToolResources) -> Tool | None:
    offered = _offered(definition, command, resources) if definition.type == "mcp" else None
    if definition.type == "mcp":
        made = _served(definition, command, offered, resources)
    else:
        made = runner(definition, command, resources.settings)
    if made is None and not command.listed:
        return None
    schema = command.input_schema or OPEN if made is None else made.input_schema
    description = command.description or ("" if offered is None else offered.description.strip())
    return Tool(
        **_identity(definition, command.name),
        description=description or f"{command.name} of {definition.name}",
        category=text(definition.tool.get("category")) or None,
        tags=texts(definition.tool.get("tags")),
        labels=labels_of(definition, command),
        input_schema=thaw(schema),
        **({} if made is None else _running(definition, command, made, resources)),
        **({} if offered is None else _described(definition, command, offered)),
        knowledge=_knowledge(definition, command, schema, resources),
        prepare=_prepare(definition, command, resources),
        validate=_validate(definition, command, resources),
        renew=lambda: resources.renew(definition.id, command.name),
    )


def _identity(definition: ToolDefinition, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": definition.id,
        "metadata": {"definition": {"id": definition.id, "version": definition.version, "sha256": definition.sha256}},
        "source": "files" if definition.trusted else f"pack:{definition.id}",
        "trusted": definition.trusted,
    }


def _running(definition: ToolDefinition, command: Command, made: Runner, resources: ToolResources) -> dict[str, Any]:
    return {
        "capabilities": made.capabilities,
        "effect": made.effect,
        "limits": Limits(timeout_s=made.timeout_s),
        "run": _body(definition, command, made, resources),
        "resumes": made.resumes,
        "reconcile": _reconcile(definition, command, made, resources) if definition.type == "mcp" else None,
    }


# Tools of servers


def _offered(definition: ToolDefinition, command: Command, resources: ToolResources) -> OfferedTool | None:
    """What the server says of a command. Where nobody vouches for the file, that counts only for tools that are known
    from nowhere else: a tool that was looked at and accepted must not become another when its server starts.
    """
    if not definition.trusted and command in definition.commands:
        return None
    name = mcp_tool(command)
    return next((one for one in resources.servers.offered(definition) or () if one.name == name), None)


def _served(
    definition: ToolDefinition, command: Command, offered: OfferedTool | None, resources: ToolResources
) -> Runner | None:
    """A command that a server runs. What the server says of its arguments counts before what the file says."""
    url, argv = address_of(definition), command_of(definition)
    if url is None and not text(definition.specific.get("server_command")):
        return None
    effect = protocol.effect(definition, command, _effect(definition, offered))

    async def run(ctx: Context, values: Mapping[str, Any]) -> Result:
        name = mcp_tool(command)
        return await resources.servers.call(definition, name, values, ctx, repeatable=effect != "once")

    needs = [_egress(url)] if url is not None else [f"exec:cmd:{argv[0]}"] if argv else []
    return Runner(
        run,
        command.input_schema or OPEN if offered is None else offered.input_schema,
        protocol.capabilities(definition, command, *needs),
        effect,
        protocol.timeout_s(command, definition),
        argv=(lambda values: list(argv)) if url is None and argv else None,
    )


def _egress(url: str) -> str:
    try:
        target = urls.canonical(url)
    except UnfitArgument as problem:
        raise BadTemplate("connection.url", str(problem)) from None
    return f"net:egress:{target.host if (target.scheme, target.port) == ('https', 443) else target.text}"


def _described(definition: ToolDefinition, command: Command, offered: OfferedTool) -> dict[str, Any]:
    """What the server says of a tool. What it says of the result holds as long as nobody shapes that."""
    shaped = transforms.processors(definition, command.name, "after")
    return {
        "title": offered.title,
        "annotations": _annotations(offered),
        "output_schema": None if shaped else offered.output_schema,
    }


def _annotations(offered: OfferedTool) -> Annotations:
    """Return the annotations of a tool; one that claims to be read-only and destructive counts as destructive."""
    annotations = offered.annotations
    return replace(annotations, read_only=False) if annotations.destructive else annotations


def _effect(definition: ToolDefinition, offered: OfferedTool | None) -> Effect:
    """Return the effect that a server declares, if the file that names it is trusted."""
    if offered is None or not definition.trusted:
        return "once"
    annotations = _annotations(offered)
    return "read" if annotations.read_only else "idempotent" if annotations.idempotent else "once"


# Around a call


def _prepare(definition: ToolDefinition, command: Command, resources: ToolResources) -> Any:
    async def prepare(ctx: Context, values: Mapping[str, Any]) -> Mapping[str, Any]:
        with _marking(definition):
            return await transforms.before(definition, command.name, values, resources.sandboxes)

    return prepare if transforms.processors(definition, command.name, "before") else None


def _validate(definition: ToolDefinition, command: Command, resources: ToolResources) -> Any:
    async def validate(ctx: Context, values: Mapping[str, Any]) -> None:
        verdict = await validators.validate(definition, command.name, values, resources.sandboxes)
        if not verdict.valid:
            with _marking(definition):
                raise validators.refusal(definition, command.name, verdict)
        for warning in verdict.findings:
            log.warning("%s.%s: %s", definition.id, command.name, warning)
        if verdict.findings:
            resources.warn(ctx.id, [finding.data() for finding in verdict.findings])

    return validate if any(validators.covers(one, command.name) for one in definition.validators) else None


def _body(definition: ToolDefinition, command: Command, made: Runner, resources: ToolResources) -> Any:
    async def run(ctx: Context, values: Mapping[str, Any]) -> Result:
        with _marking(definition):
            other = await resources.gate(definition, command, ctx, values)
            if other is not None:
                return _marked(definition, other)
            await _agreed(definition, made, values, ctx, resources)
            result = await _finished(definition, command, _as_result(await made.run(ctx, values)), resources)
            warned = resources.warned.pop(ctx.id, None)
            return result if warned is None else result.but(metadata={**result.metadata, "findings": warned})

    return run


def _reconcile(definition: ToolDefinition, command: Command, made: Runner, resources: ToolResources) -> Any:
    async def reconcile(ctx: Context, **values: Any) -> Result | None:
        if not _begun(definition, made, values, resources):
            return None  # nothing is started unasked, only to ask it what happened
        with _marking(definition):
            outcome = await resources.servers.reconcile(definition, ctx)
            return None if outcome is None else await _finished(definition, command, outcome, resources)

    return reconcile


async def _agreed(
    definition: ToolDefinition, made: Runner, values: Mapping[str, Any], ctx: Context, resources: ToolResources
) -> None:
    """A program of a file that nobody vouches for asks before its first start, and shows what would be started."""
    if _begun(definition, made, values, resources) or made.argv is None:
        return
    argv = made.argv(values)
    answer = await ctx.ask(
        f"Start {argv[0]} for {definition.id}?", kind="confirm", resume="pass", data={"argv": argv}, key="files:start"
    )
    if not answer.accepted:
        raise ToolFailure("declined", answer.reason or f"{argv[0]} was not started")
    resources.begun.add(_start(definition, argv))


def _begun(definition: ToolDefinition, made: Runner, values: Mapping[str, Any], resources: ToolResources) -> bool:
    """True if what would be started needs no agreement, or has it."""
    if definition.trusted or made.argv is None:
        return True
    return _start(definition, made.argv(values)) in resources.begun


def _start(definition: ToolDefinition, argv: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """What somebody agrees to: a program of this very file, and of a server all of its arguments."""
    return definition.sha256, tuple(argv if definition.type == "mcp" else argv[:1])


async def _finished(definition: ToolDefinition, command: Command, result: Result, resources: ToolResources) -> Result:
    """The result as the processors make it and as the model is shown it."""
    if result.failure is not None:
        return _marked(definition, result)
    shaped = await transforms.after(definition, command.name, result.data, resources.sandboxes)
    return _marked(definition, _for_model(definition, command, _reshaped(result, shaped), resources))


def _as_result(value: Any) -> Result:
    if isinstance(value, Result):
        return value
    if isinstance(value, list) and value and all(isinstance(one, Block) for one in value):
        return Result(content=value)
    return Result(value)


def _reshaped(result: Result, shaped: transforms.ShapedData) -> Result:
    """Return a result with its shaped data; its text is then no longer true, but its media still are."""
    if shaped.warnings:
        metadata = {**result.metadata, "warnings": list(shaped.warnings)}
        return result.but(metadata=metadata)
    if shaped.data is result.data:
        return result
    shows = [one for one in result.content if one.get("type") not in ("text", "json")]
    content = [_shown(shaped.data), *shows] if shows else ()
    return result.but(data=shaped.data, content=content)


def _shown(data: Any, audience: tuple[str, ...] | None = None) -> Block:
    return block("text", audience, text=data) if isinstance(data, str) else block("json", audience, value=data)


def _for_model(definition: ToolDefinition, command: Command, result: Result, resources: ToolResources) -> Result:
    """Filter what the model reads; the log keeps all."""
    entry = resources.entry(f"{definition.id}.{command.name}")
    filter = command.filter or (None if entry is None else entry.filter)
    if filter is None:
        return result
    data = result.data if result.data is not None or not result.content else Result(content=result.content).text
    left = filtered(data, filter)
    if left.filter_type in ("none", "unknown"):
        return result
    others = [Block({**one, "audience": ["user"]}) for one in result.content]
    statistics = {name: value for name, value in left._asdict().items() if name != "filtered"}
    content, metadata = [_shown(left.filtered, ("model",)), *others], {**result.metadata, "filter": statistics}
    return result.but(content=content, metadata=metadata)


@contextmanager
def _marking(definition: ToolDefinition) -> Iterator[None]:
    """Says in the log of a call that fails which file it was."""
    try:
        yield
    except ToolFailure as error:
        error.metadata = {**error.metadata, "definition": definition.sha256}
        raise


def _marked(definition: ToolDefinition, result: Result) -> Result:
    result.metadata = {**result.metadata, "definition": definition.sha256}
    return result


# What is known


def _knowledge(
    definition: ToolDefinition, command: Command, schema: Mapping[str, Any], resources: ToolResources
) -> Knowledge:
    def hint(code: str, message: str, metadata: Mapping[str, Any]) -> str | None:
        findings = [ArgumentFinding(one["path"], one["code"], one["message"]) for one in metadata.get("findings", ())]
        return knowledge.hint(definition, command.name, code, message, findings)

    def help(topic: str | None) -> str:
        return knowledge.tool_help(definition, command.name, topic, parameters=schema.get("properties", ()))

    entry = resources.entry(f"{definition.id}.{command.name}")
    worked = [one.fields for one in examples_of(definition) if one.command == command.name and "output" in one.fields]
    return Knowledge((entry and entry.examples) or input_examples(worked), hint=hint, help=help)


# Helpers


def _exposed(definition: ToolDefinition) -> list[Helper]:
    exposed = definition.tool.get("expose_helpers") if definition.schema_version == 2 else None
    return [one for one in definition.helpers if exposed is True or one.id in texts(exposed)]


def _of_helper(definition: ToolDefinition, helper: Helper, resources: ToolResources) -> Tool:
    async def run(ctx: Context, values: Mapping[str, Any]) -> Result:
        with _marking(definition):
            return _marked(
                definition, Result(await validators.helper(definition, helper.id, values, resources.sandboxes))
            )

    return Tool(
        **_identity(definition, helper.id),
        description=helper.description or f"The helper {helper.id} of {definition.name}",
        input_schema=OPEN,
        effect="read",
        run=run,
        renew=lambda: resources.renew(definition.id, helper.id),
    )

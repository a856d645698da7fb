"""Review of a crib: what in its policy, files, agents and settings does nothing, or not what it looks like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.accounts import AccountSettings
from toolcrib.findings import Finding, Severity, in_order
from toolcrib.policy import capabilities, globs, rules_of
from toolcrib.policy.rule_policy import Layers
from toolcrib.policy.schema_paths import names
from toolcrib.schema import nearest
from toolcrib.schema.slips import slips
from toolcrib.sources import Source, SourceReference
from toolcrib.sources.coding_agents import hook_tools
from toolcrib.sources.functions import needed_deps, takes_context
from toolcrib.store.shared import SharedStore
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.crib import Crib

UNSURE = ("NO_TOOL", "NO_FACT", "NO_SOURCE", "NO_CAPABILITY", "NO_NAMESPACE", "NO_SELECTION", "NO_DECLARATION")
"""What may be right after all, once a source that has not answered yet brings its tools."""


async def review(crib: Crib) -> list[Finding]:
    """Return all findings of a crib that was started: errors first, then by file and line."""
    findings = [*policy_findings(crib), *setting_findings(crib), *tool_findings(crib), *agent_findings(crib)]
    findings += await source_findings(crib)
    return in_order(tempered(crib, findings))


def policy_findings(crib: Crib) -> list[Finding]:
    """Return what is wrong with the policy; nothing is known of one that is not made of rules."""
    policy = rules_of(crib.pipeline.policy)
    layers = policy.layers if isinstance(policy, Layers) else () if policy is None else (policy,)
    tools, agents = all_tools(crib), list(_agent_names(crib))
    findings = [one for layer in layers for one in layer.check(tools, agents)]
    if not any(one.code in ("NO_TOOL", "NO_CAPABILITY") for one in findings):
        return findings
    guarded = [one for layer in layers for one in layer.check([*tools, *hook_tools()], agents)]
    guards_alone = not [one for one in crib.registry.sources if one.name != "builtin"]
    return list(_with_hooks(findings, guarded, "info" if guards_alone else "warning"))


def _with_hooks(findings: Sequence[Finding], guarded: Sequence[Finding], severity: Severity) -> Iterator[Finding]:
    """What is about steps of coding agents is told as that: a crib without sources is for their hooks alone."""
    about = {one.line for one in findings if one.code == "NO_TOOL"}
    for one in findings:
        missing = one.code in ("NO_TOOL", "NO_CAPABILITY") and not any(_same(one, other) for other in guarded)
        hint = f"{one.message}, but for what coding agents do (`toolcrib guard`)"
        yield replace(one, severity=severity, message=hint, nearest=None) if missing else _named(one, guarded)
    yield from (one for one in guarded if one.line in about and not any(_same(one, other) for other in findings))


def _same(one: Finding, other: Finding) -> bool:
    return (one.code, one.line, one.message) == (other.code, other.line, other.message)


def _named(one: Finding, guarded: Iterable[Finding]) -> Finding:
    """The same with what was probably meant, where only the steps of coding agents are like it."""
    close = next((other.nearest for other in guarded if _same(one, other)), None)
    return one if one.nearest is not None or close is None else replace(one, nearest=close)


def all_tools(crib: Crib) -> list[Tool]:
    """Return the tools of all sources, and those that are built into agents."""
    own = [] if crib.agents is None else list(crib.agents.built_in().values())
    tools = crib.catalog.view(("*",)).tools
    known = {tool.id for tool in tools}
    return [*tools, *(tool for tool in own if tool.id not in known)]


def _agent_names(crib: Crib) -> Iterable[str]:
    """The names of the agents; a crib without agents has none."""
    return () if crib.agents is None else crib.agents.registry


def setting_findings(crib: Crib) -> Iterator[Finding]:
    """Yield settings that name tools, namespaces, sources or secrets that are not there."""
    yield from crib.origin.findings
    ids = [tool.id for tool in crib.catalog.view(("*",)).tools]
    for pattern in crib.registry.unused():
        yield _setting(crib, "NO_DECLARATION", ("declare", pattern), f"declare: {pattern} fits no tool", pattern, ids)
    arguments = sorted({name for tool in crib.catalog.view(("*",)).tools for name in names(tool.input_schema)})
    for pattern, key, argument in crib.registry.idle():
        message = f"declare: {pattern}: no tool that it fits has the argument of {key}: {argument}"
        yield _setting(crib, "NO_ARGUMENT", ("declare", pattern), message, argument, arguments)
    yield from _deps(crib)
    yield from _namespaces(crib)
    sources = sorted({*crib.catalog.sources(), *(source.name for source in crib.registry.sources)})
    for number, name in enumerate(crib.catalog.precedence):
        if name not in sources:
            message = f"precedence: there is no source '{name}'"
            yield _setting(crib, "NO_SOURCE", ("precedence", number), message, name, sources)
    if not Path(crib.folders.workspace).is_dir():
        message = f"workspace: there is no folder {crib.folders.workspace}"
        yield _setting(crib, "NO_FOLDER", ("workspace",), message, "", ())


def _namespaces(crib: Crib) -> Iterator[Finding]:
    """Namespaces that settings name and no tool has, and names that hide one."""
    namespaces = crib.catalog.namespaces()
    if crib.default_namespaces != ("default",):
        for number, name in enumerate(crib.default_namespaces):
            if not _is_namespace(crib, name):
                message = f"default_namespaces: no tool has the namespace '{name}'"
                yield _setting(crib, "NO_NAMESPACE", ("default_namespaces", number), message, name, namespaces)
    for alias, name in crib.catalog.aliases.items():
        if name not in namespaces:
            message = f"namespace_aliases: {alias} stands for '{name}', a namespace that no tool has"
            yield _setting(crib, "NO_NAMESPACE", ("namespace_aliases", alias), message, name, namespaces)
        if alias in namespaces:
            message = f"namespace_aliases: {alias} is a namespace itself, whose tools no session can open by that name"
            yield _setting(crib, "HIDDEN_NAMESPACE", ("namespace_aliases", alias), message, alias, ())


def _deps(crib: Crib) -> Iterator[Finding]:
    """Dependencies that no tool wants, by name or by type; of tools that take a context nobody knows it."""
    tools = crib.catalog.view(("*",)).tools
    wanted = {name: kind for tool in tools for name, kind in needed_deps(tool).items()}
    kinds = tuple(kind for name, kind in wanted.items() if name not in crib.pipeline.deps and isinstance(kind, type))
    unsure = any(takes_context(tool) for tool in tools if tool.source != "builtin")
    for name in crib.pipeline.deps.names:
        if name not in wanted and not isinstance(crib.pipeline.deps[name], kinds):
            message = f"deps: no tool has a parameter for '{name}'"
            message += " (one that takes a Context may use it)" if unsure else ""
            finding = _setting(crib, "NO_DEPENDENT", ("deps", name), message, name, wanted)
            yield replace(finding, severity="info" if unsure else "warning")


def _is_namespace(crib: Crib, name: str) -> bool:
    return any(map(globs.text(crib.catalog.aliases.get(name, name)), crib.catalog.namespaces()))


def _setting(
    crib: Crib, code: str, place: tuple[str | int, ...], message: str, name: str, known: Iterable[str]
) -> Finding:
    origin = crib.origin
    return Finding(code, "warning", message, "config", origin.file, origin.line_at(place), _close(name, known))


def tool_findings(crib: Crib) -> Iterator[Finding]:
    """Yield what tools say of themselves and does not hold; definition files are reviewed where they are read."""
    for tool in crib.catalog.view(("*",)).tools:
        yield from (Finding("TOOL_WARNING", "warning", warning, "config") for warning in tool.warnings)
        yield from _capabilities(tool)
        yield from _schemas(tool)
        known = names(tool.input_schema)
        if tool.function is None or tool.input_schema.get("additionalProperties") is not False:
            continue
        for name in dict.fromkeys(name for example in tool.knowledge.examples for name in example.arguments):
            if name not in known:
                close = nearest(name, known, 1)
                message = f"{tool.id}: an example has '{name}', which is none of its arguments"
                yield Finding("BAD_EXAMPLE", "warning", message, "config", nearest=close[0] if close else None)


def _schemas(tool: Tool) -> Iterator[Finding]:
    """Words in schemas of tools of programs that do nothing; nobody here can mend what strangers write."""
    for key in ("input_schema", "output_schema") if tool.function is not None else ():
        for slip in slips(getattr(tool, key)):
            message = f"{tool.id}: {key}: {'.'.join(map(str, slip.path))}: {slip.message}"
            yield Finding("BAD_KEYWORD", "warning", message, "config", nearest=slip.nearest)


def _capabilities(tool: Tool) -> Iterator[Finding]:
    """Capabilities of a family that is a well-known one but for a slip of the pen; grants of that do not cover them."""
    for one in tool.capabilities if tool.function is not None else ():
        family = ":".join(one.split(":")[:2])
        for known in capabilities.FAMILIES:
            if _is_slip(family, known):
                message = f"{tool.id}: capability {one} is of a family that no preset and no toolkit knows"
                yield Finding("UNKNOWN_CAPABILITY", "warning", message, "config", nearest=known)


def _is_slip(text: str, meant: str) -> bool:
    """True if one letter is missing, too many or another, or two neighbours stand in each other's place."""
    if len(text) == len(meant):
        places = [number for number, pair in enumerate(zip(text, meant, strict=True)) if pair[0] != pair[1]]
        swapped = len(places) == 2 and sorted(text) == sorted(meant) and places[1] - places[0] == 1
        return len(places) == 1 or swapped
    short, long = sorted((text, meant), key=len)
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def agent_findings(crib: Crib) -> list[Finding]:
    """Return what is wrong with the agents, held against the tools that there are."""
    return [] if crib.agents is None else crib.agents.findings(all_tools(crib))


async def source_findings(crib: Crib) -> list[Finding]:
    """Return what sources say of the files that their tools come from."""
    findings: list[Finding] = []
    for source in crib.registry.sources:
        own = [*await source.findings(), *_strange_account(crib, source)]
        findings += [crib.origin.located(one, source) for one in own]
        findings += [one for reference in await source.references() for one in _reference(crib, reference)]
    return findings


def _strange_account(crib: Crib, source: Source) -> Iterator[Finding]:
    """An account that a source is used with, and that is almost one that is described."""
    wish = source.account
    if wish is None or crib.accounts.named(wish["name"]) != AccountSettings(**wish):
        return
    others = [one.name for one in crib.accounts.settings if one.name != wish["name"]]
    if close := _close(wish["name"], others):
        message = f"{source.name}: nothing but this source describes the account '{wish['name']}'"
        yield Finding("NO_ACCOUNT", "warning", message, "config", nearest=close, setting=("account",))


def _reference(crib: Crib, reference: SourceReference) -> Iterator[Finding]:
    """A tool or an account that a file names and the crib does not have."""
    name, where = reference.name, (reference.file, reference.line)
    if reference.kind == "account":
        known = [one.name for one in crib.accounts.settings]
        if name not in known:
            message = f"there is no account '{name}', so calls fail"
            yield Finding("NO_ACCOUNT", "warning", message, "config", *where, _close(name, known))
        return
    namespace, dot, inner = name.partition(".")
    ids = [tool.id for tool in crib.catalog.view(("*",)).tools]
    known = ids if dot else list(crib.catalog.namespaces())
    if f"{namespace.lower()}{dot}{inner}" not in known:
        message = f"there is no tool '{name}' to fall back to"
        yield Finding("NO_TOOL", "warning", message, "config", *where, _close(name, known))


def _close(name: str, known: Iterable[str]) -> str | None:
    close = nearest(name, known, 1)
    return close[0] if close else None


def start_findings(crib: Crib) -> Iterator[Finding]:
    """Yield what keeps a crib from being served, though its tools can be looked at."""
    origin = crib.origin
    if crib.pipeline.engine is not None and not isinstance(crib.store, SharedStore):
        message = f"engine: it needs a store that machines can share (postgresql://...), not {crib.store.url}"
        yield Finding("UNFIT_STORE", "error", message, "config", origin.file, origin.line_at(("engine",)))
    problem = crib.pipeline.vault.problem() if crib.pipeline.vault.given else None
    if problem is not None:
        yield Finding("NO_SECRET", "error", problem, "config", origin.file, origin.line_at(("secret_key",)))


def tempered(crib: Crib, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings; while sources are away, what is only missing is not yet a mistake."""
    away = sorted(source.name for source, health in crib.registry.unwell() if health.status == "unavailable")
    waits = crib.registry.pending or bool(away)
    which = f"{', '.join(away)} may bring it" if away else "a source that has not answered yet may bring it"
    for one in findings:
        missing = waits and one.code in UNSURE
        yield replace(one, severity="info", message=f"{one.message} ({which})") if missing else one

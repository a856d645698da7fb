"""`FileSource`: the tools of definition files, as a crib takes them and as people look at them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from toolcrib.definitions import examples, tool_builder, transforms, validators
from toolcrib.definitions.code_checks import check_code, check_members, check_speed, check_verdicts, references
from toolcrib.definitions.definition import Language, ToolDefinition
from toolcrib.definitions.health import HealthMonitor, HealthReport
from toolcrib.definitions.library import Library, UnresolvedTool
from toolcrib.definitions.lint import one_of
from toolcrib.definitions.mcp_servers import Servers, lacking, mcp_tool, query_parameters
from toolcrib.definitions.reader import read
from toolcrib.definitions.registry import Registry, RegistryEntry
from toolcrib.definitions.roots import DefinitionRoot
from toolcrib.definitions.runners import meta, protocol
from toolcrib.errors import ToolcribError, ToolFailure
from toolcrib.findings import Finding
from toolcrib.sandbox import Sandbox, Sandboxes
from toolcrib.schema import nearest
from toolcrib.sources import OK, Source, SourceReference
from toolcrib.sources import Health as Told
from toolcrib.tool import Tool
from toolcrib.types import Effect
from toolcrib.yaml import YamlProblem

LOOK_S = 1.0
"""How often folders are looked through for files that came, went or changed while nobody called them."""

AGAIN_S = 60.0
"""Seconds until a server that could not list its tools is asked again."""

log = logging.getLogger("toolcrib.files")


class FileSource(Source):
    """The tools of the definition files in some roots, those of a pack first.

    `environ` holds the declared variables, `workspace` is where programs start; `values` gives parameters of
    servers by the id of their file. `registry` is a file that says which tools are listed for whom, and how.

    Raises:
        Refused: a root is relative without a project, or there is no such pack.
    """

    name = "files"

    def __init__(  # noqa: PLR0913 - all by name
        self,
        roots: Iterable[DefinitionRoot | Path | str],
        pack: str | None = None,
        *,
        project: Path | None = None,
        trusted_packs: Collection[str] = (),
        environ: Mapping[str, str] | None = None,
        workspace: Path | None = None,
        values: Mapping[str, Mapping[str, str]] | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.library = Library(roots, pack, project=project, trusted_packs=trusted_packs)
        self.registry = registry
        self._workers = Sandboxes()
        self._languages = _Languages(self._workers)
        self.sandboxes = validators.CodeSandboxes(self._languages)
        variables = os.environ if environ is None else environ
        settings = protocol.RunnerSettings(
            environ=variables, workspace=workspace, helper=self._helped, effect_of=self._effect_of
        )
        self._values = values or {}
        self._servers = Servers(variables, self._values, self._relisted)
        self._health = HealthMonitor(settings, self.sandboxes, self._servers, self.resolve)
        self.resources = tool_builder.ToolResources(
            settings, self.sandboxes, self._servers, self._health.gate, self._renew, self._entry
        )
        self._changed: Callable[[Iterable[Tool]], None] | None = None
        self.definitions: dict[str, ToolDefinition] = {}
        self._tools: dict[str, dict[str, Tool]] = {}
        self._broken: dict[Path, ToolDefinition] = {}
        self._taken = 0
        self._beside: dict[str, asyncio.Task[Any]] = {}
        self._stale: set[str] = set()
        self._checked: dict[Path | None, tuple[ToolDefinition, ToolDefinition]] = {}

    # As a source

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Return its tools. A program is started only for files whose tools are listed only while they are healthy."""
        await asyncio.to_thread(self._take, await self.library.alist())
        self._changed = changed
        self._do_beside("look", self._look())
        self._look_after()
        return self._all()

    def health_of(self, tool: Tool | None) -> Told:
        """Return the last known health of the tool."""
        definition = None if tool is None else self.definitions.get(tool.namespace)
        return OK if definition is None else self._health.known(definition)

    async def stop(self) -> None:
        """Stops its servers."""
        self._changed = None
        tasks = list(self._beside.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._servers.close()
        await self._workers.close()

    def _do_beside(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        task = self._beside[name] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda done: self._beside.pop(name) if self._beside.get(name) is done else None)

    async def _look(self) -> None:
        """Scan the folders from time to time. What a call has read meanwhile is newer than the scan."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                taken = self._taken
                definitions = await self.library.alist()
                if taken == self._taken and self._take(definitions):
                    self._tell()
            except Exception:  # whatever a file does, the next look may find it better
                log.exception("definition files could not be looked through")
            self._look_after()
            self._introduce()

    def _look_after(self) -> None:
        """Check, in the background, those that are listed only while they are healthy."""
        for key, one in self.definitions.items():
            if self._health.due(one) and f"health {key}" not in self._beside:
                self._do_beside(f"health {key}", self._looked_at(one))

    def _introduce(self) -> None:
        """Asks servers of whose tools their files know none: no call could ever start them."""
        for key, one in self.definitions.items():
            if self._is_unknown(key, one) and f"server {key}" not in self._beside:
                self._do_beside(f"server {key}", self._introduced(one))

    def _is_unknown(self, key: str, definition: ToolDefinition) -> bool:
        silent = definition.type == "mcp" and definition.trusted and not self._tools[key]
        return silent and not definition.commands and self._servers.offered(definition) is None

    async def _introduced(self, definition: ToolDefinition) -> None:
        try:
            await self._servers.ask(definition)
        except ToolFailure as error:
            log.warning("%s: %s", definition.id, error.message)
            await asyncio.sleep(AGAIN_S)

    async def _looked_at(self, definition: ToolDefinition, *, fresh: bool = False) -> HealthReport:
        """Check the health of a tool, and list or hide it if that changed."""
        before = self._health.skipped(definition)
        report = await self._health.check(definition, fresh=fresh)
        if self._health.skipped(definition) != before:
            await self._remake(definition.id.lower())
        return report

    # What there is

    def _all(self) -> list[Tool]:
        return [tool for made in self._tools.values() for tool in made.values()]

    def _take(self, definitions: Iterable[ToolDefinition]) -> bool:
        """Build the tools of new and changed files, and return True if there were any."""
        before, listed = self.definitions, list(definitions)
        now = {one.id.lower(): one for one in listed if one.status in ("ok", "degraded")}
        self._keep_last_good(now, listed)
        moved = [key for key, one in now.items() if before.get(key) is not one]
        gone = [key for key in before if key not in now]
        self.definitions, self.namespaces = now, tuple(now)
        self._taken += 1
        for key in gone:
            del self._tools[key]
            self._servers.forget(before[key].id)
        if moved or gone:
            self._make(moved)
        return bool(moved or gone)

    def _keep_last_good(self, now: dict[str, ToolDefinition], definitions: Iterable[ToolDefinition]) -> None:
        """Keep the last good version of a file that a change broke; that is logged once for each change."""
        known = {one.path: (key, one) for key, one in self.definitions.items() if one.path is not None}
        broken = {one.path: one for one in definitions if one.status == "invalid" and one.path and one.path in known}
        for path, one in broken.items():
            key, last = known[path]
            now.setdefault(key, last)
            if self._broken.get(path) is not one:
                reason = next((each.message for each in one.problems if each.severity == "error"), "it cannot be read")
                log.warning("%s is broken, so the tools of %s stay as they were: %s", path, last.id, reason)
        self._broken = broken

    def _make(self, keys: Iterable[str]) -> None:
        """Makes the tools of some files, and then those made of other tools, which are as grave as the gravest."""
        plain = [key for key in keys if self.definitions[key].type != "meta"]
        metas = self._metas()
        for key in metas:
            self._tools[key] = {}
        for key in (*plain, *metas):
            self._tools[key] = {tool.name: tool for tool in self._given_out(self.definitions[key])}

    def _metas(self) -> Sequence[str]:
        """The tools made of other tools, each behind those that it is made of itself."""
        members = {key: meta.members(one) for key, one in self.definitions.items() if one.type == "meta"}
        ordered: dict[str, None] = {}
        waiting = [(key, False) for key in reversed(members)]
        seen: set[str] = set()
        while waiting:
            key, over = waiting.pop()
            if over:
                ordered[key] = None
            elif key in members and key not in seen:
                seen.add(key)
                waiting.append((key, True))
                waiting += [(one.partition(".")[0], False) for one in members[key]]
        return tuple(ordered)

    def _made(self, definition: ToolDefinition) -> Sequence[Tool]:
        try:
            return tool_builder.tools(definition, self.resources)
        except Exception:  # what nobody thought of in one file must not take away the others
            log.exception("%s cannot be used", definition.path)
            return []

    def _remake(self, key: str) -> asyncio.Future[None]:
        """Rebuild the tools of a file, one rebuild at a time however often it is requested."""
        self._stale.add(key)
        name = f"tools {key}"
        if name not in self._beside or self._beside[name].done():
            self._do_beside(name, self._remade(key))
        return asyncio.shield(self._beside[name])

    async def _remade(self, key: str) -> None:
        while key in self._stale:
            self._stale.discard(key)
            definition = self.definitions.get(key)
            if definition is None:
                return
            # What a server offers is a stranger's text: it is read and compiled beside the loop.
            made = await asyncio.to_thread(self._given_out, definition)
            if self.definitions.get(key) is definition:
                self._tools[key] = {tool.name: tool for tool in made}
                self._make(())
                self._tell()
            elif key in self.definitions:
                self._stale.add(key)

    def _given_out(self, definition: ToolDefinition) -> Sequence[Tool]:
        """Build the tools of a file, unless they are listed only while it is healthy."""
        return [] if self._health.skipped(definition) else self._made(definition)

    def _tell(self) -> None:
        if self._changed is None:
            return
        try:
            self._changed(self._all())
        except ToolcribError as error:
            log.warning("what definition files say now could not be taken: %s", error)

    def _renew(self, id: str, name: str) -> Tool | None:
        """The tool as its file says now; None where the file no longer has it. A look at one file, and no more."""
        try:
            if self.library.moved(id) and self._take(self.library.list()):
                self._tell()
        except Exception:  # the call goes on with what is known
            log.exception("the file of %s could not be looked at", id)
        return self._tools.get(id.lower(), {}).get(name)

    def _relisted(self, id: str) -> asyncio.Future[None]:
        """A server listed its tools."""
        return self._remake(id.lower())

    def _entry(self, tool: str) -> RegistryEntry | None:
        return None if self.registry is None else self.registry.entry(tool)

    def _effect_of(self, tool: str) -> Effect | None:
        namespace, _, name = tool.partition(".")
        tools = self._tools.get(namespace.lower(), {})
        wanted = [tools[name]] if name in tools else [] if name else list(tools.values())
        ranks: list[Effect] = ["read", "idempotent", "once"]
        return max((one.does for one in wanted), key=ranks.index, default=None)

    async def _helped(self, definition: ToolDefinition, helper: str, args: Mapping[str, Any]) -> Any:
        return await validators.helper(definition, helper, args, self.sandboxes)

    # As people look at it

    async def list(self, *, all: bool = False) -> Sequence[ToolDefinition]:
        """Every file, also the invalid ones, with all that is wrong with each."""
        return await self._whole(await self.library.alist(all=all))

    async def resolve(self, id: str) -> ToolDefinition:
        """The definition of that id.

        Raises:
            UnresolvedTool: there is none, or its file is invalid.
        """
        definition = self.library.known(id) or await self.library.aresolve(id)
        return (await self._whole([definition]))[0]

    async def resolve_many(self, ids: Iterable[str]) -> dict[str, ToolDefinition | UnresolvedTool]:
        """Each id with its definition, or why there is none."""
        results = await self.library.aresolve_many(ids)
        whole = iter(await self._whole([one for one in results.values() if isinstance(one, ToolDefinition)]))
        return {id: next(whole) if isinstance(one, ToolDefinition) else one for id, one in results.items()}

    async def lint(self, *targets: str | Path) -> Sequence[ToolDefinition]:
        """Files with all that is wrong with each: all that there are, or those of some ids, paths and folders.

        Raises:
            UnresolvedTool: there is no such id.
            OSError: a file cannot be read.
        """
        there = await self.library.alist(all=True)
        if targets:
            there = [one for each in targets for one in await asyncio.to_thread(_chosen, each, there)]
        spoken = [await check_verdicts(one, self.sandboxes) for one in await self._whole(there)]
        return [await check_speed(one, self.sandboxes) for one in spoken]

    def _idle_values(self, definition: ToolDefinition) -> Iterator[Finding]:
        """Values that are given to a server by a name that its address has no place for."""
        known = query_parameters(definition)
        for name in self._values.get(definition.id, ()):
            if name not in known:
                close = nearest(name, known, 1)
                message = f"values: '{definition.id}' has no query parameter '{name}'"
                place = ("values", definition.id, name)
                yield Finding(
                    "NO_PARAMETER", "warning", message, "config", nearest=close[0] if close else None, setting=place
                )

    async def findings(self) -> Sequence[Finding]:
        """What is wrong with the files, as findings; no function is run for that."""
        definitions = await self._whole(await self.library.alist(all=True))
        ids = [one.id for one in definitions]
        idle = [id for id in self._values if id not in ids]
        return [
            *(
                Finding(
                    "NO_DEFINITION", "warning", f"values: there is no tool '{id}'", "config", setting=("values", id)
                )
                for id in idle
            ),
            *(one for definition in definitions for one in self._idle_values(definition)),
            *(
                Finding(
                    one.code,
                    one.severity,
                    self._message(definition, one),
                    "tools",
                    _shown(definition),
                    one.line or None,
                )
                for definition in definitions
                if definition.status != "not_a_tool"
                for one in definition.problems
                if one.severity != "info"
            ),
        ]

    async def references(self) -> Sequence[SourceReference]:
        """Return the tools that files fall back to, and the accounts that their requests are made with."""
        definitions = [one for one in await self.library.alist() if one.status in ("ok", "degraded")]
        return [one._replace(file=_shown(each)) for each in definitions for one in references(each)]

    def _message(self, definition: ToolDefinition, problem: YamlProblem) -> str:
        kept = definition.path in self._broken and problem.severity == "error"
        return f"{problem.message} (its tools stay as they were)" if kept else problem.message

    async def _whole(self, definitions: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
        """With what a file alone cannot tell: of its functions, of the tools that it names, of its server."""
        whole = await asyncio.gather(*map(self._readable, definitions))
        if any(one.type == "meta" for one in whole):
            known = [one.id for one in await self.library.alist() if one.status in ("ok", "degraded")]
            whole = [check_members(one, known) for one in whole]
        return [self._compared(one) for one in whole]

    async def _readable(self, definition: ToolDefinition) -> ToolDefinition:
        known = self._checked.get(definition.path)
        if known is None or known[0] is not definition:
            known = self._checked[definition.path] = definition, await check_code(definition, self._languages)
        return known[1]

    def _compared(self, definition: ToolDefinition) -> ToolDefinition:
        offered = self._servers.offered(definition) if definition.type == "mcp" else None
        absent = [] if offered is None else lacking(definition, offered)
        problems = [
            YamlProblem(
                "COMMAND_NOT_ON_SERVER",
                "warning",
                f"The server has no tool '{mcp_tool(one)}' for the command '{one.name}'",
                fix=one_of(mcp_tool(one), [each.name for each in offered or ()]),
            )
            for one in absent
        ]
        return replace(definition, problems=(*definition.problems, *problems)) if problems else definition

    async def validate(self, id: str, command: str, args: Mapping[str, Any] | None) -> validators.ValidationVerdict:
        """What the checks and validators of a command say of arguments, without a call."""
        return await validators.validate(await self.resolve(id), command, args, self.sandboxes)

    async def validate_many(
        self, calls: Iterable[tuple[str, str, Mapping[str, Any] | None]]
    ) -> Sequence[validators.ValidationVerdict]:
        """The same of many at once, in their order."""
        resolved = [(await self.resolve(id), command, args) for id, command, args in calls]
        return await validators.validate_many(resolved, self.sandboxes)

    async def helper(self, id: str, helper: str, args: Mapping[str, Any] | None = None) -> Any:
        """What a helper gives.

        Raises:
            ToolFailure: it gave nothing, and why.
        """
        return await validators.helper(await self.resolve(id), helper, args, self.sandboxes)

    async def extract(self, id: str, field: str, data: Any) -> Any:
        """Return a field of a payload, extracted as the file says."""
        return await transforms.extract(await self.resolve(id), field, data, self.sandboxes)

    async def payload(self, id: str, data: Any) -> dict[str, Any]:
        """Which of the payloads of the file this is."""
        return transforms.payload(await self.resolve(id), data)

    async def test(self, id: str, run: examples.Run | None = None) -> examples.ExampleReport:
        """Holds the examples of a file against its checks; `run` runs those that are accepted."""
        return await examples.try_examples(await self.resolve(id), self.sandboxes, run)

    async def health(self, id: str, *, fresh: bool = True) -> HealthReport:
        """Check the health of the tool for real, unless a recent report will do.

        Raises:
            UnresolvedTool: there is no such tool.
        """
        return await self._looked_at(await self.resolve(id), fresh=fresh)

    async def live(self, id: str) -> Sequence[Tool]:
        """The tools of a file as they are with its server running, which is started for that.

        `resolve` and `list` report what its server lacks from then on.

        Raises:
            UnresolvedTool: there is no such tool.
            ToolFailure: `unavailable`.
        """
        definition = await self.resolve(id)
        if definition.type == "mcp":
            await self._servers.ask(definition)
        return await asyncio.to_thread(tool_builder.tools, definition, self.resources)


def _shown(definition: ToolDefinition) -> str | None:
    """A file as people name it: from the current folder, where it lies there."""
    path = definition.path
    if path is None:
        return None
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _chosen(target: str | Path, there: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
    """The files of a folder, the file of a path, or that of an id."""
    path = Path(target)
    if path.is_dir():
        return Library([path.absolute()]).list(all=True)
    if isinstance(target, Path) or path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        own = [one for one in there if one.path is not None and one.path.absolute() == path.absolute()]
        return own or [read(path.read_bytes(), path=path.absolute(), root=path.absolute().parent)]
    own = [one for one in there if one.id == target or (one.path is not None and one.path.stem == target)]
    if not own:
        close = nearest(target, [one.id for one in there])
        raise UnresolvedTool("not_found", f"There is no file of the tool '{target}'", close)
    return own


class _Languages(Mapping[Language, Sandbox]):
    """The sandboxes by language, each made on first use; one that is not installed is absent."""

    def __init__(self, workers: Sandboxes) -> None:
        self._workers = workers

    def __getitem__(self, language: Language) -> Sandbox:
        try:
            return self._workers.of(language)
        except (ImportError, ValueError):
            raise KeyError(language) from None

    def __iter__(self) -> Iterator[Language]:
        return iter(get_args(Language))

    def __len__(self) -> int:
        return len(get_args(Language))

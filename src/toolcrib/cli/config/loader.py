"""From a `crib.yaml` to a crib. Every problem is found in one go, each with its line."""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from toolcrib import yaml
from toolcrib.cli.config.document import BadConfig, ConfigProblem, archive_beside, beside, read
from toolcrib.cli.config.mistakes import Mistake, UnknownKey, mistakes
from toolcrib.cli.config.model import (
    AccountSection,
    AgentsSection,
    CribFile,
    McpEntry,
    OpenApiEntry,
    SkillsEntry,
    ToolkitEntry,
)
from toolcrib.cli.config.secrets import references_in
from toolcrib.cli.config.server import ServeConfig, hosting_of
from toolcrib.cli.config.sources import Files, document_of, file_source, files_of, filled, server_of, skills_of
from toolcrib.cli.config.toolkits import toolkit_of
from toolcrib.cli.imports import BadSource, from_file, from_module, importable
from toolcrib.cli.terminal import CommandError
from toolcrib.cli.variables import variable_findings
from toolcrib.findings import Finding
from toolcrib.yaml import Path as Place

if TYPE_CHECKING:
    from toolcrib.accounts import AccountSettings
    from toolcrib.crib import Crib
    from toolcrib.errors import ToolcribError
    from toolcrib.policy import DataOrigin

log = logging.getLogger("toolcrib.cli")
_AGAIN = re.compile(r"The key ('.*') stands here again; it is already in line (\d+)")
_SECOND = r"\1 stands here a second time (first on line \2)"
_KEPT = ("store", "retention", "archive", "default_namespaces")
"""What matters of a file to who only looks at its store."""

_PLAIN = ("engine", "retention", "namespace_aliases", "state_keys")


SourceCache = dict[str, list[Any]]
"""Sources by the entry that they were made of, so that what did not change is not made anew."""


def load(path: Path, cache: SourceCache | None = None) -> Crib:
    """The crib that a file describes; sources of entries in a `cache` are taken from there, and others put into it.

    Raises:
        BadConfig: something in it does not hold.
    """
    return _Project(path, cache).crib()


def load_without_sources(path: Path, store: str | None = None) -> Crib:
    """The crib that a file describes, for who only looks at what its store holds, or another store.

    It has no sources, agents, policy or secret key: nothing is imported or started for it, and what is wrong with those
    does not matter.

    Raises:
        BadConfig: one of the settings that it has does not hold.
    """
    return _Project(path).crib_without_sources(store)


def load_for_guard(path: Path, store: str | None = None) -> Crib:
    """The crib that judges what coding agents do by the policy of a file: nothing of its sources is imported.

    Whatever is granted, changes of the file itself, of its store and of the hooks of coding agents ask.

    Raises:
        BadConfig: something in the file does not hold.
    """
    return _Project(path).crib_for_guard(store)


def files(path: Path) -> list[Files]:
    """The definition files that a file names, whatever else is wrong in it; nothing is imported for that."""
    try:
        project = _Project(path)
    except CommandError as error:
        log.debug("there are no sources", exc_info=error)
        return []
    entries = []
    for index, entry in project.sources:
        try:
            entries.append(files_of(entry, project.folder, ("sources", index)))
        except Mistake as mistake:
            log.debug("an entry of sources is left out", exc_info=mistake)
    return [one._replace(workspace=project.workspace) for one in entries if one is not None]


def unread_sources(path: Path) -> list[ConfigProblem]:
    """What keeps entries of `sources` from being read, so that nothing is known of definition files that they name."""
    try:
        project = _Project(path)
    except BadConfig as error:
        return list(error.problems)
    for index, entry in project.sources:
        try:
            files_of(entry, project.folder, ("sources", index))
        except Mistake as mistake:
            project.tell(mistake)
            project.of_sources.append(project.problems[-1])
    return project.of_sources


def agent_places(path: Path) -> list[Path]:
    """The files and folders of agents that a file names; nothing is imported for that.

    Raises:
        BadConfig: it names them in a way that nobody knows.
    """
    from toolcrib.cli.config.agents import places

    project = _Project(path)
    project.demand("agents")
    agents = project.file.agents
    return [] if agents is None else [place for place, _ in places(agents, project.folder)]


def hosting(path: Path) -> ServeConfig:
    """What a file says about serving.

    Raises:
        BadConfig: it does not hold.
    """
    project = _Project(path)
    project.demand("serve")
    return ServeConfig() if project.file.serve is None else hosting_of(project.file.serve, project.folder)


class _Project:
    """A file that was read: what holds in it as a model, and what does not as problems.

    Raises:
        BadConfig: it is no YAML, or no mapping.
    """

    def __init__(self, path: Path, cache: SourceCache | None = None) -> None:
        self._cache = {} if cache is None else cache
        self.path, self.folder = path, path.resolve().parent
        self.text, self.document = read(path)
        self.problems = [ConfigProblem(one.line, _AGAIN.sub(_SECOND, one.message)) for one in self.document.problems]
        self.of_sources: list[ConfigProblem] = []
        self._wrong: set[str] = set()
        self._places: list[tuple[object, Place]] = []
        data = yaml.thaw(self.document.value)
        self._kept = list(range(len(data["sources"]) if _has_sources(data) else 0))
        self.file = self._validated({} if data is None else data)
        self.workspace = self.folder / (self.file.workspace or "")

    @property
    def sources(self) -> list[tuple[int, Any]]:
        """The entries of `sources` that hold, each with its index in the file."""
        return list(zip(self._kept, self.file.sources, strict=True))

    def _validated(self, data: Any) -> CribFile:
        """Return the model of the valid keys; the rest is left out and reported."""
        try:
            return CribFile.model_validate(data)
        except ValidationError as error:
            wrong = list(mistakes(error, data))
        for mistake in wrong:
            self.tell(mistake)
            self.of_sources += self.problems[-1:] if mistake.place[:1] == ("sources",) else []
        if not isinstance(data, dict):
            raise BadConfig(self.path, self.problems)
        entries = {one.place[1] for one in wrong if one.place[:1] == ("sources",) and len(one.place) > 1}
        self._wrong = {str(one.place[0]) for one in wrong if one.place[:1] != ("sources",) or len(one.place) == 1}
        data = {key: value for key, value in data.items() if key not in self._wrong}
        self._kept = [index for index in self._kept if index not in entries and "sources" in data]
        if "sources" in data:
            data["sources"] = [data["sources"][index] for index in self._kept]
        return CribFile.model_validate(data)

    def demand(self, key: str) -> None:
        """Make sure that what a key holds is right.

        Raises:
            BadConfig: it is not.
        """
        if key in self._wrong:
            raise BadConfig(self.path, self.problems)

    def tell(self, mistake: Mistake) -> None:
        """Add a problem at the place of a mistake."""
        line, column = self._position(mistake)
        self.problems.append(ConfigProblem(line, str(mistake), column))

    def _position(self, mistake: Mistake) -> tuple[int, int | None]:
        place = mistake.place
        while (node := self.document.node(place)) is None:
            if not place:
                return 1, None
            place = place[:-1]
        at = self.text.find(mistake.part, node.start.index, node.end.index) if mistake.part else -1
        if at >= 0:
            return self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        above = self.document.node(place[:-1]) if isinstance(mistake, UnknownKey) else None
        key = None if above is None else above.keys.get(str(place[-1]))
        return (node.start if key is None else key).line + 1, None

    def line(self, *place: str | int) -> int:
        """Return the line of what stands at a place, or 1."""
        node = self.document.node(place)
        return 1 if node is None else node.start.line + 1

    @property
    def origin(self) -> DataOrigin:
        """Where what the file says stands in it."""
        from toolcrib.policy import DataOrigin

        return DataOrigin(self.path.name, line_at=self._line_at)

    def _secrets(self) -> Iterator[Finding]:
        """Yield references to secrets that lead nowhere now, and what looks like one and is none."""
        data = self.document.value
        sources = data.get("sources") if isinstance(data, Mapping) else ()
        entries = [
            (("sources", number), one) for number, one in enumerate(sources if isinstance(sources, tuple) else ())
        ]
        accounts = data.get("accounts") if isinstance(data, Mapping) else {}
        for place, entry in (*entries, (("accounts",), accounts)):
            for where, problem, close in references_in(entry, place, self.folder):
                name = ".".join(map(str, where))
                yield Finding(
                    "NO_SECRET", "warning", f"{name}: {problem}", "config", self.path.name, self._line_at(where), close
                )

    def _key_file(self) -> Iterator[Finding]:
        """Yield that the file of keys of the server is not there."""
        keys = None if self.file.serve is None else hosting_of(self.file.serve, self.folder).keys
        if isinstance(keys, Path) and not keys.is_file():
            line = self._line_at(("serve", "auth", "keys"))
            message = f"serve.auth.keys: there is no file {keys}; `store` means keys of `toolcrib keys add`"
            yield Finding("NO_FILE", "warning", message, "config", self.path.name, line)

    def _line_at(self, place: Place) -> int | None:
        return None if self.document.node(place) is None else self.line(*place)

    # The crib

    def crib(self) -> Crib:
        from toolcrib.crib import Crib
        from toolcrib.errors import ToolcribError

        sources, settings = self._sources(), self._crib_settings()
        if not self.workspace.is_dir():
            self.tell(Mistake(f"workspace: there is no folder {self.workspace}", ("workspace",)))
        if not self.problems:
            try:
                return Crib(sources, **settings)
            except ToolcribError as error:  # two tools of one name, or a store that nobody knows
                self.problems.append(ConfigProblem(self._line_of(error), str(error)))
        raise BadConfig(self.path, self.problems)

    def _line_of(self, error: ToolcribError) -> int:
        """Return the line of what a crib could not be made of."""
        from toolcrib.errors import BadTool

        if isinstance(error, BadTool) and error.field.startswith("declare."):
            return self.origin.line_at(("declare", error.tool)) or self._line_of_key("declare")
        of_store = "store" in str(error).lower() or (self.file.store or "store") in str(error)
        return self._line_of_key("store" if of_store else "sources")

    def crib_without_sources(self, store: str | None) -> Crib:
        from toolcrib.crib import Crib

        for key in _KEPT:
            self.demand(key)
        settings = {key: getattr(self.file, key) for key in _KEPT if key in self.file.model_fields_set}
        if settings.get("default_namespaces") is None:
            settings.pop("default_namespaces", None)
        url = store or settings.pop("store", None) or "memory:"
        if settings.get("archive") is not None:
            settings["archive"] = archive_beside(self.folder, settings["archive"])
        return Crib(**settings | {"store": beside(self.folder, url), "workspace": self.workspace})

    def crib_for_guard(self, store: str | None) -> Crib:
        from toolcrib.guard.judge import GuardCrib
        from toolcrib.guard.protected_files import with_protection
        from toolcrib.types import CribLimits

        file, url = self.file, beside(self.folder, store or self.file.store or "memory:")
        settings: dict[str, Any] = {"workspace": self.workspace, "origin": self.origin, "store": url}
        if "retention" in file.model_fields_set:
            settings["retention"] = file.retention
        if file.archive is not None:
            settings["archive"] = archive_beside(self.folder, file.archive)
        if file.limits is not None:
            settings["limits"] = CribLimits(**file.limits.model_dump(exclude_unset=True))
        settings["policy"] = with_protection(self._policy(file.policy or {}), self.path.resolve(), url)
        if self.problems:
            raise BadConfig(self.path, self.problems)
        return GuardCrib(**settings)

    def _line_of_key(self, key: str) -> int:
        mark = None if self.document.root is None else self.document.root.keys.get(key)
        return 1 if mark is None else mark.line + 1

    def _crib_settings(self) -> dict[str, Any]:
        """Return the arguments of the crib beside its sources."""
        file = self.file
        findings = (*self._secrets(), *self._key_file(), *variable_findings(self.folder))
        origin = replace(self.origin, findings=findings, sources=tuple(self._places))
        data: dict[str, Any] = {"workspace": self.workspace, "origin": origin}
        data |= {key: getattr(file, key) for key in _PLAIN if key in file.model_fields_set}
        for key in ("default_namespaces", "precedence"):
            if (names := getattr(file, key)) is not None:
                data[key] = tuple(names)
        if file.store is not None:
            data["store"] = beside(self.folder, file.store)
        if file.archive is not None:
            data["archive"] = archive_beside(self.folder, file.archive)
        if file.secret_key is not None:
            data["secret_key"] = _secret_key(self.folder, file.secret_key)
        if file.limits is not None:
            from toolcrib.types import CribLimits

            data["limits"] = CribLimits(**file.limits.model_dump(exclude_unset=True))
        if file.policy is not None:
            data["policy"] = self._policy(file.policy)
        if file.declare is not None:
            data["declare"] = self._declared(file.declare)
        data |= {"deps": dict(self._deps(file.deps)), "accounts": list(self._accounts(file.accounts))}
        if file.agents is not None:
            from toolcrib.cli.config.agents import agents_of

            data["agents"] = agents_of(file.agents, self.folder, self.tell)
        return data

    def _sources(self) -> list[Any]:
        from toolcrib.errors import BadTool, Refused

        importable(self.folder)
        items: list[Any] = []
        servers: dict[str, int] = {}
        for index, entry in self.sources:
            try:
                made = self._cached(entry, index)
                items += made
                self._places += [(one, ("sources", index)) for one in made]
                if isinstance(entry, McpEntry) and (first := servers.setdefault(items[-1].name, index)) != index:
                    line = self.line("sources", first)
                    raise Mistake(
                        f"'{items[-1].name}' is also the name of the server of line {line}", ("sources", index)
                    )
            except (Mistake, BadSource, BadTool, Refused) as error:
                log.debug("a source does not load", exc_info=error)
                self.tell(error if isinstance(error, Mistake) else Mistake(str(error), ("sources", index)))
        return items

    def _cached(self, entry: Any, index: int) -> list[Any]:
        """Return the sources of an entry: those that were made of it before, unless they are Python's own."""
        from toolcrib.sources import Fixed, as_source

        key = f"{index if isinstance(entry, str) else ''} {entry!r} in {self.workspace}"
        if key not in self._cache or any(isinstance(one, Fixed) for one in self._cache[key]):
            self._cache[key] = [as_source(one) for one in self._source(entry, index)]
        return self._cache[key]

    def _source(self, entry: Any, index: int) -> list[Any]:
        place = ("sources", index)
        files = files_of(entry, self.folder, place)
        if files is not None:
            return [file_source(files._replace(workspace=self.workspace), self.folder)]
        if isinstance(entry, ToolkitEntry):
            return [toolkit_of(entry, self.folder, place)]
        if isinstance(entry, OpenApiEntry):
            return [document_of(entry, self.folder, place)]
        if isinstance(entry, SkillsEntry):
            return [skills_of(entry, self.folder, place)]
        if isinstance(entry, McpEntry):
            agents = self.file.agents if isinstance(self.file.agents, AgentsSection) else None
            return [server_of(entry, self.folder, place, agents)]
        value: Any = from_file(self.folder / entry) if entry.endswith(".py") else from_module(entry)
        return list(value) if isinstance(value, list | tuple) else [value]

    def _policy(self, data: dict[str, Any]) -> dict[str, Any]:
        from toolcrib.policy import BadRule
        from toolcrib.policy.loader import load

        errors: dict[str, BadRule] = {}
        for part in (*({key: value} for key, value in data.items()), data):  # one mistake must not hide another
            try:
                load(part, place=replace(self.origin, file=None).below("policy"))
            except BadRule as error:
                errors.setdefault(str(error), error)
        for bad in errors.values():
            line = self.line("policy") if bad.line is None else bad.line
            at = "" if bad.position is None else f" at {bad.position + 1}"
            self.problems.append(ConfigProblem(line, f"policy: {bad.what!r}{at}: {bad.problem}"))
        return data

    def _accounts(self, sections: Mapping[str, AccountSection]) -> Iterator[AccountSettings]:
        """Yield the services that owners connect with."""
        from toolcrib.accounts import AccountSettings
        from toolcrib.errors import BadAccount

        for name, section in sections.items():
            place = ("accounts", name)
            try:
                settings = {
                    key: value for key, value in section.model_dump(exclude_unset=True).items() if value is not None
                }
                settings = filled(settings, place)
                yield AccountSettings(name=name, **settings | {"scopes": tuple(settings.get("scopes", ()))})
            except Mistake as mistake:
                self.tell(mistake)
            except BadAccount as error:
                self.tell(Mistake(f"accounts.{error}", place))

    def _deps(self, places: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
        """Yield what tools want by name: the object of a module, or what a function or class there makes."""
        from toolcrib.cli.command import where

        importable(self.folder)
        for name, place in places.items():
            try:
                value: Any = from_module(place)
                yield name, value() if inspect.isclass(value) or inspect.isfunction(value) else value
            except BadSource as error:
                self.tell(Mistake(f"deps.{name}: {error}", ("deps", name)))
            except Exception as error:  # noqa: BLE001 - whatever it raises is reported with its line
                self.tell(Mistake(f"deps.{name}: {place} failed: {where(error)}", ("deps", name)))

    def _declared(self, data: dict[str, Any]) -> dict[str, Any]:
        from toolcrib.errors import BadTool
        from toolcrib.sources import declarations

        for name, value in data.items():
            try:
                declarations.check({name: value})
            except BadTool as error:
                self.tell(Mistake(f"declare.{name}: {error.field}: {error.problem}", ("declare", name)))
        return data


def _has_sources(data: Any) -> bool:
    return isinstance(data, Mapping) and isinstance(data.get("sources"), list)


def _secret_key(folder: Path, place: str) -> Path | Callable[[], str]:
    """The key for secret arguments, which is read when the crib starts."""
    kind, _, name = place.partition(":")
    return folder / name if kind == "file" else partial(_variable, name)


def _variable(name: str) -> str:
    from toolcrib.errors import BadSecretKey

    if name not in os.environ:
        raise BadSecretKey(f"secret_key: the variable {name} is not set")
    return os.environ[name]

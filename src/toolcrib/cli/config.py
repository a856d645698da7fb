"""`crib.yaml`: what a project's crib is made of. Every problem is found in one go, each with its line.

sources:
  - shop                                        # a module; `shop:refund` is something in it
  - tools/mail.py                               # a file
  - tools/                                      # definition files, a folder of them or one .yaml
  - {files: [tools], pack: design}              # the same, with a pack; also trusted_packs, registry, values
  - {mcp: "npx -y some-server@1.2.0", env: {TOKEN: "${TOKEN}"}}   # an MCP server; also name, trusted, headers, timeout
  - {openapi: petstore.yaml, include: "tag:pets", auth: {key: "${KEY}"}}   # an OpenAPI document, or its address
  - {toolkit: files, root: data}                # a toolkit, with the settings of its tools(): see kits.py
store: sqlite:///shop.db                        # a relative path starts at this file
workspace: .                                    # where paths of calls start; this folder, unless said
policy: {preset: default, rules: [{deny: "shell(rm -rf *)"}]}
engine: nats://localhost:4222                   # with store: postgresql://...; makes this a node of a cluster
retention: 7d                                   # null keeps everything
limits: {timeout_s: 30}
default_namespaces: [shop]
namespace_aliases: {store: shop}
precedence: [shop]
state_keys: {visits: add, notes: {mode: append, lives: run}}
declare: {github.*: {annotations: {read_only: true}}}   # what tools of others do not say of themselves
agents: [team/]                                 # files of definitions; with models and a default: see teams.py
serve: {host: 0.0.0.0, auth: {keys: store}}     # how `toolcrib serve` serves it: see hosting.py
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

import yaml

from toolcrib.cli import nodes
from toolcrib.cli.hosting import Hosting, hosting_of
from toolcrib.cli.importing import BadSource, from_file, from_module, importable
from toolcrib.cli.kits import toolkit_of
from toolcrib.cli.nodes import Wrong
from toolcrib.cli.sources import Files, document_of, file_source, files_of, server_of
from toolcrib.cli.terminal import Trouble, short

if TYPE_CHECKING:
    from toolcrib.crib import Crib

log = logging.getLogger("toolcrib.cli")
NAME = "crib.yaml"
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MODES = ("exclusive", "add", "append", "merge")


class Problem(NamedTuple):
    """One thing that is wrong with a file, and on which line; in which column where that is known."""

    line: int
    message: str
    column: int | None = None

    @property
    def place(self) -> str:
        """The line, and the column."""
        return f"{self.line}" if self.column is None else f"{self.line}:{self.column}"


class BadConfig(Trouble):
    """A `crib.yaml` that does not hold, with everything that is wrong in it."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        lines = [f"{path}:{one.place}: {one.message}" for one in sorted(problems, key=lambda one: one[:2])]
        super().__init__("\n".join(dict.fromkeys(lines)), f"mend {path.name} and try again", code="config")
        self.problems = problems


def load(path: Path) -> Crib:
    """The crib that a file describes.

    Raises:
        BadConfig: something in it does not hold.
    """
    return _Reading(path).crib()


def files(path: Path) -> list[Files]:
    """The definition files that a file names, whatever else is wrong in it; nothing is imported for that."""
    found = []
    reading = _Reading(path)
    for item in reading.entries():
        try:
            found.append(files_of(item, reading.folder))
        except Wrong as wrong:
            log.debug("an entry of sources is left out", exc_info=wrong)
    return [one._replace(workspace=reading.place) for one in found if one is not None]


def agent_places(path: Path) -> list[Path]:
    """The files and folders of agents that a file names; nothing is imported for that.

    Raises:
        BadConfig: it names them in a way that nobody knows.
    """
    from toolcrib.cli.teams import places

    reading = _Reading(path)
    root = reading._root()
    try:
        node = None if root is None else {key.value: value for key, value in nodes.pairs(root)}.get("agents")
        return [] if node is None else [place for place, _ in places(node, reading.folder)]
    except Wrong as wrong:
        raise BadConfig(path, [Problem(1 if wrong.node is None else nodes.line(wrong.node), str(wrong))]) from None


def hosting(path: Path) -> Hosting:
    """What a file says about serving.

    Raises:
        BadConfig: it does not hold.
    """
    reading = _Reading(path)
    root = reading._root()
    try:
        node = None if root is None else {key.value: value for key, value in nodes.pairs(root)}.get("serve")
        return Hosting() if node is None else hosting_of(node, reading.folder)
    except Wrong as wrong:
        raise BadConfig(path, [Problem(1 if wrong.node is None else nodes.line(wrong.node), str(wrong))]) from None


class _Reading:
    """One pass over a file, gathering problems."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = self.place = path.resolve().parent
        self.problems: list[Problem] = []
        self.line_of: dict[str, int] = {}

    def crib(self) -> Crib:
        from toolcrib.crib import Crib
        from toolcrib.errors import ToolcribError

        given = self._values(self._root())
        given.pop("serve", None)  # it is for `toolcrib serve`: see `hosting`
        given.setdefault("workspace", self.folder)
        if not self.problems:
            try:
                return Crib(given.pop("sources", ()), **given)
            except ToolcribError as error:  # two tools of one name, or a store that nobody knows
                key = "store" if "store" in str(error).lower() else "sources"
                self.problems.append(Problem(self.line_of.get(key, 1), str(error)))
        raise BadConfig(self.path, self.problems)

    def entries(self) -> list[yaml.Node]:
        """What `sources` holds, as far as it can be read; the workspace is known from then on."""
        try:
            root = self._root()
            given = {} if root is None else {key.value: node for key, node in nodes.pairs(root)}
            if "workspace" in given:
                self.workspace(given["workspace"])
            return nodes.items(given["sources"]) if "sources" in given else []
        except (Wrong, Trouble) as error:
            log.debug("there are no sources", exc_info=error)
            return []

    def _root(self) -> yaml.Node | None:
        try:
            root: yaml.Node | None = yaml.compose(self.path.read_text("utf-8"), yaml.SafeLoader)
            return root
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            said = ", ".join(part for part in (error.context, error.problem) if part)
            raise BadConfig(self.path, [Problem(mark.line + 1 if mark else 1, f"this is no YAML: {said}")]) from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise BadConfig(self.path, [Problem(1, f"this is no YAML: {short(str(error))}")]) from None
        except OSError as error:
            raise Trouble(f"Can not read {self.path}: {error.strerror}", "check the path and its permissions") from None

    def _values(self, root: yaml.Node | None) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if root is None:
            return given
        try:
            # Programs of definition files start in the workspace.
            for key, node in sorted(nodes.pairs(root), key=lambda pair: pair[0].value != "workspace"):
                self._take(key.value, key, node, given)
        except Wrong as wrong:
            self._wrong(wrong, root)
        return given

    def _take(self, key: str, at: yaml.Node, node: yaml.Node, given: dict[str, Any]) -> None:
        try:
            if key in self.line_of:
                raise Wrong(f"'{key}' stands here a second time (first on line {self.line_of[key]})")
            self.line_of[key] = nodes.line(at)
            if key not in _READERS:
                raise Wrong(nodes.unknown(key, [*_READERS]))
            given[key] = _READERS[key](self, node)
        except Wrong as wrong:
            self._wrong(wrong, at)

    def _wrong(self, wrong: Wrong, node: yaml.Node) -> None:
        line, column = wrong.place(node)
        self.problems.append(Problem(line, str(wrong), column))

    # One function a key

    def sources(self, node: yaml.Node) -> list[Any]:
        from toolcrib.errors import BadTool, Refused
        from toolcrib.sources import as_source

        importable(self.folder)
        found: list[Any] = []
        for item in nodes.items(node):
            try:
                found += [as_source(one) for one in self._source(item)]
            except (Wrong, BadSource, BadTool, Refused) as error:
                log.debug("a source does not load", exc_info=error)
                self._wrong(error if isinstance(error, Wrong) else Wrong(str(error), item), item)
        return found

    def _source(self, item: yaml.Node) -> list[Any]:
        files = files_of(item, self.folder)
        if files is not None:
            return [file_source(files._replace(workspace=self.place), self.folder)]
        if isinstance(item, yaml.MappingNode):
            return [toolkit_of(item, self.folder) or document_of(item, self.folder) or server_of(item)]
        given = nodes.text(item)
        value = from_file(self.folder / given) if given.endswith(".py") else from_module(given)
        return list(value) if isinstance(value, list | tuple) else [value]

    def store(self, node: yaml.Node) -> str:
        return beside(self.folder, nodes.text(node))

    def engine(self, node: yaml.Node) -> str:
        return nodes.text(node)

    def workspace(self, node: yaml.Node) -> Path:
        self.place = self.folder / nodes.text(node)
        return self.place

    def policy(self, node: yaml.Node) -> dict[str, Any]:
        from toolcrib.policy import BadRule
        from toolcrib.policy.load import Place, load

        rules = next((value for key, value in nodes.pairs(node) if key.value == "rules"), None)
        lines = [nodes.line(rule) for rule in nodes.items(rules)] if rules is not None else []
        data: dict[str, Any] = nodes.plain(node)
        try:
            load(data, place=Place(line_of=lambda number: lines[number - 1] if number <= len(lines) else None))
        except BadRule as error:
            line = nodes.line(node) if error.line is None else error.line
            at = "" if error.position is None else f" at {error.position + 1}"
            self.problems.append(Problem(line, f"policy: {error.what!r}{at}: {error.problem}"))
        return data

    def retention(self, node: yaml.Node) -> timedelta | None:
        value = nodes.plain(node)
        if value is None:
            return None
        parts = _SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
        if parts is None:
            raise Wrong(f"retention: expected a time such as 12h, 7d or null, got {value!r}", node)
        return timedelta(**{_UNITS[parts[2]]: float(parts[1])})

    def limits(self, node: yaml.Node) -> Any:
        from toolcrib.types import CribLimits

        kinds = {"int": int, "float": float, "int | None": int, "str | None": str}
        known = {field.name: kinds[str(field.type)] for field in dataclasses.fields(CribLimits)}
        given: dict[str, Any] = {}
        for key, value in nodes.pairs(node):
            try:
                if key.value not in known:
                    raise Wrong(f"limits: {nodes.unknown(key.value, [*known])}")
                kind = known[key.value]
                given[key.value] = (
                    nodes.text(value) if kind is str else nodes.number(value, kind, f"limits.{key.value}")
                )
                CribLimits(**{key.value: given[key.value]})
            except ValueError as error:
                given.pop(key.value)
                self._wrong(Wrong(f"limits.{error}", value), key)
            except Wrong as wrong:
                self._wrong(wrong, key)
        return CribLimits(**given)

    def names(self, node: yaml.Node) -> tuple[str, ...]:
        return tuple(nodes.text(item) for item in nodes.items(node))

    def aliases(self, node: yaml.Node) -> dict[str, str]:
        return {key.value: nodes.text(value) for key, value in nodes.pairs(node)}

    def state_keys(self, node: yaml.Node) -> dict[str, Any]:
        from toolcrib.state import Key

        given: dict[str, Any] = {}
        for key, value in nodes.pairs(node):
            said = nodes.plain(value)
            said = {"mode": said} if isinstance(said, str) else said
            if not isinstance(said, dict) or said.keys() - {"mode", "lives"}:
                raise Wrong(f"state_keys.{key.value}: expected a mode, or {{mode: append, lives: run}}", value)
            for name, known in (("mode", _MODES), ("lives", ("session", "run"))):
                if said.get(name, known[0]) not in known:
                    raise Wrong(f"state_keys.{key.value}: expected one of {', '.join(known)}", value)
            given[key.value] = Key(**said)
        return given

    def serve(self, node: yaml.Node) -> Hosting:
        return hosting_of(node, self.folder)

    def agents(self, node: yaml.Node) -> Any:
        from toolcrib.cli.teams import agents_of

        return agents_of(node, self.folder, self._wrong)

    def declare(self, node: yaml.Node) -> dict[str, Any]:
        from toolcrib.errors import BadTool
        from toolcrib.sources import declared

        given: dict[str, Any] = {}
        for key, value in nodes.pairs(node):
            given[key.value] = nodes.plain(value)
            try:
                declared.check({key.value: given[key.value]})
            except BadTool as error:
                self._wrong(Wrong(f"declare.{key.value}: {error.field}: {error.problem}"), value)
        return given


_READERS: dict[str, Callable[[_Reading, yaml.Node], Any]] = {
    "sources": _Reading.sources,
    "store": _Reading.store,
    "engine": _Reading.engine,
    "workspace": _Reading.workspace,
    "policy": _Reading.policy,
    "limits": _Reading.limits,
    "retention": _Reading.retention,
    "namespace_aliases": _Reading.aliases,
    "default_namespaces": _Reading.names,
    "precedence": _Reading.names,
    "state_keys": _Reading.state_keys,
    "declare": _Reading.declare,
    "agents": _Reading.agents,
    "serve": _Reading.serve,
}


def beside(folder: Path, url: str) -> str:
    """A store's URL whose relative file lies in that folder."""
    head, slashes, rest = url.partition("sqlite:///")
    path, mark, query = rest.partition("?")
    if head or not slashes or not path or path.startswith("/"):
        return url
    return f"sqlite:///{quote(str(folder / unquote(path)))}{mark}{query}"

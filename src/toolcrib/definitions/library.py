"""The definitions of all roots: listed, looked up by id, read again when a file has changed.

The work is done in the calling thread, under a lock; the methods that begin with `a` do it beside the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.reader import ID, read
from toolcrib.definitions.roots import (
    DefinitionRoot,
    FileLocation,
    RootListing,
    Stamp,
    look_through,
    pack_roots,
    projects_of,
    rooted,
    young,
)
from toolcrib.errors import Refused
from toolcrib.schema import nearest
from toolcrib.yaml import FILES, Severity, YamlProblem


class UnresolvedTool(Refused):
    """There is no usable tool of that id: `not_found`, or `invalid` where its file is wrong."""

    def __init__(self, code: str, message: str, suggestions: Iterable[str] = (), hint: str | None = None) -> None:
        super().__init__(code, message, hint)
        self.suggestions = tuple(suggestions)


class CacheUse(NamedTuple):
    """How often a file was read, and how often what had been read was used again."""

    loads: int
    hits: int


class Library:
    """The definitions of some roots; a pack's stand before all others.

    Raises:
        Refused: a root is relative without a project, or there is no such pack.
    """

    def __init__(
        self,
        roots: Iterable[DefinitionRoot | Path | str],
        pack: str | None = None,
        *,
        project: Path | None = None,
        trusted_packs: Collection[str] = (),
    ) -> None:
        self._lock = threading.Lock()
        self._trees: dict[DefinitionRoot, RootListing] = {}
        self._files: dict[tuple[DefinitionRoot, FileLocation], _ReadFile] = {}
        self._shelf = _DefinitionCache(())
        self.roots: tuple[DefinitionRoot, ...] = ()
        self.use(roots, pack, project=project, trusted_packs=trusted_packs)

    def use(
        self,
        roots: Iterable[DefinitionRoot | Path | str],
        pack: str | None = None,
        *,
        project: Path | None = None,
        trusted_packs: Collection[str] = (),
    ) -> None:
        """Use other roots; what they do not cover is forgotten."""
        own = rooted(roots, project)
        places = projects_of(own) if project is None else [project]
        first = () if pack is None else pack_roots(pack, places, trusted_packs)
        with self._lock:
            self.roots = tuple(dict.fromkeys((*first, *own)))

    def list(self, *, all: bool = False) -> list[ToolDefinition]:
        """Every tool, also the invalid ones, by id; with `all` also what is shadowed, and files that hold no tool."""
        with self._lock:
            self._refresh()
            self._verify(self._files.values())
            shown = [file for file in self._shelf.files if all or file in self._shelf.shown]
            made = [file.take() for file in shown]
        return sorted(made, key=lambda definition: (_name(definition).lower(), str(definition.path)))

    def resolve(self, id: str) -> ToolDefinition:
        """The definition of that id.

        Raises:
            UnresolvedTool: there is none, or its file is invalid.
        """
        result = self.resolve_many([id])[id]
        if isinstance(result, UnresolvedTool):
            raise result
        return result

    def resolve_many(self, ids: Iterable[str]) -> dict[str, ToolDefinition | UnresolvedTool]:
        """Each id with its definition, or why there is none. What is no legal id touches no file."""
        wanted = list(dict.fromkeys(ids))
        legal = {id for id in wanted if ID.fullmatch(id)}
        with self._lock:
            if legal:
                self._refresh()
                known = [self._shelf.find(id) for id in legal]
                self._verify(self._files.values() if None in known else [file for file in known if file is not None])
            return {id: self._by_id(id) if id in legal else self._missing(id, ()) for id in wanted}

    async def alist(self, *, all: bool = False) -> Sequence[ToolDefinition]:
        """`list`, beside the event loop."""
        return await asyncio.to_thread(self.list, all=all)

    async def aresolve(self, id: str) -> ToolDefinition:
        """`resolve`, beside the event loop."""
        return await asyncio.to_thread(self.resolve, id)

    async def aresolve_many(self, ids: Iterable[str]) -> dict[str, ToolDefinition | UnresolvedTool]:
        """`resolve_many`, beside the event loop."""
        return await asyncio.to_thread(self.resolve_many, ids)

    def moved(self, id: str) -> bool:
        """True if the file of a tool is no longer what was read of it: a look at that one file, and no waiting."""
        file = self._shelf.find(id)
        return file is None or file.moved()

    def known(self, id: str) -> ToolDefinition | None:
        """The definition of that id, where its file and all folders are as they were: a few looks, and no waiting.

        None where it has to be resolved.
        """
        file, trees = self._shelf.find(id), self._trees
        if file is None or file.moved() or any(root not in trees or trees[root].stale(root) for root in self.roots):
            return None
        return None if file.invalid else file.take()

    def uses(self) -> dict[Path, CacheUse]:
        """How often each file was read and used."""
        with self._lock:
            return {file.place.path: CacheUse(file.loads, file.hits) for file in self._files.values()}

    # Finding

    def _by_id(self, id: str) -> ToolDefinition | UnresolvedTool:
        file = self._shelf.find(id)
        if file is None:
            return self._missing(id, nearest(id, self._shelf.names()))
        definition = file.take()
        if definition.status != "invalid":
            return definition
        first = next((one.message for one in definition.problems if one.severity == "error"), "it cannot be read")
        fix = next((one.fix for one in definition.problems if one.severity == "error"), None)
        return UnresolvedTool("invalid", f"Tool '{id}' is invalid: {first} ({definition.path})", hint=fix)

    def _missing(self, id: str, close: Iterable[str]) -> UnresolvedTool:
        places = ", ".join(str(root.path) for root in self.roots) or "there are none"
        names = [f"'{name}'" for name in close]
        meant = f" Did you mean {' or '.join(names)}?" if names else ""
        return UnresolvedTool("not_found", f"Tool '{id[:64]}' not found in search roots: {places}.{meant}", close)

    # What is there now

    def _refresh(self) -> None:
        """Looks at the stamp of every folder and file, and reads what has changed."""
        before = self._trees
        self._trees = {root: self._tree(root) for root in self.roots}
        moved = [*before.items()] != [*self._trees.items()]
        if moved:
            self._files = {key: self._files.get(key) or _ReadFile(*key) for key in self._covered()}
        changed = [file.refresh() for file in self._files.values()]
        if moved or any(changed):
            self._shelve()

    def _tree(self, root: DefinitionRoot) -> RootListing:
        """The tree of a root as it is now; the same one if nothing came, went or was renamed."""
        known = self._trees.get(root)
        return look_through(root) if known is None or known.stale(root) else known

    def _covered(self) -> Iterable[tuple[DefinitionRoot, FileLocation]]:
        """The files of all roots; one that lies in two belongs to the first."""
        seen: set[Path] = set()
        for root in self.roots:
            for place in self._trees[root].files:
                if place.real not in seen:
                    seen.add(place.real)
                    yield root, place

    def _verify(self, files: Iterable[_ReadFile]) -> None:
        """Reads again what may have changed without a new stamp."""
        changed = [file.verify() for file in files]
        if any(changed):
            self._shelve()

    def _shelve(self) -> None:
        self._shelf = _DefinitionCache([file for file in self._files.values() if file.there])


class _ReadFile:
    """A file as it was read last. A definition stays the same one as long as the bytes are the same.

    `there` is whether it has been read and is not gone; `definition` is what is in it, without its neighbours.
    """

    __slots__ = (
        "_basis",
        "_fresh",
        "_read_at",
        "_stamp",
        "_whole",
        "definition",
        "hits",
        "loads",
        "place",
        "root",
        "there",
    )

    definition: ToolDefinition
    _whole: ToolDefinition
    _basis: tuple[ToolDefinition, YamlProblem | None, tuple[Path, ...]] | None

    def __init__(self, root: DefinitionRoot, place: FileLocation) -> None:
        self.root = root
        self.place = place
        self.there = False
        self.loads = self.hits = 0
        self._stamp: Stamp | None = None
        self._read_at = 0.0
        self._fresh = False
        self._basis = None

    def refresh(self) -> bool:
        """Reads it if its stamp is another; whether that made a difference."""
        stamp = self._now()
        if stamp is None:
            return self._be(there=False)
        return (stamp != self._stamp and self._read(stamp)) | self._be(there=True)

    def moved(self) -> bool:
        """True if it is another than was read; nothing is kept of that look."""
        stamp = self._stamp
        if stamp is None or self._now() != stamp:
            return True
        try:
            return young(stamp, self._read_at) and _hash(self._bytes()) != self.definition.sha256
        except OSError:
            return True

    def verify(self) -> bool:
        """Reads it if its stamp was too young to be relied on; whether that made a difference."""
        stamp = self._stamp
        return stamp is not None and young(stamp, self._read_at) and self._read(stamp)

    def place_among(self, problem: YamlProblem | None, shadows: tuple[Path, ...]) -> None:
        """Adds what its neighbours make of it; the same as before leaves the same definition."""
        base = self.definition
        if self._basis is not None and self._basis[0] is base and self._basis[1:] == (problem, shadows):
            return
        self._basis, self._whole = (base, problem, shadows), base
        if problem is not None or shadows:
            status = "invalid" if problem is not None and problem.severity == "error" else base.status
            problems = base.problems if problem is None else (*base.problems, problem)
            self._whole = replace(base, status=status, problems=problems, shadows=shadows)

    @property
    def invalid(self) -> bool:
        """True if it, or one of its neighbours, makes it unusable."""
        return self._whole.status == "invalid"

    def take(self) -> ToolDefinition:
        """Its definition, once more; the first time after it was read is no hit."""
        self.hits += not self._fresh
        self._fresh = False
        return self._whole

    def _now(self) -> Stamp | None:
        try:
            stat = os.stat(self.place.real)  # noqa: PTH116 - the method of a path takes longer, and there may be many
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def _bytes(self) -> bytes:
        with self.place.real.open("rb") as file:
            return file.read(FILES.bytes + 1)

    def _be(self, *, there: bool) -> bool:
        changed, self.there = self.there != there, there
        return changed

    def _read(self, stamp: Stamp) -> bool:
        now = time.time()
        try:
            data = self._bytes()
        except OSError as error:
            self._stamp = None  # it is tried again: what hinders may go away without another stamp
            return self._keep(_unreadable(self, error))
        self._stamp, self._read_at = stamp, now
        if self.loads and self.definition.sha256 == _hash(data):
            return False
        root = self.root
        path = self.place.path
        return self._keep(read(data, path=path, root=root.folder, trusted=root.trusted, soft_checks=root.soft_checks))

    def _keep(self, definition: ToolDefinition) -> bool:
        if self.loads and self.definition == definition:
            return False
        self.definition = definition
        self.loads += 1
        self._fresh = True
        return True


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _unreadable(file: _ReadFile, error: OSError) -> ToolDefinition:
    path = file.place.path
    problem = YamlProblem("UNREADABLE", "error", f"The file cannot be read: {error.strerror}")
    return ToolDefinition(
        *(path.stem, None, "", "", "", 1, "default", "invalid"),
        problems=(problem,),
        path=path,
        root=file.root.folder,
        trusted=file.root.trusted,
    )


class _DefinitionCache:
    """The files in order, and which of them stands for an id."""

    def __init__(self, files: Iterable[_ReadFile]) -> None:
        self.files = list(files)
        self.shown: set[_ReadFile] = set()
        self._stand: dict[str, _ReadFile] = {}
        self._place()

    def find(self, id: str) -> _ReadFile | None:
        """The file that stands for exactly that id."""
        file = self._stand.get(id.lower())
        return file if file is not None and _name(file.definition) == id else None

    def names(self) -> list[str]:
        """What could have been meant: the ids, and those of all commands."""
        standing = [file.definition for file in self._stand.values()]
        commands = [f"{_name(one)}.{command.name}" for one in standing for command in one.commands]
        return [*map(_name, standing), *commands]

    def _place(self) -> None:
        added: dict[_ReadFile, YamlProblem] = {}
        shadows: dict[_ReadFile, list[Path]] = {}
        for root in dict.fromkeys(file.root for file in self.files):
            for key, (first, *others) in self._claims(root).items():
                stands = self._stand.setdefault(key, first)
                if stands is first:
                    self.shown.update((first, *others))
                else:
                    shadows.setdefault(stands, []).append(first.place.path)
                    added[first] = _problem("SHADOWED", "info", f"{stands.place.path} replaces this one")
                message = f"{first.place.path} has this id too, and comes first"
                added |= {other: _problem("DUPLICATE_ID", "error", message) for other in others}
        for file in self.files:
            file.place_among(added.get(file), tuple(shadows.get(file, ())))

    def _claims(self, root: DefinitionRoot) -> dict[str, list[_ReadFile]]:
        """The tools of one root by their ids in small letters, as namespaces are; the first stands.

        A file without an id goes by its name, and stands behind those that have one.
        """
        tools = [file for file in self.files if file.root == root and file.definition.status != "not_a_tool"]
        claims: dict[str, list[_ReadFile]] = {}
        for file in sorted(tools, key=lambda file: file.definition.tool.get("id") != _name(file.definition)):
            claims.setdefault(_name(file.definition).lower(), []).append(file)
        return claims


def _problem(code: str, severity: Severity, message: str) -> YamlProblem:
    return YamlProblem(code, severity, message, "tool.id")


def _name(definition: ToolDefinition) -> str:
    """The id that a file goes by: its own if that is legal, else the name of the file."""
    return definition.id if definition.path is None or ID.fullmatch(definition.id) else definition.path.stem

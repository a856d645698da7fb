"""Where definition files lie: folders in order, of which the first that has a tool wins. What lies in them is listed.

A root is named in full. A relative one is relative to the project, which is the folder of the configuration file; the
working directory is never asked.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from toolcrib.errors import Refused
from toolcrib.schema import nearest

OWN = Path(".toolcrib", "tools")
USER = Path("toolcrib", "tools")
PACKS = ("packs", "squads", "expansion-packs")
RECENT_S = 2.0

_PACK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class DefinitionRoot:
    """A folder of definition files, or one file. What is in one that is not trusted counts as somebody else's.

    With `soft_checks`, `checks` beside a function only warn unless their validator says `enforce: true`: for files that
    were written for a runtime that let the function alone decide.
    """

    path: Path
    trusted: bool = True
    soft_checks: bool = False

    @property
    def folder(self) -> Path:
        """What its files may not reach out of."""
        return self.path.parent if self.path.is_file() else self.path


def default_roots(project: Path, user: Path | None = None, shipped: Path | None = None) -> tuple[DefinitionRoot, ...]:
    """The roots of a project that names none: its own, those of the user's configuration folder, those shipped."""
    places = (project / OWN, None if user is None else user / USER, shipped)
    return tuple(DefinitionRoot(place) for place in places if place is not None)


def rooted(roots: Iterable[DefinitionRoot | Path | str], project: Path | None = None) -> tuple[DefinitionRoot, ...]:
    """The roots in full; plain paths are trusted.

    Raises:
        Refused: one is relative, and there is no project that it could be relative to.
    """
    return tuple(
        dict.fromkeys(
            _whole(root if isinstance(root, DefinitionRoot) else DefinitionRoot(Path(root)), project) for root in roots
        )
    )


def _whole(root: DefinitionRoot, project: Path | None) -> DefinitionRoot:
    if root.path.is_absolute():
        return root
    if project is None:
        hint = "name it in full, or say which project it belongs to"
        raise Refused("invalid_arguments", f"The root '{root.path}' is relative", hint)
    return replace(root, path=project / root.path)


def pack_roots(pack: str, projects: Iterable[Path], trusted: Collection[str] = ()) -> tuple[DefinitionRoot, ...]:
    """The folders of a pack in these projects.

    Raises:
        Refused: there is no such pack.
    """
    places = [project / folder for project in dict.fromkeys(projects) for folder in PACKS]
    legal = _PACK.fullmatch(pack) is not None
    folders = [place / pack / "tools" for place in places if legal and (place / pack / "tools").is_dir()]
    if not folders:
        known = [each.parent.name for place in places for each in sorted(place.glob("*/tools"))]
        close = nearest(pack, known) if legal else []
        hint = f"similar: {', '.join(close)}" if close else None
        raise Refused("not_found", f"Pack '{pack[:64]}' not found in {', '.join(map(str, places))}", hint)
    return tuple(DefinitionRoot(place, pack in trusted) for place in folders)


def projects_of(roots: Iterable[DefinitionRoot]) -> list[Path]:
    """Return the folders that roots seem to belong to, where no project was named."""
    return [root.path.parents[1] if root.path.parts[-2:] == OWN.parts else root.path.parent for root in roots]


# What lies in them

Stamp = tuple[int, ...]


class FileLocation(NamedTuple):
    """A file or folder: its path as people name it, and where it really lies."""

    path: Path
    real: Path


@dataclass(slots=True)
class RootListing:
    """What lay in a root when it was looked through; two are equal that hold the same files."""

    top: Path
    at: float = field(compare=False)
    files: list[FileLocation] = field(default_factory=list)
    folders: dict[Path, Stamp | None] = field(default_factory=dict, compare=False)

    def stale(self, root: DefinitionRoot) -> bool:
        """True if something may have come, gone or been renamed since; what is in a file does not matter here."""
        if _real(root.path) != self.top:
            return True
        return any(young(stamp, self.at) or _stamp(folder) != stamp for folder, stamp in self.folders.items())


def young(stamp: Stamp | None, at: float) -> bool:
    """True if what was seen then had changed so short a time before that it may have changed again unseen."""
    return stamp is not None and at - stamp[0] / 1e9 < RECENT_S


def look_through(root: DefinitionRoot) -> RootListing:
    """Lists a root, in the order of paths. Links that leave it are not followed, what begins with a dot is left out."""
    tree = RootListing(_real(root.path), time.time())
    if tree.top.is_file():
        tree.files = [FileLocation(root.path, tree.top)]
        return tree
    by_real_path: dict[Path, FileLocation] = {}
    todo = [FileLocation(root.path, tree.top)]
    while todo:
        folder = todo.pop()
        if folder.real in tree.folders:
            continue
        tree.folders[folder.real] = _stamp(folder.real)
        files, folders = _inside(folder, tree.top)
        todo += folders
        for file in files:
            by_real_path[file.real] = min(file, by_real_path.get(file.real, file))
    tree.files = sorted(by_real_path.values())
    return tree


def _stamp(folder: Path) -> Stamp | None:
    try:
        stat = folder.stat()
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


def _inside(folder: FileLocation, top: Path) -> tuple[list[FileLocation], list[FileLocation]]:
    """The definition files of a folder, and the folders in it; what cannot be looked at is not there."""
    files: list[FileLocation] = []
    folders: list[FileLocation] = []
    for entry in _entries(folder.real):
        real = folder.real / entry.name
        place = FileLocation(folder.path / entry.name, _real(real) if entry.is_symlink() else real)
        try:
            if not place.real.is_relative_to(top):
                continue
            if entry.is_dir():
                folders.append(place)
            elif entry.name.lower().endswith(_ENDINGS) and entry.is_file():
                files.append(place)
        except OSError:
            continue
    return files, folders


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []


def _real(path: Path) -> Path:
    """Where a path leads; unlike `Path.resolve` also for links that lead in circles."""
    return Path(os.path.realpath(path))

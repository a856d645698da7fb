"""A folder that nothing leads out of: every path is walked from its handle, one name after the other.

A path is looked up once, before the call is judged, and links that stay inside are followed then. What is opened later
is that plain path, through descriptors and never through a link: one that was put there in between is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from toolcrib.errors import ToolFailure

_LINKS = 40
_DEEPEST = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
TEMPORARY = ".toolcrib-"
"""How the names of files begin that are not written to their end yet."""


class RootFolder:
    """The folder itself."""

    def __init__(self, path: str | os.PathLike[str], hard_links: bool = False) -> None:
        self.path = os.path.realpath(path)
        self._hard_links = hard_links

    def plain(self, text: str, *, follow: bool = True) -> str:
        """The path without links, dots and repeated slashes; `.` is the root. It need not exist.

        Without `follow` a link at its end stands for itself.

        Raises:
            ToolFailure: `denied`, it leads out; `invalid_arguments`, it is no path.
        """
        with ExitStack() as held, os_errors(text):
            return _Walk(self, held, _parts(text)).walked(follow)

    @contextmanager
    def folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """The descriptor of a folder at a plain path; with `make` it is made where it is missing."""
        with ExitStack() as held, os_errors(path):
            at = self.handle(held)
            for name in _parts(path):
                made = make and _made(name, at)
                above, at = at, _opened(held, name, at)
                if made:
                    keep_owner(at, above)
            yield at

    @contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder that a path lies in, and its name there."""
        *above, name = _parts(path) or ["."]
        with self.folder("/".join(above), make=make) as at, os_errors(path):
            yield at, name

    def handle(self, held: ExitStack) -> int:
        """The descriptor of the root."""
        at = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        held.callback(os.close, at)
        return at

    def status(self, path: str) -> os.stat_result:
        """What lies at a plain path, links as themselves."""
        with self.parent(path) as (at, name):
            return os.stat(name, dir_fd=at, follow_symlinks=False)

    @contextmanager
    def file(self, path: str) -> Iterator[int]:
        """The descriptor of an ordinary file at a plain path, for reading.

        Raises:
            ToolFailure: `denied`, it is a link, a device, a socket, a pipe or a file with further names.
        """
        with self.parent(path) as (at, name), os_errors(path):
            self._ordinary(path, os.stat(name, dir_fd=at, follow_symlinks=False))
            fd = os.open(name, _FILE, dir_fd=at)
            try:
                self._ordinary(path, os.fstat(fd))  # it may be another one by now
                yield fd
            finally:
                os.close(fd)

    def _ordinary(self, path: str, status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            raise ToolFailure("failed", f"{path} is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise ToolFailure("denied", f"{path} is {kind(status)}, and no ordinary file")
        if status.st_nlink > 1 and not self._hard_links:
            raise ToolFailure("denied", f"{path} has a second name, which may lie elsewhere")

    def walk(self, path: str) -> Iterator[tuple[str, os.stat_result]]:
        """Everything below a folder with its plain path, in order, without following a link."""
        waiting = deque([path])
        while waiting:
            folder = waiting.popleft()
            try:
                with self.folder(folder) as at:
                    entries = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in _scan(at))
            except (ToolFailure, OSError):
                continue  # gone, closed or swapped meanwhile
            for name, status in entries:
                place = name if folder == "." else f"{folder}/{name}"
                yield place, status
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(place)

    def within(self, target: str) -> str | None:
        """An absolute path as one from the root, if it lies below."""
        if target == self.path:
            return "."
        below = self.path.rstrip("/") + "/"
        return target[len(below) :] if target.startswith(below) else None


class _Walk:
    """One lookup: the folders that were entered, what they are called, and what is left of the path."""

    def __init__(self, root: RootFolder, held: ExitStack, parts: list[str]) -> None:
        self._root, self._held = root, held
        self._at = [root.handle(held)]
        self._names: list[str] = []
        self._left = deque(parts)
        self._links = 0

    def walked(self, follow: bool) -> str:
        while self._left:
            name = self._left.popleft()
            if name == "..":
                self._up()
                continue
            try:
                status = os.stat(name, dir_fd=self._at[-1], follow_symlinks=False)
            except FileNotFoundError:
                if ".." in self._left:
                    raise _outside() from None
                self._names += [name, *self._left]
                break
            if stat.S_ISLNK(status.st_mode) and (follow or self._left):
                self._follow(name)
            else:
                self._enter(name, status)
        return "/".join(self._names) or "."

    def _up(self) -> None:
        """Only a link goes up, and only as far as it came down."""
        if not self._names:
            raise _outside()
        self._names.pop()
        self._at.pop()

    def _enter(self, name: str, status: os.stat_result) -> None:
        self._names.append(name)
        if stat.S_ISDIR(status.st_mode):
            self._at.append(_opened(self._held, name, self._at[-1]))
        elif self._left:
            raise ToolFailure("failed", f"{'/'.join(self._names)} is no folder")

    def _follow(self, name: str) -> None:
        self._links += 1
        try:
            target: str | None = os.readlink(name, dir_fd=self._at[-1])
        except OSError as error:
            if error.errno == errno.EINVAL:  # it was a link a moment ago
                raise ToolFailure("denied", "A part of the path changed while it was looked up") from None
            raise
        if target is not None and target.startswith("/"):
            target = self._root.within(os.path.normpath(target))
            del self._at[1:], self._names[:]
        if target is None or self._links > _LINKS:
            raise _outside()
        self._left.extendleft(reversed([part for part in target.split("/") if part not in ("", ".")]))


def _parts(path: str) -> list[str]:
    if "\0" in path or path != path.encode(errors="ignore").decode():
        raise ToolFailure("invalid_arguments", "A path holds a character that it cannot")
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        raise _outside()
    named = [part for part in parts if part not in ("", ".")]
    if len(named) > _DEEPEST:
        raise ToolFailure("invalid_arguments", "The path is too long")
    return named


def _outside() -> ToolFailure:
    return ToolFailure("denied", "The path leads out of the folder", hint="Paths start at the folder: notes/today.md")


def keep_owner(fd: int, folder: int) -> None:
    """Give what root has made to whoever its folder belongs to: commands, which never run as root, work on it too."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        owner = os.fstat(folder)
        os.fchown(fd, owner.st_uid, owner.st_gid)


def _made(name: str, at: int) -> bool:
    try:
        os.mkdir(name, dir_fd=at)
    except FileExistsError:
        return False
    return True


def _opened(held: ExitStack, name: str, at: int) -> int:
    fd = os.open(name, _FOLDER, dir_fd=at)
    held.callback(os.close, fd)
    return fd


def _scan(at: int) -> Iterator[os.DirEntry[str]]:
    with os.scandir(at) as entries:
        for entry in entries:
            try:
                entry.name.encode()
                entry.stat(follow_symlinks=False)
            except (OSError, UnicodeError):
                continue
            yield entry


def kind(status: os.stat_result) -> str:
    """Return the kind of a file, by its status."""
    for test, name in (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "folder"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISFIFO, "pipe"),
        (stat.S_ISSOCK, "socket"),
    ):
        if test(status.st_mode):
            return name
    return "device"


_MESSAGES = {
    errno.ENOENT: ("not_found", "There is no {path}"),
    errno.ENOTDIR: ("denied", "A part of {path} is no folder, or became a link"),
    errno.ELOOP: ("denied", "A part of {path} became a link"),
    errno.EACCES: ("denied", "{path} is closed to this program"),
    errno.EPERM: ("denied", "{path} is closed to this program"),
    errno.EROFS: ("denied", "{path} cannot be written to"),
    errno.ENAMETOOLONG: ("invalid_arguments", "The path is too long"),
    errno.EEXIST: ("failed", "{path} exists already"),
    errno.ENOTEMPTY: ("failed", "{path} is a folder that is not empty"),
    errno.EISDIR: ("failed", "{path} is a folder"),
    errno.EXDEV: ("failed", "{path} lies on another disk"),
    errno.ENOSPC: ("failed", "There is no room left"),
    errno.EINVAL: ("invalid_arguments", "A folder cannot be moved into itself, nor hold such a name"),
}


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Turn errors of the system into failures for a model, without a path of this machine."""
    try:
        yield
    except OSError as error:
        code, message = _MESSAGES.get(error.errno or 0, ("failed", "{path} cannot be used: " + str(error.strerror)))
        raise ToolFailure(code, message.format(path=Path(path))) from None

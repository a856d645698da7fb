"""What stands in files: reading with a bound, edits that must fit, differences, and writing in one step."""

from __future__ import annotations

import difflib
import hashlib
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from toolcrib.errors import ToolFailure
from toolcrib.toolkits.files.root import TEMPORARY, RootFolder, keep_owner

SHOWN = 1024 * 1024
LARGEST = 64 * 1024 * 1024
_DIFFED = 2000
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Quota:
    """How much a root may hold."""

    file_bytes: int = 10 * 1024 * 1024
    root_bytes: int = 1024 * 1024 * 1024
    root_files: int = 10_000


def read(root: RootFolder, path: str, most: int = LARGEST) -> bytes:
    """All of a file.

    Raises:
        ToolFailure: `too_large`, it has more bytes; it cannot be read.
    """
    with root.file(path) as fd:
        pieces: list[bytes] = []
        left = most
        while piece := os.read(fd, _CHUNK):
            left -= len(piece)
            if left < 0:
                raise ToolFailure("too_large", f"{path} has more than {most} bytes")
            pieces.append(piece)
    return b"".join(pieces)


def digest(content: bytes) -> str:
    """By what a file is known to be the same."""
    return hashlib.sha256(content).hexdigest()


def text_of(content: bytes) -> str | None:
    """The text of a file, None where it is none."""
    if b"\0" in content[:8192]:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def edited(text: str, edits: Sequence[tuple[str, str]]) -> str:
    """A text after all edits, each of which fits at exactly one place.

    Raises:
        ToolFailure: `failed`, one does not.
    """
    for number, (old, new) in enumerate(edits, 1):
        count = text.count(old) if old else 0
        if count != 1:
            times = "is not in the file" if not count else f"is in the file {count} times"
            raise ToolFailure("failed", f"Edit {number}: the old text {times}; it has to be there exactly once")
        text = text.replace(old, new)
    return text


def difference(path: str, before: str, after: str) -> str:
    """What changed, as a unified diff; a very large change is shown by its first lines."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    begin = max(head - 3, 0)  # what is equal before and after is not compared again
    old, new = old[begin : len(old) - max(tail - 3, 0)], new[begin : len(new) - max(tail - 3, 0)]
    if max(len(old), len(new)) > _DIFFED:
        return f"--- {path}\n+++ {path}\n@@ {len(old)} lines became {len(new)} @@\n{''.join(new[:100])}"
    lines = difflib.unified_diff(old, new, path, path)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def write(root: RootFolder, path: str, content: bytes, *, overwrite: bool) -> None:
    """Puts a whole file in its place in one step: a reader sees the old or the new one.

    Raises:
        ToolFailure: `failed`, it exists and may not be replaced; it cannot be written.
    """
    with root.parent(path, make=True) as (at, name):
        before = _before(at, name)
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise ToolFailure("failed" if stat.S_ISDIR(before.st_mode) else "denied", f"{path} is no ordinary file")
        if before is not None and not overwrite:
            raise ToolFailure("failed", f"{path} exists already", hint="Set overwrite to replace it.")
        fresh = _temporary(
            at, content, 0o666 if before is None else stat.S_IMODE(before.st_mode), exact=before is not None
        )
        try:
            if overwrite:
                os.replace(fresh, name, src_dir_fd=at, dst_dir_fd=at)
            else:
                os.link(fresh, name, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)  # fails where one exists now
        finally:
            _removed(at, fresh)


def _before(at: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _temporary(at: int, content: bytes, mode: int, *, exact: bool) -> str:
    name = f"{TEMPORARY}{secrets.token_hex(8)}"
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode & 0o777, dir_fd=at)
    try:
        keep_owner(fd, at)
        if exact:
            os.fchmod(fd, mode & 0o777)
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    except BaseException:
        _removed(at, name)
        raise
    finally:
        os.close(fd)
    return name


def _removed(at: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        pass


def check_room(root: RootFolder, path: str, size: int, quota: Quota) -> None:
    """Whether a file of this size fits.

    Raises:
        ToolFailure: `too_large`, it does not.
    """
    if size > quota.file_bytes:
        raise ToolFailure("too_large", f"{path} would have {size} bytes; a file may have {quota.file_bytes}")
    files, total = 1, size
    for place, status in root.walk("."):
        if stat.S_ISREG(status.st_mode) and place != path:
            files, total = files + 1, total + status.st_size
    if files > quota.root_files:
        raise ToolFailure("too_large", f"The folder may hold {quota.root_files} files; delete some first")
    if total > quota.root_bytes:
        raise ToolFailure("too_large", f"The folder may hold {quota.root_bytes} bytes; delete something first")

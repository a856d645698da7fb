"""Which processes use a file: each worker holds the lock of one byte, which the system drops when it dies."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _byte(worker: str) -> int:
    return int.from_bytes(hashlib.sha256(worker.encode()).digest()[:7], "big")


_COUNTS = 32
"""Bytes of four counts: how many commits to sessions themselves have begun, and the last that has ended; the same of
all commits.
"""


class _Shared:
    """The lock file as this process has it open. Locks belong to the process, and closing any handle drops them all."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self.names: set[str] = set()
        self.changing = threading.Lock()
        size = os.fstat(self.fd).st_size
        if size < _COUNTS:  # written, since a page that a full disk has no place for ends the process that touches it
            os.pwrite(self.fd, bytes(_COUNTS - size), size)
        self._memory = mmap.mmap(self.fd, _COUNTS)
        counts = memoryview(self._memory).cast("Q")
        self.moves, self.commits = counts[:2], counts[2:]
        counts.release()

    def close(self) -> None:
        """Lets go of the file."""
        self.moves.release()
        self.commits.release()
        self._memory.close()
        os.close(self.fd)


_open: dict[Path, _Shared] = {}


class Workers:
    """The workers of one SQLite file, known by the locks they hold on `<file>-workers`."""

    def __init__(self, path: Path, worker: str) -> None:
        self._path = Path(f"{path.resolve()}-workers")
        self._worker = worker
        self._shared = _open.get(self._path) or _open.setdefault(self._path, _Shared(self._path))
        with self._shared.changing:
            self._shared.names.add(worker)
            fcntl.lockf(self._shared.fd, fcntl.LOCK_EX, 1, _byte(worker))

    @property
    def shared(self) -> _Shared:
        """The file as this process has it open."""
        return self._shared

    def leave(self) -> None:
        """This worker is gone."""
        with self._shared.changing:
            fcntl.lockf(self._shared.fd, fcntl.LOCK_UN, 1, _byte(self._worker))
            self._shared.names.discard(self._worker)
        if not self._shared.names and _open.pop(self._path, None) is not None:
            self._shared.close()

    def alive(self, worker: str) -> bool:
        """True if its process still lives."""
        if worker in self._shared.names:
            return True
        try:
            fcntl.lockf(self._shared.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(worker))
        except OSError:
            return True
        fcntl.lockf(self._shared.fd, fcntl.LOCK_UN, 1, _byte(worker))
        return False

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """True if no other worker uses the file; where that is so, none begins to before the end of the block."""
        fd = self._shared.fd
        with self._shared.changing:
            if self._shared.names != {self._worker}:
                yield False
                return
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            try:
                yield True
            finally:  # all but its own byte, which is never let go in between
                own = _byte(self._worker)
                if own:
                    fcntl.lockf(fd, fcntl.LOCK_UN, own, 0)
                fcntl.lockf(fd, fcntl.LOCK_UN, 0, own + 1)


def used(path: Path) -> bool:
    """True if a worker of any process, this one included, uses the file."""
    lock = Path(f"{path.resolve()}-workers")
    if (shared := _open.get(lock)) is not None:
        return bool(shared.names) or _locked(shared.fd)
    if not lock.exists():
        return False
    fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        return _locked(fd)
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.lockf(fd, fcntl.LOCK_UN)
    return False

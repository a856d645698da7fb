"""Which processes use a file: each worker holds the lock of one byte, which the system drops when it dies."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path


def _byte(worker: str) -> int:
    return int.from_bytes(hashlib.sha256(worker.encode()).digest()[:7], "big")


class _Shared:
    """The lock file as this process has it open. Locks belong to the process, and closing any handle drops them all."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self.names: set[str] = set()


_open: dict[Path, _Shared] = {}


class Workers:
    """The workers of one SQLite file, known by the locks they hold on `<file>-workers`."""

    def __init__(self, path: Path, worker: str) -> None:
        self._path = Path(f"{path.resolve()}-workers")
        self._worker = worker
        self._shared = _open.get(self._path) or _open.setdefault(self._path, _Shared(self._path))
        self._shared.names.add(worker)
        fcntl.lockf(self._shared.fd, fcntl.LOCK_EX, 1, _byte(worker))

    def leave(self) -> None:
        """This worker is gone."""
        fcntl.lockf(self._shared.fd, fcntl.LOCK_UN, 1, _byte(self._worker))
        self._shared.names.discard(self._worker)
        if not self._shared.names and _open.pop(self._path, None) is not None:
            os.close(self._shared.fd)

    def alive(self, worker: str) -> bool:
        """Whether its process still lives."""
        if worker in self._shared.names:
            return True
        try:
            fcntl.lockf(self._shared.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(worker))
        except OSError:
            return True
        fcntl.lockf(self._shared.fd, fcntl.LOCK_UN, 1, _byte(worker))
        return False

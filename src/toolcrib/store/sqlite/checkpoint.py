"""Moving the WAL of an SQLite file into the file itself, and a mark by which a copy without its WAL is noticed.

The mark is the file's `application_id`. With the first write to the WAL, `IN_USE` is put into the main file, and
`WHOLE` into the WAL behind it. So a reader of both sees `WHOLE`, as does whoever opens the file after any program has
moved the WAL into it; one who has the main file alone sees `IN_USE`, and knows that commits are missing.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from toolcrib.store.sqlite.workers import Workers

WHOLE, IN_USE = 0x54435242, 0x54435255
"""All that was committed is in the file, or in its WAL as well; the letters TCRB and TCRU."""

LOST = (
    "it was copied, or moved, without its -wal file while it was in use, so calls that were acknowledged are missing. "
    "Restore a backup, or bring the -wal file; what is here is used after `toolcrib store rebuild --accept-loss`"
)
"""What is wrong with a file that says `IN_USE` and has no WAL."""

BUSY_MS = 5000
WAL_BYTES, COMMITS = 4 * 1024 * 1024, 250
"""A WAL of so many commits, or of twice this size, is moved into the file, and keeps this size to be written over: to
make a file longer costs a disk more. Where readers hold it, that is tried again after as much more.
"""

SMALL = WAL_BYTES // 8
"""A WAL up to this size is left as it is while another process uses the file too."""

LOOK = 32
"""Rows that are written between two looks at the WAL. A look after every commit would cost a small one a tenth more."""

QUIET_S = 30.0
"""When nothing was written for so long, the WAL is moved into the file and emptied."""


class Checkpoints:
    """The checkpoints of one writer; it is used in the writer's thread alone."""

    def __init__(self, db: sqlite3.Connection, path: Path, workers: Workers) -> None:
        self._db = db
        self._wal = str(wal(path))
        self._workers = workers
        self._marked = self._owes = False
        self._commits = 0
        self._changes = self.look_at = db.total_changes
        """`look_at` is how many rows will have been written when the WAL is looked at next."""
        self._due, self._next = COMMITS, 2 * WAL_BYTES
        self._rest_at = 0.0
        self.rest_s: float | None = None
        """How long to wait for a write before the WAL is emptied; None where there is nothing in it."""
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")

    def after_write(self, commits: int = 1) -> None:
        """Marks the file as one that has a WAL, and moves the WAL into it when it has grown; nobody waits for this.

        It need not be called before `look_at`; `commits` is how many there were since it was called last.
        """
        changes = self._db.total_changes
        if changes == self._changes:
            if self._marked and time.monotonic() >= self._rest_at:
                self.rest()
            return
        self._changes = changes
        self._rest_at = time.monotonic() + QUIET_S
        self._commits += commits
        if changes >= self.look_at:
            self._look()
            self.look_at = self._db.total_changes if self._owes else self._db.total_changes + LOOK
            self.rest_s = QUIET_S if self._marked else None

    def _look(self) -> None:
        if self._owes:
            self._complete()
        elif not self._marked:
            self._marked = self._mark("PASSIVE")
        elif (size := _size(self._wal)) >= self._next or self._commits >= self._due:
            self._grown(size)

    def _grown(self, size: int) -> None:
        if self._mark("RESTART"):
            self._marked, self._commits, self._due, self._next = True, 0, COMMITS, 2 * WAL_BYTES
        else:
            self._due, self._next = self._commits + COMMITS, size + WAL_BYTES

    def rest(self) -> None:
        """Nothing is being written: the file becomes whole by itself, unless another process uses it too."""
        self._rest_at = time.monotonic() + QUIET_S
        try:
            with self._workers.alone() as alone:
                if alone:
                    self._marked = not self._checkpoint("TRUNCATE")
                    self.rest_s = QUIET_S if self._marked else None
                    self._commits = 0
                    self.look_at = self._db.total_changes
                    return
        except (sqlite3.Error, OSError):
            return
        if _size(self._wal) > SMALL:
            self._mark("TRUNCATE")

    def _mark(self, mode: str) -> bool:
        """True if the main file tells of its WAL now. What stands in the way is told by the next write, not by this."""
        if not self._set(IN_USE):
            return False
        self._owes = True
        try:
            return self._checkpoint(mode)
        except sqlite3.Error:
            return False
        finally:
            self._complete()

    def _complete(self) -> None:
        """File and WAL together are whole; where that cannot be written now, the next write tries again."""
        self._owes = not self._set(WHOLE)

    def _set(self, mark: int) -> bool:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(f"PRAGMA application_id = {mark}")
            self._db.execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            return False
        return True

    def _checkpoint(self, mode: str) -> bool:
        """True if all of the WAL is in the main file. Nobody who reads is waited for."""
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            busy, pages, moved = self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        return pages == moved and not (busy and mode == "TRUNCATE")


def wal(path: Path) -> Path:
    """Where SQLite keeps what is not in the file yet."""
    return Path(f"{path}-wal")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - three times as fast, and it is done after many commits
    except OSError:
        return 0

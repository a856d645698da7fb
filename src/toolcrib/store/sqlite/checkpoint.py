"""Moving the WAL of an SQLite file into the file itself, and a mark by which a copy without its WAL is noticed.

The mark is the file's `application_id`. With the first write to the WAL, `IN_USE` is put into the main file, and
`WHOLE` into the WAL behind it. So a reader of both sees `WHOLE`, as does whoever opens the file after any program has
moved the WAL into it; one who has the main file alone sees `IN_USE`, and knows that commits are missing.
"""

from __future__ import annotations

import os
import sqlite3
import time
from concurrent.futures import Executor, Future
from contextlib import closing, suppress
from pathlib import Path

from toolcrib.store.sqlite.workers import Workers, used

WHOLE, IN_USE = 0x54435242, 0x54435255
"""All that was committed is in the file, or in its WAL as well; the letters TCRB and TCRU."""

LOST = (
    "it was copied, or moved, without its -wal file while it was in use, so calls that were acknowledged are missing. "
    "Restore a backup, or bring the -wal file; what is here is used after `toolcrib store rebuild --accept-loss`"
)
"""What is wrong with a file that says `IN_USE` and has no WAL."""

BUSY_MS = 5000
WAL_BYTES, COMMITS = 8 * 1024 * 1024, 250
"""A WAL of so many commits, or of more bytes, is moved into the file and then written over. Up to this size it keeps
its room: to cut a file and make it longer again costs as much as the move. Where readers hold the WAL, that is tried
again after so many commits, or half as many bytes, more.
"""

SMALL = WAL_BYTES // 16
"""A WAL up to this size is left as it is while another process uses the file too."""

LOOK = 32
"""Rows that are written between two looks at the WAL. A look after every commit would cost a small one a tenth more."""

QUIET_S = 30.0
"""When nothing was written for so long, the WAL is moved into the file and emptied."""

MOVING_S = 0.01
"""How long the writer waits for a write while another thread moves the WAL, before it looks whether that is done."""


class Checkpoints:
    """The checkpoints of one writer; it is used in the writer's thread alone.

    Where there is a `helper`, most of a WAL that has grown is moved by it while the writer goes on, unless that writes
    much more meanwhile; the writer moves what came. So a commit seldom waits for a whole move.
    """

    def __init__(self, db: sqlite3.Connection, path: Path, workers: Workers, helper: Executor | None = None) -> None:
        self._db = db
        self._path = path
        self._wal = str(wal(path))
        self._helper = helper
        self._moving: Future[None] | None = None
        self._workers = workers
        self._marked = self._owes = False
        self._commits = 0
        self._changes = self.look_at = db.total_changes
        """`look_at` is how many rows will have been written when the WAL is looked at next."""
        self._due, self._next = COMMITS, WAL_BYTES
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
            self._look_later()

    def _look_later(self) -> None:
        self.look_at = self._db.total_changes if self._owes else self._db.total_changes + LOOK
        self.rest_s = MOVING_S if self._moving else QUIET_S if self._marked else None

    def _look(self) -> None:
        if self._moving is not None:
            if self._moving.done() or _size(self._wal) > self._next + WAL_BYTES // 8:
                self.finish()
        elif self._owes:
            self._complete()
        elif not self._marked:
            self._marked = self._mark("PASSIVE")
        elif (size := _size(self._wal)) > self._next or self._commits >= self._due:
            self._grown(size)

    def _grown(self, size: int) -> None:
        if self._helper is None:
            self._begin_anew(self._mark("RESTART"), size)
        elif self._set(IN_USE):
            self._owes = True
            self._moving = self._helper.submit(_move, self._path)
        else:
            self._begin_anew(False, size)

    def _move_rest(self) -> None:
        """Moves what was written while the helper moved all before it."""
        self._moving = None
        self._begin_anew(self._move("RESTART"), _size(self._wal))

    def _begin_anew(self, moved: bool, size: int) -> None:
        if moved:
            self._marked, self._commits, self._due, self._next = True, 0, COMMITS, WAL_BYTES
        else:
            self._due, self._next = self._commits + COMMITS, size + WAL_BYTES // 2

    def finish(self) -> None:
        """Ends what the helper has begun; to be called before the connection is closed."""
        if self._moving is not None:
            self._moving.exception()  # waits for it; whatever it says, the rest is moved here
            self._move_rest()
            self._look_later()
        if self._owes:
            self._complete()

    def rest(self) -> None:
        """Nothing is being written: the file becomes whole by itself, unless another process uses it too."""
        if self._moving is not None:
            self.finish()
            return
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
        return self._move(mode)

    def _move(self, mode: str) -> bool:
        """Moves the WAL, whose last mark is `IN_USE`, and says behind it that both together are whole."""
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


def _move(path: Path) -> None:
    """Moves what is in the WAL now while others read and write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")


def is_whole(db: sqlite3.Connection, path: Path, *, has_wal: bool) -> bool:
    """False if a file lost its WAL. Whoever opens a file calls this; `has_wal` is to be found out before that.

    A process that was killed while it moved its WAL leaves the mark of the main file in both. It is put right here,
    since whoever closes a file last moves the WAL with that mark, and deletes it.
    """
    if db.execute("PRAGMA application_id").fetchone()[0] != IN_USE or used(path):
        return True
    if has_wal:
        with suppress(sqlite3.Error):
            db.execute(f"PRAGMA application_id = {WHOLE}")
    return has_wal


def wal(path: Path) -> Path:
    """Where SQLite keeps what is not in the file yet."""
    return Path(f"{path}-wal")


def _size(path: str) -> int:
    """The bytes of a file. `stat` would read its times too: newer kernels then note a time of its own for the next
    write, and some file systems write that to the disk with the next commit, which takes a quarter longer.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return 0
    try:
        return os.lseek(file, 0, os.SEEK_END)
    finally:
        os.close(file)

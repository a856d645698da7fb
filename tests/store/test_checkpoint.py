"""When the WAL of a file is moved into it, and what the main file alone tells of it meanwhile."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.requirements import requirement
from toolcrib.store.sqlite import checkpoint
from toolcrib.store.sqlite.checkpoint import COMMITS, IN_USE, LOOK, SMALL, WAL_BYTES, WHOLE, Checkpoints, wal
from toolcrib.store.sqlite.workers import Workers


class Written:
    """A file that one connection writes, and its checkpoints."""

    def __init__(self, path: Path, helper: ThreadPoolExecutor | None = None) -> None:
        self.path = path
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA application_id = {WHOLE}")
        self.db.execute("CREATE TABLE line (text)")
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.db.execute("PRAGMA busy_timeout = 0")
        self.workers = Workers(path, "w")
        self.checkpoints = Checkpoints(self.db, path, self.workers, helper)

    def write(self, rows: int = 1, size: int = 10) -> None:
        """One commit."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT INTO line VALUES (?)", [("x" * size,)] * rows)
        self.db.execute("COMMIT")
        self.checkpoints.after_write()

    @property
    def alone(self) -> int:
        """What somebody finds who has the main file without its WAL."""
        return int.from_bytes(self.path.read_bytes()[68:72], "big")

    @property
    def together(self) -> int:
        """What somebody finds who has both."""
        with closing(sqlite3.connect(self.path)) as db:
            return int(db.execute("PRAGMA application_id").fetchone()[0])

    @property
    def wal_bytes(self) -> int:
        return wal(self.path).stat().st_size

    @property
    def round(self) -> int:
        """How often the WAL was begun anew."""
        return int.from_bytes(wal(self.path).read_bytes()[12:16], "big")

    def close(self) -> None:
        self.db.close()
        self.workers.leave()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    made = Written(tmp_path / "log.db")
    yield made
    made.close()


@requirement("reliability.keep.2")
def test_with_the_first_write_the_file_alone_says_that_commits_are_missing(written: Written) -> None:
    assert (written.alone, written.checkpoints.rest_s) == (WHOLE, None)
    written.write()
    assert (written.alone, written.together) == (IN_USE, WHOLE)
    assert written.checkpoints.rest_s is not None


@requirement("reliability.keep.2")
def test_a_mark_that_another_writer_kept_from_being_made_is_made_later(written: Written) -> None:
    written.db.execute("INSERT INTO line VALUES ('x')")
    with closing(sqlite3.connect(written.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        written.checkpoints.after_write()
        assert written.alone == WHOLE
        other.execute("ROLLBACK")
    written.write(LOOK)
    assert (written.alone, written.together) == (IN_USE, WHOLE)


@requirement("reliability.keep.2")
def test_a_file_at_rest_is_whole_by_itself_until_it_is_written_again(written: Written) -> None:
    written.write()
    written.checkpoints.rest()
    assert (written.alone, written.wal_bytes, written.checkpoints.rest_s) == (WHOLE, 0, None)
    written.write()
    assert (written.alone, written.checkpoints.rest_s is None) == (IN_USE, False)


@requirement("reliability.keep.2")
@pytest.mark.parametrize("large", [False, True])
def test_a_file_that_another_uses_keeps_a_small_wal_and_its_mark(written: Written, large: bool) -> None:
    other = Workers(written.path, "other")
    try:
        written.write(1, 2 * SMALL if large else 10)
        before = written.wal_bytes
        written.checkpoints.rest()
        assert written.alone == IN_USE
        assert written.together == WHOLE
        assert (written.wal_bytes < before) == large
    finally:
        other.leave()


@requirement("reliability.keep.2")
def test_a_wal_that_has_grown_is_moved_into_the_file(written: Written) -> None:
    written.write(LOOK)
    before = written.round
    written.write(LOOK, 2 * WAL_BYTES // LOOK)
    written.write(LOOK)
    assert written.round > before
    assert (written.alone, written.together) == (IN_USE, WHOLE)
    assert written.wal_bytes <= WAL_BYTES


@requirement("reliability.keep.2")
def test_a_wal_of_many_commits_is_moved_into_the_file(written: Written) -> None:
    written.write()
    before = written.round
    for _ in range(COMMITS + LOOK):
        written.write()
    assert written.round == before + 1
    assert written.alone == IN_USE


@requirement("reliability.keep.2")
def test_a_wal_that_a_reader_holds_is_tried_again_and_nobody_waits(written: Written) -> None:
    written.write()
    before = written.round
    with closing(sqlite3.connect(written.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM line").fetchone()
        for _ in range(COMMITS + LOOK):
            written.write()
        assert (written.round, written.together) == (before, WHOLE)
        reader.execute("COMMIT")
    for _ in range(COMMITS + LOOK):
        written.write()
    assert written.round > before


@requirement("reliability.keep.2")
def test_nothing_else_moves_a_wal_whose_commits_the_file_alone_would_then_hide(written: Written) -> None:
    written.write()
    written.write(size=WAL_BYTES + WAL_BYTES // 4)  # more than SQLite moves by itself
    written.write()
    assert (written.alone, written.together) == (IN_USE, WHOLE)
    assert written.wal_bytes > WAL_BYTES


@requirement("reliability.keep.2")
@pytest.mark.parametrize(("quiet_s", "mark"), [(0.0, WHOLE), (60.0, IN_USE)])
def test_a_file_that_was_not_written_for_a_while_becomes_whole_beside_empty_transactions(
    written: Written, monkeypatch: pytest.MonkeyPatch, quiet_s: float, mark: int
) -> None:
    monkeypatch.setattr(checkpoint, "QUIET_S", quiet_s)
    written.checkpoints.after_write()
    assert not wal(written.path).stat().st_size
    written.write()
    written.checkpoints.after_write()
    assert written.alone == mark


@pytest.fixture
def helper() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


@pytest.fixture
def helped(tmp_path: Path, helper: ThreadPoolExecutor) -> Iterator[Written]:
    made = Written(tmp_path / "log.db", helper)
    yield made
    made.close()


@requirement("reliability.keep.2")
def test_a_helper_moves_a_grown_wal_while_the_writer_goes_on(helped: Written, helper: ThreadPoolExecutor) -> None:
    gate: Future[None] = Future()
    helper.submit(gate.result)
    helped.write()
    before = helped.round
    for _ in range(COMMITS + 2 * LOOK):
        helped.write()
    assert helped.round == before, "nobody waited for the move, which has not begun"
    assert (helped.alone, helped.checkpoints.rest_s) == (IN_USE, checkpoint.MOVING_S)
    gate.set_result(None)
    helper.submit(int).result()  # the move was before it in the line
    helped.write()
    helped.write()
    assert helped.round > before
    assert (helped.alone, helped.together) == (IN_USE, WHOLE)


@requirement("reliability.keep.2")
@pytest.mark.parametrize("rests", [False, True])
def test_a_move_that_has_begun_is_ended_before_a_writer_rests_or_stops(
    helped: Written, helper: ThreadPoolExecutor, rests: bool
) -> None:
    gate: Future[None] = Future()
    helper.submit(gate.result)
    for _ in range(COMMITS + LOOK + 1):
        helped.write()
    assert helped.together == IN_USE, "the mark that goes into the main file with the move"
    gate.set_result(None)
    if rests:
        helped.checkpoints.rest()
    else:
        helped.checkpoints.finish()
    assert (helped.alone, helped.together) == (IN_USE, WHOLE)


@requirement("reliability.keep.2")
def test_a_move_that_fails_leaves_the_whole_to_the_writer(
    helped: Written, monkeypatch: pytest.MonkeyPatch, helper: ThreadPoolExecutor
) -> None:
    def fail(path: Path) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(checkpoint, "_move", fail)
    helped.write()
    before = helped.round
    for _ in range(COMMITS + LOOK + 1):
        helped.write()
    helped.checkpoints.finish()
    helped.write()
    assert helped.round > before
    assert (helped.alone, helped.together) == (IN_USE, WHOLE)

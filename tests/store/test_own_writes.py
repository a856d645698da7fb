"""What a process knows of a log in a file by its own writes, and when it does not."""

import gc

from toolcrib.events import Done
from toolcrib.store import Write
from toolcrib.store.codec import LARGE, LargeValue
from toolcrib.store.sqlite.own_writes import MOST, FileWrites
from toolcrib.store.sqlite.store import SqliteStore
from toolcrib.store.sqlite.writer import CommitCounter
from toolcrib.testing.stores.fixture import line


def note(text: str = "x") -> Write:
    return Write("s", [line(text)])


def settled(seq: int = 5) -> FileWrites:
    """The writes of a session whose log was read up to an event, without anybody else."""
    writes = FileWrites(lambda: 0)
    writes.begin()
    writes.settle(seq)
    return writes


def test_what_was_put_is_taken_once_and_in_order() -> None:
    writes, notes = settled(), [note("a"), note("b"), note("c")]
    for one in notes[:2]:
        writes.put(one)
    assert writes.take() == [*notes[0].events, *notes[1].events]
    writes.put(notes[2])
    assert writes.take() == [*notes[2].events]
    for number, one in enumerate(notes, 6):
        writes.reported(one, number)
    assert (writes.take(), writes.mistaken) == ([], False)


def test_a_write_that_is_under_way_at_the_end_of_a_read_may_be_in_it() -> None:
    writes, early = FileWrites(lambda: 0), note()
    writes.begin()
    writes.put(early)
    writes.settle(5)
    assert writes.take() is None
    writes.reported(early, 5)
    writes.settle(5)
    assert writes.take() == []


def test_a_write_that_was_committed_behind_a_read_is_read_as_well() -> None:
    writes, late = FileWrites(lambda: 0), note()
    writes.begin()
    writes.put(late)
    writes.reported(late, 6)
    writes.settle(5)
    assert writes.take() is None
    writes.settle(6)
    assert writes.take() == []


def test_a_number_that_was_not_expected_is_a_mistake_once_it_was_taken() -> None:
    taken, untaken = settled(), settled()
    for writes in (taken, untaken):
        one = note()
        writes.put(one)
        if writes is taken:
            assert writes.take() is not None
        writes.reported(one, 7)
        assert writes.take() is None
    assert (taken.mistaken, untaken.mistaken) == (True, False)


def test_nothing_much_is_held_for_whoever_does_not_take_it() -> None:
    many, large = settled(), settled()
    for _ in range(MOST + 1):
        many.put(note())
    assert many.take() is None
    data = LargeValue(b'"' + b"x" * LARGE + b'"')
    large.put(Write("s", [(1.0, "c", "done", Done(ok=True, data=data, duration_ms=0))]))
    assert large.take() is None


async def test_nobody_is_told_of_writes_to_a_session_that_nobody_traces_any_more() -> None:
    store = SqliteStore("sqlite:///unused.db")
    store._commits = CommitCounter([0, 0])
    writes = store.own_writes("s")
    assert "s" in store._followers.observers
    del writes
    gc.collect()
    assert not store._followers.observers


def test_commits_of_others_are_told_from_those_of_this_process() -> None:
    counts = [0, 0]
    own, other = CommitCounter(counts), CommitCounter(counts)
    known = own.of_others()
    own.began()
    assert own.of_others() == known  # it is under way, and nobody else can be
    own.ended()
    assert own.of_others() == known
    other.began()
    doubt = own.of_others()
    assert doubt != known
    assert own.of_others() not in (known, doubt)  # one that has begun may be visible or not
    other.ended()
    after = own.of_others()
    assert after != known
    own.began()
    own.ended()
    assert own.of_others() == after


def test_a_commit_of_a_process_that_died_in_it_leaves_doubt_until_the_next() -> None:
    counts = [0, 0]
    own, dead = CommitCounter(counts), CommitCounter(counts)
    known = own.of_others()
    dead.began()
    assert own.of_others() != own.of_others()
    own.began()
    own.ended()
    after = own.of_others()
    assert after != known
    assert own.of_others() == after

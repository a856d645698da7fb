"""Which writes go to the database together, and which have to wait for what becomes of another."""

import pytest
from msgspec.structs import replace

from toolcrib.store import Row, Write
from toolcrib.store.postgres.batch import Batch
from toolcrib.testing.stores.fixture import claim, finish, new


def _claim(**more: object) -> tuple[Write, Row]:
    """The claim of a queued call, and the call that runs then."""
    write = claim(new("c"))
    for name, value in more.items():
        setattr(write, name, value)
    assert write.row is not None
    return write, write.row


def test_what_builds_on_a_claim_goes_with_it() -> None:
    write, row = _claim()
    batch = Batch()
    assert batch.add(write)
    assert batch.add(finish(row))


@pytest.mark.parametrize("guard", [{"bounded": True}, {"serial": True}, {"revision": (0, 1)}])
def test_what_builds_on_a_claim_that_may_be_refused_alone_waits_for_it(guard: dict[str, object]) -> None:
    write, row = _claim(**guard)
    batch = Batch()
    assert batch.add(write)
    assert not batch.add(finish(row))
    assert batch.add(finish(replace(row, id="other"))), "another call has nothing to wait for"

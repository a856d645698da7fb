"""The index of calls against the log: whatever one says otherwise than the other is told, and nothing else."""

from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib._session.call_index import FoldedCall
from toolcrib.store import Row
from toolcrib.store.memory import MemoryStore
from toolcrib.testing.stores.fixture import AT, claim, commit, finish, new, park, submit

CHANGES: dict[str, dict[str, Any]] = {
    "tool": {"tool": "shop.pay"},
    "effect": {"effect": "read"},
    "state": {"state": "queued"},
    "accepted": {"accepted_at": AT + 1},
    "first event": {"accepted_seq": 2},
    "last event": {"done_seq": 9},
    "code": {"code": "failed"},
    "background": {"background": True},
    "parent": {"parent": "p"},
    "key": {"key": "k"},
}
WAITING: dict[str, dict[str, Any]] = {"question": {"question": "c-2"}, "expiry": {"expires_at": AT + 61}}


async def folded(waits: bool = False) -> tuple[FoldedCall, Row]:
    """A call that is done, or waits, as its log tells it, and its row."""
    store = MemoryStore()
    await store.open("s", "ada", AT)
    row = await commit(store, claim(await commit(store, submit(new("c")))))
    row = await commit(store, park(row) if waits else finish(row))
    first, *rest = await store.read("s")
    call = FoldedCall("s", first)
    for event in (first, *rest):
        call.take(event)
    return call, row


@requirement("store.4")
@pytest.mark.parametrize("name", [*CHANGES, *WAITING])
async def test_each_difference_of_log_and_index_is_told_by_its_name(name: str) -> None:
    call, row = await folded(name in WAITING)
    assert list(call.problems(row)) == []
    (problem,) = call.problems(row.but(**(CHANGES | WAITING)[name]))
    assert problem.startswith(f"{name}: the log says ")


@requirement("store.4")
async def test_times_are_the_same_as_far_as_a_database_keeps_them() -> None:
    call, row = await folded()
    assert list(call.problems(row.but(accepted_at=AT + 0.0005))) == []
    assert len(list(call.problems(row.but(accepted_at=AT + 0.002)))) == 1


@requirement("store.4")
async def test_who_ran_a_call_and_in_which_attempt_is_known_to_the_index_alone() -> None:
    call, row = await folded()
    assert list(call.problems(row.but(worker="w-2", attempt=7))) == []


@requirement("store.4")
async def test_a_log_without_a_row_or_without_a_beginning_or_with_two_ends_is_told() -> None:
    call, row = await folded()
    assert list(call.problems(None)) == ["is in the log, not in the index"]
    call.take(call.life.ends[0])
    assert "it ends with done, done" in list(call.problems(row))
    late = FoldedCall("s", call.life.ends[0])
    assert list(late.problems(row)) == ["its events begin with 'done', not with 'accepted'"]

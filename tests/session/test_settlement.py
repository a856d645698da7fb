"""Whoever looked says what came of a call that may have run."""

import asyncio
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Place, kinds, log
from toolcrib import Crib, Refused, Session, tool
from toolcrib.cli.verify import differences
from toolcrib.store import Conflict, Row, Write
from toolcrib.store.codec import Stored, encode


@tool(namespace="default")
async def pay(cents: int) -> int:
    """Pay."""
    return cents


async def lost(crib: Crib, id: str = "c1") -> Session:
    """A session with a call that a process that is gone had begun."""
    session = await crib.open("s", owner="ada")
    store, at = crib.store, 1.0
    said: dict[str, Any] = {
        "tool": "default.pay",
        "label": "Pay",
        "args": {"cents": 5},
        "by": {"kind": "user", "name": ""},
    }
    row = Row(id, "s", "default.pay", "once", "running", 1, "gone", at)
    begun: dict[str, Any] = {"attempt": 1, "args": {"cents": 5}, "digest": "d", "timeout_s": 60}
    events: list[Any] = [
        (at, id, "accepted", Stored(encode({**said, "digest": "d", "effect": "once"}))),
        (at, id, "started", Stored(encode(begun))),
    ]
    assert await store.commit(Write("s", events, row)) is None
    failure = {"code": "unknown", "message": "It may have run"}
    done = {"ok": False, "failure": failure, "duration_ms": 0}
    written = await store.call(id)
    assert written is not None
    end = Write(
        "s", [(at, id, "done", Stored(encode(done)))], written.but(state="done", code="unknown"), ("running", 1)
    )
    assert await store.commit(end) is None
    return session


async def test_who_looked_says_that_it_happened(place: Place) -> None:
    async with place.crib(pay) as crib:
        session = await lost(crib)
        await session.settle("c1", True, {"receipt": 7}, reason="the bank says so", actor="bob")
        result = await session.result("c1")
        assert (result.ok, result.data) == (True, {"receipt": 7})
        assert dict(result.metadata) == {"settled_by": "bob", "reason": "the bank says so"}
        assert (await session.status("c1")).status == "succeeded"
        assert await differences(crib.store, "s") == []


async def test_who_looked_says_that_it_did_not(place: Place) -> None:
    async with place.crib(pay) as crib:
        session = await lost(crib)
        await session.settle("c1", False, reason="nothing was booked")
        result = await session.result("c1")
        assert result.failure is not None
        assert (result.failure.code, result.failure.message) == ("failed", "It did not run: nothing was booked")
        assert result.metadata["settled_by"] == "ada"


async def test_only_what_nobody_knows_is_settled_and_that_once(place: Place) -> None:
    async with place.crib(pay) as crib:
        session = await lost(crib)
        known = await session.submit("pay", {"cents": 1})
        with pytest.raises(Refused, match="No such call"):
            await session.settle("c2", True)
        await session.settle("c1", True)
        for id in ("c1", known.id):
            if id == known.id:
                await session.cancel(id)
            with pytest.raises(Refused, match="is known") as caught:
                await session.settle(id, False)
            assert caught.value.code == "conflict"
        assert await differences(crib.store, "s") == []


@requirement("reliability.proof.11")
@pytest.mark.parametrize("happened", [True, False])
async def test_of_two_cribs_that_settle_a_call_at_once_one_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, happened: bool
) -> None:
    async with place.crib(pay) as one, place.crib(pay) as other:
        session, there = await lost(one), await other.open("s", owner="ada")
        reached, go, commit = asyncio.Event(), asyncio.Event(), one.store.commit

        async def slowly(write: Write) -> Conflict | None:
            if not reached.is_set():
                reached.set()
                await asyncio.wait_for(go.wait(), SOON)
            return await commit(write)

        monkeypatch.setattr(one.store, "commit", slowly)
        first = asyncio.ensure_future(session.settle("c1", happened, actor="ann"))
        await asyncio.wait_for(reached.wait(), SOON)
        with pytest.raises(Refused, match="Somebody else settles") as caught:
            await there.settle("c1", not happened, actor="bob")
        assert caught.value.code == "conflict"
        go.set()
        await first
        assert (await there.result("c1")).ok is happened
        assert kinds(await log(there, "c1")).count("settled") == 1
        assert await differences(other.store, "s") == []

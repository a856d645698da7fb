"""Turns of owners: nobody is held back alone, and nobody fills what is shared."""

import asyncio
import gc
from collections import Counter
from pathlib import Path

from tests.requirements import requirement
from toolcrib import Context, Crib, CribLimits, Session, tool
from toolcrib._call.live_call import LiveCall
from toolcrib._call.owner_turns import ActiveOwners, LoopTurns, OwnerTurns


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@requirement("security.fair.4")
def test_who_did_something_lately_is_active() -> None:
    active = ActiveOwners()
    assert not active.note("ada", 10.0)
    assert not active.note("ada", 10.5)
    assert active.note("bob", 10.6)
    assert active.note("ada", 11.0)
    assert not active.note("ada", 11.7)  # a second after the other's last time


@requirement("security.fair.4")
async def test_an_owner_alone_is_not_held_back() -> None:
    turns, entered = OwnerTurns(2, {}), 0
    for _ in range(100):
        await asyncio.wait_for(turns.enter("ada"), 10)
        entered += 1
    assert entered == 100


@requirement("security.fair.4")
async def test_beside_others_so_much_of_an_owner_is_under_way_and_the_rest_follows_in_order() -> None:
    turns, begun = OwnerTurns(2, {"eve": 2}), list[str]()

    async def use(owner: str, number: int) -> None:
        await turns.enter(owner)
        begun.append(f"{owner} {number}")

    await turns.enter("bob")
    uses = [asyncio.ensure_future(use(owner, number)) for owner in ("ada", "eve") for number in range(5)]
    await settle()
    assert begun == ["ada 0", "eve 0", "eve 1", "eve 2", "eve 3", "ada 1"]
    turns.leave("ada")
    await settle()
    assert begun[6:] == ["ada 2"]
    uses[3].cancel()
    for _ in range(2):
        turns.leave("ada")
    await settle()
    assert begun[7:] == ["ada 4"]
    turns.leave("eve")
    await asyncio.wait(uses)
    assert begun[8:] == ["eve 4"]


@requirement("security.fair.4")
async def test_a_busy_owner_has_as_much_under_way_as_the_others_have_to_do() -> None:
    turns, begun = OwnerTurns(4, {}), Counter[str]()

    async def use(owner: str) -> None:
        await turns.enter(owner)
        begun[owner] += 1

    await turns.enter("bob")
    uses = [asyncio.ensure_future(use("ada")) for _ in range(20)]
    await settle()
    assert begun == {"ada": 1}  # as the one thing of the other
    uses += [asyncio.ensure_future(use("eve")) for _ in range(20)]
    await settle()
    assert begun == {"ada": 4, "eve": 4}
    for owner in ("ada", "eve") * 18:
        turns.leave(owner)
        await settle()
    await asyncio.wait_for(asyncio.gather(*uses), 10)
    assert begun == {"ada": 20, "eve": 20}


@requirement("security.fair.4")
async def test_the_ends_of_reads_take_turns_too_where_others_do_something() -> None:
    turns = OwnerTurns(1, {})
    assert not turns.contended("ada")
    await turns.enter("bob")
    assert turns.contended("ada")


@requirement("security.fair.4")
async def test_a_turn_that_comes_while_its_taker_is_cancelled_goes_to_the_next() -> None:
    turns = OwnerTurns(1, {})
    await turns.enter("bob")
    await turns.enter("ada")
    first, second = (asyncio.ensure_future(turns.enter("ada")) for _ in range(2))
    await settle()
    turns.leave("ada")
    first.cancel()
    await asyncio.wait_for(second, 10)
    assert first.cancelled()


@requirement("security.fair.4")
async def test_a_call_of_one_owner_does_not_wait_for_all_commits_of_another(tmp_path: Path) -> None:
    starts: list[str] = []

    @tool
    async def pay(ctx: Context) -> int:
        """Pay."""
        starts.append(ctx.owner)
        return 1

    async with Crib([pay], store=f"sqlite:///{tmp_path}/log.db", limits=CribLimits(shared=True)) as crib:
        noisy = [await crib.open(owner="ada") for _ in range(50)]
        quiet = await crib.open(owner="bob")
        assert (await quiet.call("pay")).ok  # it is one of two owners who do something
        starts.clear()

        async def called(session: Session) -> bool:
            return (await session.call("pay")).ok

        assert all(await asyncio.gather(*map(called, [*noisy, quiet])))
        assert len(starts) == 51
        assert starts.index("bob") <= 8  # some commits of the other were under way


@requirement("security.fair.4")
async def test_the_end_of_a_quick_call_comes_before_what_busy_owners_wait_with() -> None:
    turns, begun = OwnerTurns(4, {}, soon_s=60), list[str]()

    async def use(owner: str, *, more: bool = False) -> None:
        await turns.enter(owner, more=more)
        begun.append(owner)

    await turns.enter("ada")
    await use("bob", more=True)
    busy = [asyncio.ensure_future(use("ada")) for _ in range(3)]
    await settle()
    turns.leave("ada")
    turns.leave("bob", more=True)
    await settle()
    assert begun == ["bob"]
    await use("bob")
    turns.leave("bob")
    assert begun == ["bob", "bob"]  # they are answered first
    await settle()
    assert begun == ["bob", "bob", "ada"]
    for one in busy:
        one.cancel()


@requirement("security.fair.4")
async def test_nobody_is_held_back_for_long_for_the_end_of_a_call() -> None:
    turns = OwnerTurns(4, {}, soon_s=0.001)
    await turns.enter("ada")
    await turns.enter("bob", more=True)
    busy = asyncio.ensure_future(turns.enter("ada"))
    await settle()
    turns.leave("ada")
    assert not busy.done()
    turns.leave("bob", more=True)
    await asyncio.wait_for(busy, 10)
    assert busy.done()


@requirement("security.fair.4")
async def test_busy_owners_go_on_between_two_calls_of_a_quick_one() -> None:
    turns, begun = OwnerTurns(4, {}), list[str]()

    async def use(owner: str) -> None:
        await turns.enter(owner)
        begun.append(owner)

    await turns.enter("ada")
    await turns.enter("bob", more=True)
    busy = [asyncio.ensure_future(use("ada")) for _ in range(3)]
    turns.leave("bob")
    turns.leave("ada")
    await turns.enter("bob", more=True)
    await settle()
    assert begun == ["ada"]
    turns.leave("ada")
    turns.leave("bob")
    await turns.enter("bob", more=True)  # nothing of the other began since
    await settle()
    assert begun == ["ada", "ada"]
    for one in busy:
        one.cancel()


async def ahead(commits: OwnerTurns) -> list[asyncio.Task[None]]:
    """Has `ada` be busy and `bob` begin a quick call; what of `ada` waits."""
    commits.contended("bob")
    await commits.enter("ada")
    busy = [asyncio.ensure_future(commits.enter("ada")) for _ in range(3)]
    await settle()
    await commits.enter("bob", more=True)
    return busy


@requirement("security.fair.4")
async def test_busy_owners_take_no_step_between_the_commits_of_a_quick_call() -> None:
    commits = OwnerTurns(4, {}, soon_s=60, held_s=60)
    rounds = LoopTurns({}, commits)
    busy = await ahead(commits)
    assert rounds.take("bob") is None
    step = rounds.take("ada")
    commits.leave("bob", more=True)
    await settle()
    assert step is not None
    assert not step.done()
    assert rounds.take("eve") is None  # who is not busy is not held back
    await commits.enter("bob")
    commits.leave("bob")
    await asyncio.wait_for(step, 10)
    for one in busy:
        one.cancel()


@requirement("security.fair.4")
async def test_a_commit_that_takes_long_holds_nobody_back() -> None:
    commits = OwnerTurns(4, {}, held_s=0.001)
    rounds = LoopTurns({}, commits)
    busy = await ahead(commits)
    assert rounds.take("bob") is None
    if (step := rounds.take("ada")) is not None:
        await asyncio.wait_for(step, 10)
    assert not busy[-1].done()  # while the commit of the other goes on
    for one in busy:
        one.cancel()


@requirement("security.fair.4")
async def test_calls_that_wake_up_at_once_end_in_turns_of_their_owners() -> None:
    gate, together, ends = asyncio.Event(), asyncio.Barrier(31), list[str]()

    @tool(read_only=True)
    async def wait(ctx: Context) -> int:
        """Wait."""
        await asyncio.sleep(0)
        if not gate.is_set():
            await together.wait()
        return 1

    async with Crib([wait], limits=CribLimits(shared=True)) as crib:
        sessions = [await crib.open(owner=owner) for owner in ("ada",) * 29 + ("bob", "ada")]

        async def called(session: Session) -> None:
            assert (await session.call("wait")).ok
            ends.append(session.owner)

        gate.set()
        await called(sessions[-2])  # it is one of two owners who do something
        gate.clear()
        ends.clear()
        await asyncio.gather(*map(called, sessions))
    assert len(ends) == 31
    assert ends.index("bob") <= 4


@requirement("security.fair.4")
async def test_a_call_that_is_over_is_let_go_before_its_deadline() -> None:
    @tool(read_only=True)
    async def pause() -> int:
        """Pause."""
        await asyncio.sleep(0)
        return 1

    def kept() -> int:
        return sum(isinstance(thing, LiveCall) for thing in gc.get_objects())

    async with Crib([pause]) as crib:
        session = await crib.open(owner="ada")
        gc.disable()  # which would have to find them otherwise, while everybody waits
        try:
            for _ in range(3):  # what earlier tests left goes first
                await session.call("pause")
                gc.collect()
            before = kept()
            for _ in range(20):
                assert (await session.call("pause")).ok
            assert kept() == before
        finally:
            gc.enable()


@requirement("security.fair.4")
async def test_the_garbage_collector_passes_over_what_a_store_in_memory_keeps() -> None:
    @tool(read_only=True)
    async def pause() -> int:
        """Pause."""
        await asyncio.sleep(0)
        return 1

    async with Crib([pause]) as crib:
        session = await crib.open(owner="ada")
        await session.call("pause")
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(50):
            await session.call("pause")
        gc.collect()
        assert len(gc.get_objects()) - before < 50

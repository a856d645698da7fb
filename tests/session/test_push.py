"""Push, not polling: idle sessions cost nothing, readers lose nothing, and no lock is held while a tool is asked."""

import asyncio
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, first, kinds, log, values
from toolcrib import Event, Session, tool


async def first_notice(session: Session) -> Event:
    return await first(session, "notice")


@requirement("aomi.push.1")
async def test_a_thousand_idle_sessions_cost_neither_a_task_nor_a_timer(place: Place) -> None:
    async with place.crib() as crib:
        loop = asyncio.get_running_loop()
        await crib.open(owner="ada")
        await asyncio.sleep(0.05)  # what opening the first one started has ended
        tasks, timers = len(asyncio.all_tasks()), len(loop._scheduled)  # type: ignore[attr-defined]
        sessions = [await crib.open(owner="ada") for _ in range(1000)]
        await asyncio.sleep(0.05)
        assert len(asyncio.all_tasks()) <= tasks
        assert len(loop._scheduled) <= timers + 1  # type: ignore[attr-defined]
        assert len(sessions) == 1000


@requirement("aomi.push.1")
async def test_story_7_a_thousand_readers_wait_for_nothing_and_each_has_its_event_at_once(file_place: Place) -> None:
    async with file_place.crib() as crib:
        sessions = [await crib.open(owner="ada") for _ in range(1000)]
        readers = [asyncio.create_task(first_notice(session)) for session in sessions]
        async with asyncio.timeout(SOON):  # until all of them have read what is there
            while await used_in_a_second() > 0.1:  # one hundredth on a calm machine
                continue
        await asyncio.gather(*(session.notice("hello") for session in sessions))
        events = await asyncio.wait_for(asyncio.gather(*readers), SOON)
        assert len(events) == 1000


async def used_in_a_second() -> float:
    """The seconds of a processor that this process needs while nothing happens."""
    used = time.process_time()
    await asyncio.sleep(1)
    return time.process_time() - used


@requirement("aomi.push.2")
async def test_a_reader_far_behind_reads_on_from_the_store(place: Place) -> None:
    @tool(read_only=True)
    async def pour() -> AsyncIterator[int]:
        """Pour."""
        for n in range(5000):
            yield n

    async with place.crib(pour) as crib:
        session = await crib.open(owner="ada")
        seen: list[Event] = []
        async for event in session.events():
            seen.append(event)
            if event.kind == "opened":
                assert (await session.call("pour")).ok  # all of it happens while this reader holds its first event
            if event.kind == "done":
                break
        assert values(seen) == list(range(5000))
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1))


@pytest.mark.process
async def test_a_follower_sees_what_another_process_writes_into_the_file(file_place: Place) -> None:
    program = f"""
        import asyncio
        from toolcrib import Crib

        async def main():
            async with Crib(store={file_place.url!r}) as crib:
                session = await crib.open("s-1", owner="ada")
                await session.notice("from afar")

        asyncio.run(main())
    """
    async with file_place.crib() as crib:
        session = await crib.open("s-1", owner="ada")
        reading = asyncio.create_task(first_notice(session))
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60
        )
        assert done.returncode == 0
        assert (await reading).fields["text"] == "from afar"
        await session.notice("from here")
        events = await log(session)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert kinds(events) == ["opened", "opened", "notice", "notice"]


@requirement("aomi.push.4")
async def test_no_lock_of_a_session_is_held_while_a_tool_is_asked_what_became_of_a_call(place: Place) -> None:
    gate, asked = Gate(), Gate()

    async def reconcile(ctx: object) -> str:
        await asked.passed()
        return "it had happened"

    @tool(reconcile=reconcile)
    async def pay() -> None:
        """Pay."""
        await gate.passed()

    other = place.crib(pay)
    async with place.crib(pay) as crib:
        await other.start()
        call = await (await other.open("s-1", owner="ada")).submit("pay")
        await gate.wait()
        await other.stop(grace=0)  # the call is left behind, and this crib is alive
        opening = asyncio.create_task(crib.open("s-1", owner="ada"))
        await asked.wait()
        session = await asyncio.wait_for(crib.open("s-1", owner="ada"), SOON)
        assert (await session.status(call.id)).status == "running"
        assert not opening.done()
        asked.opened.set()
        assert await opening is session
        assert (await session.result(call.id)).data == "it had happened"


@requirement("aomi.push.4")
async def test_everything_else_of_a_session_works_while_a_tool_of_it_runs(place: Place) -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        """Take a while."""
        await gate.passed()

    async with place.crib(slow) as crib:
        session = await crib.open("s-1", owner="ada")
        running = asyncio.create_task(session.call("slow"))
        await gate.wait()
        async with asyncio.timeout(SOON):
            assert await crib.open("s-1", owner="ada") is session
            await session.notice("meanwhile")
            await session.set_user({"address": "0xA"})
            assert len(await session.ongoing()) == 1
            assert await session.consume("ui", 1) == 1
        assert not running.done()
        gate.opened.set()
        assert (await running).ok

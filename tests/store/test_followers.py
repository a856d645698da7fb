"""What a store remembers of the sessions that somebody follows, and for how long."""

import asyncio

import pytest

from tests.requirements import requirement
from toolcrib.events import Event
from toolcrib.store import followers
from toolcrib.store.followers import Followers


async def newest() -> int:
    return 1


async def gone(made: Followers, session: str) -> None:
    """Returns when a session is let go; nobody tells."""
    async with asyncio.timeout(60):
        while session in made:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.005)


@requirement("aomi.push.3")
async def test_a_session_is_let_go_that_nobody_follows_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "LINGER_S", 0.01)
    made = Followers()
    waiting = asyncio.create_task(made.wait("s", 1, newest))
    for _ in range(3):
        await made.wait("t", 0, newest)
        assert "t" in made
        await gone(made, "t")
    assert "s" in made
    made.moved("s", 2)
    await asyncio.wait_for(waiting, 60)
    await gone(made, "s")
    assert not made.sessions


async def test_who_read_to_the_end_spares_the_next_a_look_unless_it_began_past_what_is_known() -> None:
    made, looks = Followers(), list[int]()

    async def look() -> int:
        looks.append(made.nudges)
        return 6

    await made.wait("s", 0, newest)
    made.nudge()
    made.read("s", 1, [Event(2, 0.0, None, "notice", b"{}")], made.nudges)
    await asyncio.wait_for(made.wait("s", 1, look), 60)
    assert looks == []
    made.nudge()
    made.read("s", 6, [], made.nudges)  # it knows nothing of what stands between 2 and 6
    await asyncio.wait_for(made.wait("s", 2, look), 60)
    assert looks == [2]

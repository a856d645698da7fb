import asyncio

from toolcrib import Crib, testing, tool


@tool(destructive=True)
def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"{disk} is empty"


@tool(timeout=30)
async def hang() -> None:
    """Hang."""
    await asyncio.Event().wait()


async def test_a_person_changes_the_arguments() -> None:
    async with testing.crib(wipe) as crib:
        session = await crib.open(owner="ada")
        script = {"default.wipe": testing.Reply("accept", arguments={"disk": "spare"}, actor="bob")}
        async with testing.answers(session, script) as answers:
            result = await session.call("wipe", {"disk": "main"})
        assert result.data == "spare is empty"
        assert [answer.actor for answer in answers.given] == ["bob"]


async def test_nobody_answers_for_a_day() -> None:
    async with testing.crib(wipe) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("wipe", {"disk": "main"})
        await crib.clock.advance(24 * 3600)
        assert (await session.status(call.id)).status == "timed_out"


async def test_a_tool_that_hangs_is_stopped() -> None:
    async with testing.crib(hang) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("hang")
        await crib.clock.advance(30)
        assert str((await session.result(call.id)).failure) == "[timeout] Timed out after 30 s"


async def test_a_question_survives_a_restart() -> None:
    async with Crib([wipe], store="sqlite:///test.db") as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("wipe", {"disk": "main"})
    async with Crib([wipe], store="sqlite:///test.db") as crib:
        session = await crib.open("s-1", owner="ada")
        async with testing.answers(session, {"confirm": "accept"}):
            assert (await session.result(call.id)).data == "main is empty"
        await testing.check_index(crib.store, "s-1")


if __name__ == "__main__":
    asyncio.run(test_a_person_changes_the_arguments())
    asyncio.run(test_nobody_answers_for_a_day())
    asyncio.run(test_a_tool_that_hangs_is_stopped())
    asyncio.run(test_a_question_survives_a_restart())

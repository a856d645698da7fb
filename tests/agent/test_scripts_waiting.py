"""Scripts that wait for people: nothing of them stays in memory, and they go on where they stopped."""

import asyncio
from typing import Any

import pytest

from tests.agent.place import World, calls, text, world
from tests.agent.test_scripts import WRITER, script
from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import Context, tool
from toolcrib._call import suspension
from toolcrib.agent import Agent, scripts
from toolcrib.agent.conversation import Conversation
from toolcrib.testing.clock import FakeClock
from toolcrib.testing.index_check import check_index

CODE = """
import random
first = await look(random.randrange(10 ** 9))
print("looked")
said = await pay(7)
second = await look(0)
[said, random.randrange(10 ** 9)]
"""


class Shop:
    """Tools that remember what they did."""

    def __init__(self) -> None:
        self.did: list[Any] = []

        @tool(idempotent=True)
        async def look(n: int) -> int:
            """Look."""
            self.did.append(n)
            return n

        @tool(requires_confirmation=True)
        async def pay(cents: int) -> str:
            """Pay."""
            self.did.append("paid")
            return f"paid {cents}"

        self.tools = (look, pay)


async def accept(here: World) -> Any:
    await here.session.answer((await here.question()).id, "accept", actor="bob")
    return await here.settled()


async def test_a_script_that_waits_goes_on_after_a_restart_where_it_stopped(file_place: Place) -> None:
    shop = Shop()
    async with world(file_place, [WRITER], script(CODE), *shop.tools) as here:
        outcome = await here.send("go")
        assert (outcome.status, [one.tool for one in outcome.questions]) == ("waiting", ["default.pay"])
        assert here.session.live == {}
        (step,) = await here.log("step")
        assert step.fields["value"]["bytes"] < 16_000
    assert len(shop.did) == 1
    async with world(file_place, [WRITER], script(CODE), *shop.tools) as here:
        assert here.session.live == {}
        outcome = await accept(here)
        done = await here.result("run_script")
        await check_index(here.session.crib.store, "s")
    assert outcome.answer == "so"
    assert done["data"]["result"][0] == "paid 7"
    assert done["data"]["printed"] == "looked\n"
    assert shop.did[1:] == ["paid", 0]


async def test_a_script_without_a_recorded_state_runs_again_and_finds_what_it_did(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "STATE", 0)
    shop = Shop()
    async with world(place, [WRITER], script(CODE), *shop.tools) as here:
        await here.send("go")
        assert await here.log("step") == []
        await accept(here)
        done = await here.result("run_script")
    assert shop.did[1:] == ["paid", 0]
    assert done["data"]["printed"] == "looked\n"


async def test_several_calls_wait_at_once_and_are_answered_in_any_order(place: Place) -> None:
    shop = Shop()
    code = "import asyncio\nawait asyncio.gather(pay(1), look(5), pay(2))"
    async with world(place, [WRITER], script(code), *shop.tools) as here:
        outcome = await here.send("go")
        first, second = outcome.questions
        assert (first.arguments, second.arguments) == ({"cents": 1}, {"cents": 2})
        await here.session.answer(second.id, "accept")
        outcome = await here.settled()
        assert (outcome.status, [one.id for one in outcome.questions]) == ("waiting", [first.id])
        assert here.session.live == {}
        await here.session.answer(first.id, "accept")
        await here.settled()
        done = await here.result("run_script")
        await check_index(here.session.crib.store, "s")
    assert done["data"]["result"] == ["paid 1", 5, "paid 2"]
    assert shop.did == [5, "paid", "paid"]


async def test_a_call_that_waits_does_not_keep_others_from_going_on(place: Place) -> None:
    shop = Shop()
    code = (
        "import asyncio\nasync def both():\n    return [await look(1), await look(2), await look(3)]\n"
        "await asyncio.gather(pay(1), both())"
    )
    async with world(place, [WRITER], script(code), *shop.tools) as here:
        await here.send("go")
        assert shop.did == [1, 2, 3]
        await accept(here)
        done = await here.result("run_script")
    assert done["data"]["result"] == ["paid 1", [1, 2, 3]]
    assert shop.did == [1, 2, 3, "paid"]


async def test_a_script_of_an_agent_below_waits_too(file_place: Place) -> None:
    shop = Shop()
    team = [Agent(name="boss", sub_agents=["main"], tools=[]), WRITER]
    said = {"boss": [calls(("call_agent", {"agent": "main", "prompt": "p"})), text("all")], **script("await pay(3)")}
    async with world(file_place, team, said, *shop.tools) as here:
        outcome = await here.send("go")
        assert (outcome.status, [one.path for one in outcome.questions]) == ("waiting", [("boss", "main")])
    async with world(file_place, team, said, *shop.tools) as here:
        outcome = await accept(here)
        done = await here.result("run_script")
    assert (outcome.answer, done["data"]) == ("all", {"result": "paid 3"})
    assert shop.did == ["paid"]


async def test_who_reads_the_log_alone_sees_what_a_script_waits_for(place: Place) -> None:
    shop, seen = Shop(), list[tuple[str, Any]]()
    async with world(
        place, [WRITER], script("import asyncio\nawait asyncio.gather(pay(1), pay(2))"), *shop.tools
    ) as here:
        outcome = await here.send("go")
        first, second = [one.id for one in outcome.questions]
        for id in (first, second):
            await here.session.answer(id, "accept")
            await here.settled()
        thread = Conversation()
        for event in await here.log():
            thread.advance(event)
            if event.kind in ("paused", "answered"):
                assert thread.foreground is not None
                seen.append((event.kind, thread.questions(thread.foreground)))
    assert seen[:2] == [("paused", [first, second]), ("answered", None)]
    assert [what for what, _ in seen if what == "answered"] == ["answered"] * 2


async def test_a_script_is_told_what_an_approver_changed(place: Place) -> None:
    shop = Shop()
    async with world(place, [WRITER], script("await pay(1000)"), *shop.tools) as here:
        await here.send("go")
        await here.session.answer((await here.question()).id, "accept", arguments={"cents": 1})
        await here.settled()
        done = await here.result("run_script")
    assert done["data"]["result"] == "paid 1"
    assert 'Arguments of default.pay were changed before running: {"cents":1}' in done["data"]["printed"]


async def test_a_process_without_agents_answers_and_leaves_the_script_to_one_that_has_them(file_place: Place) -> None:
    shop = Shop()
    async with world(file_place, [WRITER], script("await pay(1)"), *shop.tools) as here:
        await here.send("go")
    async with file_place.crib(*shop.tools) as crib:
        session = await crib.open("s", owner="ada")
        (question,) = await session.questions()
        await session.answer(question.id, "accept")
        assert (await session.result(question.call)).data == "paid 1"
    async with world(file_place, [WRITER], script("await pay(1)"), *shop.tools) as here:
        outcome = await here.settled()
        assert (outcome.answer, (await here.result("run_script"))["data"]) == ("so", {"result": "paid 1"})


async def test_what_is_declined_can_be_caught(place: Place) -> None:
    shop = Shop()
    code = "try:\n    await pay(1)\nexcept RuntimeError as error:\n    said = str(error)\nsaid"
    async with world(place, [WRITER], script(code), *shop.tools) as here:
        await here.send("go")
        await here.session.answer((await here.question()).id, "decline", reason="too much")
        await here.settled()
        done = await here.result("run_script")
    assert done["data"]["result"] == "declined: too much"


async def test_a_tool_that_asks_in_its_middle_is_waited_for_too(place: Place) -> None:
    @tool(idempotent=True)
    async def choose(ctx: Context) -> Any:
        """Choose."""
        return (await ctx.ask("Which?")).value

    async with world(place, [WRITER], script("[await choose(), 1]"), choose) as here:
        outcome = await here.send("go")
        assert here.session.live == {}
        await here.session.answer(outcome.questions[0].id, "accept", "this")
        await here.settled()
        assert (await here.result("run_script"))["data"]["result"] == ["this", 1]


@requirement("contract.ctx.11")
async def test_the_nodes_of_a_script_and_of_the_call_that_it_waits_for_say_so(place: Place) -> None:
    shop = Shop()
    async with world(place, [WRITER], script("await pay(1)"), *shop.tools) as here:
        outcome = await here.send("go")
        assert [node["status"] for node in await here.session.progress()] == ["waiting", "waiting"]
        await here.session.answer(outcome.questions[0].id, "accept")
        await here.settled()
        assert [node["status"] for node in await here.session.progress()] == ["done", "done"]


async def test_a_script_stays_where_it_is_while_what_it_waits_for_asks_once_more(place: Place) -> None:
    @tool(idempotent=True)
    async def choose(ctx: Context) -> Any:
        """Choose twice."""
        return [(await ctx.ask("Which?", key="which")).value, (await ctx.ask("Sure?", key="sure")).value]

    async with world(place, [WRITER], script("await choose()"), choose) as here:
        (first,) = (await here.send("go")).questions
        await here.session.answer(first.id, "accept", "this")
        await here.seen("waiting", times=2)
        second = await here.question()
        assert second.prompt == "Sure?"
        await here.session.answer(second.id, "accept", "yes")
        await here.settled()
        assert (await here.result("run_script"))["data"]["result"] == ["this", "yes"]
        assert len(await here.log("paused")) == 1


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_a_script_that_waits_ends_with_what_it_waits_for(place: Place, how: str) -> None:
    shop = Shop()
    async with world(place, [WRITER], script("await pay(1)"), *shop.tools) as here:
        await here.send("go")
        parent = next(event.call for event in await here.log("paused"))
        if how == "cancel":
            assert await here.session.cancel(parent or "")
        else:
            await here.session.interrupt()
        await here.settled()
        codes = [event.fields["failure"]["code"] for event in await here.log("done")]
        assert codes == ["cancelled", "cancelled"]
        assert await here.session.questions() == []
        await check_index(here.session.crib.store, "s")
    assert shop.did == []


async def test_an_interruption_leaves_the_script_of_an_agent_in_the_background_alone(place: Place) -> None:
    shop = Shop()
    team = [Agent(name="boss", sub_agents=["main"], tools=[]), WRITER]
    asked = calls(("call_agent", {"agent": "main", "prompt": "p", "mode": "background"}))
    said = {"boss": [asked, text("later"), text("now")], **script("await pay(3)")}
    async with world(place, team, said, *shop.tools) as here:
        await here.send("go")
        await here.seen("paused")
        await here.session.interrupt()
        await here.session.answer((await here.question()).id, "accept")
        await here.seen("run_finished", answer="now")
        assert (await here.result("run_script"))["data"] == {"result": "paid 3"}


async def test_a_script_that_runs_is_cancelled_with_its_calls(place: Place) -> None:
    shop, begun, stopped = Shop(), asyncio.Event(), asyncio.Event()

    @tool(read_only=True)
    async def wait() -> None:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with world(
        place, [WRITER], script("import asyncio\nawait asyncio.gather(pay(1), wait())"), wait, *shop.tools
    ) as here:
        sending = asyncio.ensure_future(here.send("go"))
        await here.seen("waiting")
        await begun.wait()
        await here.session.interrupt()
        await stopped.wait()
        outcome = await sending
        assert outcome.reason == "cancelled"
        assert await here.session.questions() == []
        assert len(await here.log("done")) == 3
        await check_index(here.session.crib.store, "s")


async def test_a_logout_leaves_a_script_that_waits_alone(file_place: Place) -> None:
    shop = Shop()
    async with world(file_place, [WRITER], script("await pay(1)"), *shop.tools) as here:
        await here.send("go")
        closed = await here.session.close()
        assert (closed.timed_out, closed.waiting) == (0, 2)
        here.session = await here.session.crib.open("s", owner="ada")
        await accept(here)
        assert (await here.result("run_script"))["data"] == {"result": "paid 1"}


async def test_a_script_whose_child_ended_unheard_is_looked_after(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a process dies between the end of a child and what follows."""
    shop, clock = Shop(), FakeClock()

    async def unheard(*_: Any) -> None:
        """Nobody is told."""

    monkeypatch.setattr("toolcrib._call.pipeline.child_ended", unheard)
    async with world(place, [WRITER], script("await pay(1)"), *shop.tools, clock=clock) as here:
        await here.send("go")
        await clock.advance(suspension.LOOK_S + 1)
        await here.session.answer((await here.question()).id, "accept")
        await here.seen("done")
        assert len(await here.log("done")) == 1
        await clock.advance(4 * suspension.LOOK_S)
        await here.settled()
        assert (await here.result("run_script"))["data"] == {"result": "paid 1"}

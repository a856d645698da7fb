"""Who shares a process or connection of a server: nobody sees, hears or is asked what was another's."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import psutil
import pytest

from tests.requirements import requirement
from tests.sources.mcp.place import asked, code, kit, message, opened, raw, served
from toolcrib import BadTool, Crib, Session
from toolcrib.sources.mcp import Mcp

pytestmark = pytest.mark.process

RED = {"color": "red"}


async def bob_in(crib: Crib, id: str = "b", owner: str = "bob") -> Session:
    return await crib.open(id, owner=owner, namespaces=["raw"])


async def pid(session: Session) -> str:
    told: str = (await session.call("raw.pid", {})).data
    return told


@requirement("gateway.share.1")
async def test_what_one_owner_left_in_a_server_is_not_shown_to_another() -> None:
    async with opened(raw()) as (crib, ada):
        bob = await bob_in(crib)
        await ada.call("raw.remember", {"text": "the page of ada"})
        assert (await bob.call("raw.recall", {})).data == "[]"
        assert (await ada.call("raw.recall", {})).data == '["the page of ada"]'


@requirement("gateway.share.1")
@pytest.mark.parametrize(
    ("share", "owner", "same"),
    [
        (None, "ada", False),
        ("session", "ada", False),
        ("owner", "ada", True),
        ("owner", "bob", False),
        ("all", "bob", True),
    ],
)
async def test_a_source_says_who_shares_a_process(share: str | None, owner: str, same: bool) -> None:
    async with opened(raw(share=share)) as (crib, ada):
        other = await bob_in(crib, owner=owner)
        assert (await pid(ada) == await pid(other)) is same


@requirement("gateway.share.1")
async def test_a_server_of_the_newest_revision_is_shared_since_each_request_stands_alone() -> None:
    async with opened(raw("modern")) as (crib, ada):
        assert await pid(ada) == await pid(await bob_in(crib))


@requirement("gateway.share.1")
async def test_credentials_of_owners_cannot_be_shared_by_all() -> None:
    with pytest.raises(BadTool, match="share"):
        Mcp("https://host.example/mcp", tokens={"ada": "a"}, share="all")
    with pytest.raises(BadTool, match="share"):
        raw(share="everybody")


@requirement("gateway.share.1")
async def test_an_older_server_over_http_has_a_connection_for_each_session() -> None:
    async with served("http2025") as port, opened(Mcp(f"http://127.0.0.1:{port}/mcp", name="raw")) as (crib, ada):
        bob = await bob_in(crib)
        told = [(await session.call("raw.connection", {})).data for session in (ada, bob, ada)]
        assert told[0] == told[2] != told[1]


@requirement("gateway.share.1")
async def test_the_first_session_uses_the_process_that_listed_the_tools(tmp_path: Any) -> None:
    starts = tmp_path / "starts"
    async with opened(raw(env={"STARTED": str(starts)})) as (_, ada):
        await pid(ada)
        assert starts.read_text().count("started") == 1


@requirement("gateway.share.2")
async def test_a_question_without_a_call_is_put_to_nobody_where_several_are_at_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(raw(share="all")) as (crib, ada):
        bob = await bob_in(crib)
        waiting = await ada.submit("raw.ask", {})
        question = await asked(ada, waiting.id)
        with caplog.at_level(logging.WARNING, "toolcrib.mcp"):
            stirred = await bob.call("raw.stir", {})
        assert stirred.data == "error"
        assert "raw asked" in caplog.text
        assert "Which more?" not in caplog.text
        await ada.answer(question["id"], "accept", RED)
        assert (await ada.result(waiting.id)).data == "red"


@requirement("gateway.share.2")
async def test_a_log_line_without_a_call_is_told_to_nobody_where_several_are_at_work() -> None:
    async with opened(raw(share="all")) as (crib, ada):
        bob = await bob_in(crib)
        await ada.call("raw.remember", {"text": "a secret of ada"})
        waiting = await ada.submit("raw.ask", {})
        await asked(ada, waiting.id)
        await bob.call("raw.stir", {})
        told = [event.fields async for event in bob.events(follow=False)]
        assert "a secret of ada" not in str(told)


@requirement("gateway.share.2")
async def test_a_call_that_was_given_up_still_counts_as_being_at_work() -> None:
    async with opened(raw(share="all")) as (crib, ada):
        bob = await bob_in(crib)
        waiting = await ada.submit("raw.hang", {})
        async for event in ada.events(call=waiting.id):
            if event.kind == "started":
                break
        await ada.cancel(waiting.id)
        await ada.result(waiting.id)
        assert (await bob.call("raw.ask", {})).data == "error"


@requirement("gateway.share.2")
async def test_two_questions_of_one_call_reach_who_made_it() -> None:
    async with opened(raw(share="all")) as (_, ada):
        waiting = await ada.submit("raw.ask", {})
        first = await asked(ada, waiting.id)
        more = await ada.submit("raw.stir", {})
        second = await asked(ada, more.id)
        await ada.answer(second["id"], "accept", {"color": "blue"})
        await ada.answer(first["id"], "accept", RED)
        assert (await ada.result(more.id)).data == "blue"
        assert (await ada.result(waiting.id)).data == "red"


@requirement("gateway.share.3")
async def test_the_longest_idle_process_makes_room_for_a_new_one() -> None:
    async with opened(raw(connections=2)) as (crib, ada):
        bob, eve = await bob_in(crib), await bob_in(crib, "e", "eve")
        first, second = await pid(ada), await pid(bob)
        assert await pid(ada) == first
        await pid(eve)
        assert await pid(ada) == first
        assert await pid(bob) != second


@requirement("gateway.share.3")
async def test_where_all_processes_are_at_work_a_new_one_is_refused_and_says_why() -> None:
    async with opened(raw(connections=1)) as (crib, ada):
        bob = await bob_in(crib)
        waiting = await ada.submit("raw.ask", {})
        question = await asked(ada, waiting.id)
        refused = await bob.call("raw.pid", {})
        assert code(refused) == "unavailable"
        assert "1 of 1 connections" in message(refused)
        await ada.answer(question["id"], "accept", RED)
        assert (await ada.result(waiting.id)).data == "red"
        assert (await bob.call("raw.pid", {})).ok


@requirement("gateway.share.3")
async def test_a_process_that_nobody_uses_is_ended_and_forgotten() -> None:
    source = raw(idle_s=0.3)
    async with opened(source) as (crib, ada):
        bob = await bob_in(crib)
        processes = [psutil.Process(int(await pid(session))) for session in (ada, bob)]
        _, left = await asyncio.to_thread(psutil.wait_procs, processes, 60)
        assert left == []
        assert source.server.connections == 0
        assert (await ada.call("raw.pid", {})).ok


@requirement("gateway.share.3")
async def test_tools_that_a_process_added_are_listed_as_long_as_it_runs() -> None:
    source = raw(idle_s=0.5)
    async with opened(source) as (crib, ada):
        bob = await bob_in(crib)
        changed = asyncio.Event()
        crib.catalog.listen(changed.set)
        hanging = await ada.submit("raw.hang", {})
        before = {tool.id for tool in crib.catalog.view(("raw",)).tools}
        await bob.call("raw.grow", {})
        await asyncio.wait_for(changed.wait(), 60)
        (new,) = {tool.id for tool in crib.catalog.view(("raw",)).tools} - before
        changed.clear()
        await asyncio.wait_for(changed.wait(), 60)
        assert new not in {tool.id for tool in crib.catalog.view(("raw",)).tools}
        await ada.cancel(hanging.id)


@requirement("gateway.share.2")
@pytest.mark.parametrize("kind", ["stdio", "http2025"])
@pytest.mark.parametrize("share", ["session", "owner", "all"])
async def test_what_is_said_and_asked_while_two_people_are_at_work_reaches_each_alone(kind: str, share: Any) -> None:
    async with AsyncExitStack() as stack:
        source = kit(share=share, revision="older")
        if kind == "http2025":
            port = await stack.enter_async_context(served(kind))
            source = Mcp(f"http://127.0.0.1:{port}/mcp", name="kit", required=True, share=share)
        crib, ada = await stack.enter_async_context(opened(source))
        people = {"ada": ada, "bob": await crib.open("b", owner="bob", namespaces=["kit"])}
        one_pipe = (kind, share) == ("stdio", "all")  # nothing on it says which call is meant
        together = 1 if kind == "stdio" and not one_pipe else 2
        calls = {
            name: await session.submit("kit.talk", {"name": name, "together": together})
            for name, session in people.items()
        }
        for name, session in people.items():
            if not one_pipe:
                question = await asked(session, calls[name].id)
                assert question["prompt"].endswith(f"question of {name}")
                await session.answer(question["id"], "accept", {"color": f"color of {name}"})
        for name, session in people.items():
            result = await session.result(calls[name].id)
            assert result.data == (f"{name} was not asked" if one_pipe else f"{name}: color of {name}")
            heard = str([event.fields async for event in session.events(follow=False)])
            assert f"progress of {name}" in heard
            assert ("log of" in heard) is not one_pipe
            (other,) = people.keys() - {name}
            assert f" of {other}" not in heard

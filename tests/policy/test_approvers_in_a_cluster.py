"""Where machines share a store: people agree at several nodes, others are asked by any, and pins are seen by all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.policy.test_fingerprints import Stranger, changed, opened, policy, read_file
from tests.requirements import requirement
from tests.session.place import first
from toolcrib import Crib, Tool, tool
from toolcrib.engine.nats import Nats

RULE = {"ask": "pay", "approvers": ["ann", "bob", "cid"], "quorum": 2, "escalate": {"after_s": 0.2, "to": "lead"}}


@pytest.fixture
def urls(postgres_url: str, nats_url: str) -> tuple[str, str]:
    return postgres_url, nats_url


def pay(ran: list[str]) -> Tool:
    @tool(effect="once")
    async def pay(order: str) -> str:
        """Pay."""
        ran.append(order)
        return order

    return pay


@asynccontextmanager
async def nodes(urls: tuple[str, str], ran: list[str]) -> AsyncIterator[list[Crib]]:
    """An API node and two workers."""
    async with AsyncExitStack() as stack:
        made = []
        for name in ("api", "w1", "w2"):
            engine = Nats(urls[1], work=name != "api", label=name)
            crib = Crib([pay(ran)], store=urls[0], engine=engine, policy={"rules": [RULE]})
            made.append(await stack.enter_async_context(crib))
        yield made


async def asked(session: Any, call: str) -> str:
    return str((await first(session, "waiting", call)).fields["question"]["id"])


@requirement("policy.approve.5")
async def test_people_who_agree_at_different_nodes_at_once_let_a_call_run_once(urls: tuple[str, str]) -> None:
    ran: list[str] = []
    async with nodes(urls, ran) as (api, *workers):
        here = await api.open("s", owner="ada")
        there = [await crib.open("s", owner="ada") for crib in workers]
        for number in range(5):
            call = await here.submit("pay", {"order": str(number)})
            question = await asked(here, call.id)
            both = zip(there, ("ann", "bob"), strict=True)
            given = await asyncio.gather(*(one.answer(question, "accept", actor=actor) for one, actor in both))
            assert [one.actor for one in given] == ["ann", "bob"]
            assert (await asyncio.wait_for(here.result(call.id), 30)).ok
            events = [event.kind async for event in here.events(call=call.id, follow=False)]
            assert events.count("answered") == events.count("started") == 1
    assert sorted(ran) == ["0", "1", "2", "3", "4"]


@requirement("policy.approve.5")
async def test_others_are_asked_at_every_node(urls: tuple[str, str]) -> None:
    ran: list[str] = []
    async with nodes(urls, ran) as (api, worker, _):
        here, there = await api.open("s", owner="ada"), await worker.open("s", owner="ada")
        call = await here.submit("pay", {"order": "A"})
        question = await asked(here, call.id)
        await first(there, "escalated", call.id)
        await there.answer(question, "accept", actor="lead")
        await here.answer(question, "accept", actor="cid")
        assert (await asyncio.wait_for(here.result(call.id), 30)).ok
    assert ran == ["A"]


@requirement("policy.pin.1")
async def test_what_is_accepted_at_one_machine_counts_at_the_other(postgres_url: str) -> None:
    far = Stranger(read_file())
    async with Crib([far], store=postgres_url, policy=policy("deny")) as here:
        session = await opened(here)
        far.says(read_file(description="x"))
        assert changed(here) == ("description",)
        seen = (await first(session, "tools_changed")).seq
        async with Crib([Stranger(read_file(description="x"))], store=postgres_url, policy=policy("deny")) as there:
            assert changed(there) == ("description",)
            await there.accept(actor="bob")
        await first(session, "tools_changed", after=seen)
        assert changed(here) == ()

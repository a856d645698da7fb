"""Cases from Aomi: what its handler, its plugins and its models' calls did, and what ours do."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import first, follow, log, values
from tests.shared import case_data
from toolcrib import By, Context, Crib, Session, StreamClosed, Tool, tool


def cases(*groups: str) -> list[Any]:
    found = case_data("aomi/cases.jsonl")
    return [pytest.param(case, id=case["id"]) for case in found if case["group"] in groups]


def make(said: dict[str, Any]) -> Tool:
    """The tool that a case describes."""
    if said["kind"] == "single":

        @tool(read_only=True)
        async def single(ctx: Context) -> Any:
            """Give one value."""
            return ctx.session if said["value"] == "own session id" else said["value"]

        return single

    @tool(read_only=True, name=said["kind"])
    async def stream(ctx: Context) -> AsyncIterator[Any]:
        """Give chunks, then end as described."""
        for chunk in said["chunks"]:
            yield chunk
        if said.get("then") == "close":
            raise StreamClosed
        if said.get("then") == "hang":
            try:
                await asyncio.Event().wait()
            finally:
                ctx.output("late")

    return stream


async def act(session: Session, name: str, steps: list[str]) -> str:
    call = await session.submit(name)
    if "wait_output" in steps:
        await first(session, "output", call.id)
    if "cancel" in steps:
        assert await session.cancel(call.id)
    return call.id


@requirement("aomi.tool.2", "aomi.orphan.1")
@pytest.mark.parametrize("case", cases("handler"))
async def test_a_handler_of_aomi(case: dict[str, Any]) -> None:
    given, expect = case["input"], case["expect"]
    made = make(given["tool"])
    async with Crib([made]) as crib:
        sessions = [await crib.open(owner="ada") for _ in range(given.get("sessions", 1))]
        ids = [await act(session, made.name, given.get("do", [])) for session in sessions]
        for session, id in zip(sessions, ids, strict=True):
            events = await follow(session, id)
            if "each_session_sees" in expect:
                assert events[-1].fields["data"] == session.id
                assert {event.call for event in await log(session)} == {None, id}
                continue
            done = events[-1].fields
            assert values(e for e in events if "value" in e.fields) == expect["outputs"]
            ended = {"ok": done["ok"], "data": done.get("data"), "code": done.get("failure", {}).get("code")}
            assert {name: ended[name] for name in expect["done"]} == expect["done"]
            assert len(await session.ongoing()) + len(await session.unresolved()) == expect.get("open_after", 0)


@requirement("aomi.path.5")
@pytest.mark.parametrize("case", cases("sdk.start"))
async def test_a_plugin_that_panics_is_contained(case: dict[str, Any]) -> None:
    @tool(read_only=True)
    async def panic(yes: bool = True) -> str:
        """Panic."""
        if yes:
            raise RuntimeError("the exception's text")
        return "works"

    async with Crib([panic]) as crib:
        session = await crib.open(owner="ada")
        failed = (await session.call("panic")).failure
        assert failed is not None
        assert failed.code == case["expect"]["code"]
        assert case["expect"]["message_not_contains"] not in str(failed)
        assert (await session.call("panic", {"yes": False})).data == case["expect"]["next_call"]


@requirement("aomi.topic.3")
@pytest.mark.parametrize("case", cases("with_topic.call"))
async def test_the_call_of_a_model_is_parsed(case: dict[str, Any]) -> None:
    @tool(read_only=True)
    async def get_erc20_balance(
        chain_id: int, token_address: str, holder_address: str, tag: str = "latest"
    ) -> dict[str, Any]:
        """Look up a balance."""
        return {"chain_id": chain_id, "token_address": token_address, "holder": holder_address, "tag": tag}

    async with Crib([get_erc20_balance]) as crib:
        session = await crib.open(owner="ada")
        result = await session.call(case["input"]["tool"], case["input"]["args"], by=By("agent", "bot"))
        assert result.ok
        parsed = case["expect"]["parsed"]
        assert {name: result.data[name] for name in parsed} == parsed

"""Writes a log with every kind of event: `python -m tests.logs.record URL`, over an empty store.

Version 0.1.0 wrote the recorded logs with it, and they are never written again: a later version that writes other
events gets files of its own beside them.
"""

import asyncio
import subprocess
import sys
from dataclasses import replace
from typing import Any

from tests.logs import shop
from tests.session.place import first
from toolcrib import Crib, Session, tool
from toolcrib.catalog.fingerprints import Fingerprints
from toolcrib.serve.keyring import Keyring
from toolcrib.serve.mcp import questions

CLIENT_TOOL = {"name": "pick", "description": "Pick.", "input_schema": {"type": "object", "properties": {}}}


@tool(read_only=True)
async def stranger() -> None:
    """Look like a tool of somebody else."""


async def record(url: str) -> None:
    """All of it, one after the other."""
    await _die(url)
    async with shop.crib(url) as crib:
        await _stop_elsewhere(crib, url)
        await _settle(crib)
        await _calls(crib)
        await _waiting(crib)
        await _session(crib)
        await _agents(crib)
        await _owned(crib)


async def _die(url: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.logs.record", url, "die")
    assert await process.wait() == 9


async def _child(url: str, how: str) -> None:
    async with shop.crib(url) as crib:
        session = await crib.open(how, owner="ada")
        await session.call("hang", {"how": how})


async def _settle(crib: Crib) -> None:
    """A call whose process died in the middle, of which somebody says what came of it."""
    session = await crib.open("die", owner="ada")
    (row,) = await crib.store.calls("die")
    assert (await session.result(row.id)).failure is not None
    await session.settle(row.id, True, {"ran": True}, reason="I looked", actor="ann")


async def _stop_elsewhere(crib: Crib, url: str) -> None:
    """A call that another process runs is stopped by way of the log."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.logs.record", url, "hang", stdout=subprocess.DEVNULL
    )
    while await crib.store.session("hang") is None:  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(0.1)
    session = await crib._session_table.attached("hang")
    assert session is not None
    started = await first(session, "started")
    assert await session.cancel(started.call or "")
    await process.wait()


async def _calls(crib: Crib) -> None:
    """Calls of each kind that come to their end."""
    session = await crib.open("calls", owner="ada")
    await session.call("look_up", {"order": "A-7"}, label="look at it", provider_id="p-1")
    await session.call("look_up", {"order": "secret"})
    await session.call("look_up", {"ordr": 1})
    await session.call("nothing", {})
    await session.call("fail", {"code": "x"})
    await session.call("report", {"rows": 2}, key="k-1")
    await session.call("large")
    await session.call("export")
    await first(session, "done", (await session.completed())[-1].id)
    refund = await session.submit("refund", {"order": "A-7"})
    question = f"{refund.id}-1"
    await session.answer(question, "accept", actor="ann", key="a-1")
    await first(session, "escalated", refund.id)
    await session.answer(question, "accept", actor="cleo", reason="fine")
    assert (await session.result(refund.id)).ok
    await _answered(session, "choose", {"things": ["a", "b"]}, "accept", "b")
    await _answered(session, "choose", {"things": ["a", "b"]}, "decline", reason="neither")
    await _answered(session, "ship", {"order": "A-7"}, "accept", arguments={"order": "A-8"}, actor="bob")
    await _answered(session, "pay", {"cents": 1}, "accept", scope="session")


async def _answered(session: Session, tool: str, args: Any, action: str, value: Any = None, **more: Any) -> None:
    call = await session.submit(tool, args)
    waiting = await first(session, "waiting", call.id)
    await session.answer(waiting.fields["question"]["id"], action, value, **more)
    await session.result(call.id)


async def _waiting(crib: Crib) -> None:
    """Calls that wait, for whoever opens the log later."""
    session = await crib.open("waiting", owner="ada", namespaces=["default", "client"])
    await session.offer([CLIENT_TOOL])
    calls: tuple[tuple[str, Any], ...] = (
        ("refund", {"order": "B-1"}),
        ("pay", {"cents": 2}),
        ("ship", {"order": "B-2"}),
        ("choose", {"things": ["a", "b"]}),
        ("pick", {}),
    )
    for name, args in calls:
        call = await session.submit(name, args)
        await first(session, "waiting", call.id)
        if name == "refund":
            await session.answer(f"{call.id}-1", "accept", actor="ann")
            await first(session, "escalated", call.id)
    asked = replace((await session.questions())[-1], data={"mcp": {"one": {}, "two": {}}})
    opened = questions.Open(asked, {"one": {}, "two": {}}, {}, ())
    await questions._answer(session, opened, {"one": {"action": "accept", "content": {"n": 1}}}, "ada")


async def _session(crib: Crib) -> None:
    """What concerns a session itself."""
    session = await crib.open("session", owner="ada", grants=["tool:*"])
    await session.set_user({"name": "Ada", "page": {"url": "https://example.org"}})
    await session.notice("Something happened", level="info")
    await session.error("Something went wrong", code=7)
    await session.narrow(namespaces=["default"], grants=["tool:default.*"])
    await session.offer([])
    await session.interrupt(background=True)
    await session.close()
    await crib.open("doomed", owner="ada")
    await crib.delete_session("doomed", actor="ann")


async def _agents(crib: Crib) -> None:
    """Runs of agents: with a script that waits, a child, a handover, a summary, and one that is left waiting."""
    session = await crib.open("talk", owner="ada")
    await session.send("Hello")
    outcome = await session.send("Look and pay", key="m-1")
    await session.answer(outcome.questions[0].id, "accept", actor="bob")
    agents: Any = crib.agents
    await agents.settled(session)
    await session.send("How much is it?")
    await session.send("Back to the clerk", agent="clerk")
    outcome = await session.send("Pay once more")
    assert outcome.status == "waiting"
    later = asyncio.ensure_future(session.send("When you have time", mode="followup"))
    await first(session, "message_queued")
    later.cancel()
    await asyncio.wait([later])


async def _owned(crib: Crib) -> None:
    """What the crib writes down for itself."""
    now = crib.pipeline.clock.now
    pins = Fingerprints(lambda: crib.store, now)
    await pins.start(lambda: None)
    try:
        known = crib.catalog.view(("default",)).names["look_up"]
        await pins._sight(replace(known, namespace="x", name="other"))
        await pins.accept(known, "ann")
    finally:
        await pins.stop()
    keys = Keyring(lambda: crib.store, now)
    key, kept = await keys.add("ada", by="ann", name="laptop", scopes=["read"])
    await keys.admit({b"authorization": f"Bearer {key}".encode()})
    await asyncio.gather(*keys._noting)
    await keys.revoke(kept.id, by="ann")
    await keys.stop()


if __name__ == "__main__":
    asyncio.run(_child(sys.argv[1], sys.argv[2]) if sys.argv[2:] else record(sys.argv[1]))

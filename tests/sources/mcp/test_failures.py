"""Servers that die, hang, lie and flood: every call ends in a way that is known, and no other server notices."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from tests.requirements import requirement
from tests.sources.mcp.place import PEERS, code, kit, message, opened, raw
from toolcrib import Context, Crib, Result, tool
from toolcrib.errors import ToolFailure
from toolcrib.sources.mcp import McpClient, McpClientSettings, connection, link, stdio

pytestmark = pytest.mark.process


@requirement("mcp.client.5")
async def test_a_server_killed_in_mid_call_ends_the_call_as_unknown_and_is_started_again() -> None:
    async with opened(raw(), kit()) as (_, session):
        other = await session.submit("kit.sleep", {"seconds": 0.5})
        call = await session.submit("raw.die", {})
        result = await session.result(call.id)
        assert code(result) == "unknown"
        assert "may have run" in message(result)
        assert [event.fields["message"] async for event in session.events(call=call.id) if event.kind == "progress"]
        assert (await session.call("raw.echo", {"text": "back"})).data == "back"
        assert (await session.result(other.id)).data == "slept"


@requirement("mcp.client.5")
async def test_the_failure_of_a_dead_server_follows_the_effect_of_the_tool() -> None:
    server = McpClient(McpClientSettings(name="raw", command=(sys.executable, str(PEERS / "raw.py"), "legacy")))

    @tool(read_only=True, namespace="t")
    async def reads(ctx: Context) -> Result:
        """Read through a server that dies."""
        return await server.call("die", {}, ctx, repeatable=True)

    @tool(namespace="t")
    async def acts(ctx: Context) -> Result:
        """Act through a server that dies."""
        return await server.call("die", {}, ctx)

    async with Crib([reads, acts]) as crib:
        session = await crib.open("s", owner="ada", namespaces=["t"])
        assert code(await session.call("t.reads", {})) == "unavailable"
        assert code(await session.call("t.acts", {})) == "unknown"
        await server.close()


@requirement("mcp.client.2")
async def test_a_cancelled_call_tells_the_server() -> None:
    for era in ("legacy", "modern"):
        async with opened(raw(era)) as (_, session):
            call = await session.submit("raw.hang", {})
            await session.call("raw.echo", {"text": "x"})
            await session.cancel(call.id)
            assert code(await session.result(call.id)) == "cancelled"
            heard = (await session.call("raw.heard", {})).data["heard"]
            sent = next(said["id"] for said in heard if said["params"].get("name") == "hang")
            told = [said["params"]["requestId"] for said in heard if said["method"] == "notifications/cancelled"]
            assert told == [sent]


@requirement("mcp.client.2")
async def test_a_call_that_takes_too_long_ends_and_tells_the_server() -> None:
    async with opened(raw(timeout=1)) as (_, session):
        assert code(await session.call("raw.hang", {})) == "timeout"
        heard = (await session.call("raw.heard", {})).data["heard"]
        assert "notifications/cancelled" in [said["method"] for said in heard]


@requirement("mcp.client.5")
async def test_a_server_that_hangs_is_stopped_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROBE_S", 0.2)
    async with opened(raw(timeout=30)) as (_, session):
        before = (await session.call("raw.pid", {})).data
        stuck = await session.submit("raw.stuck", {})
        async for event in session.events(call=stuck.id):
            if event.kind == "progress":
                break
        beside = await session.submit("raw.echo", {"text": "x"})
        await session.cancel(stuck.id)
        assert code(await session.result(stuck.id)) == "cancelled"
        assert code(await session.result(beside.id)) == "unknown"
        assert (await session.call("raw.pid", {})).data != before


@requirement("mcp.client.5")
async def test_an_answer_that_is_too_large_fails_its_call_alone() -> None:
    async with opened(raw(message_bytes=1024 * 1024)) as (_, session):
        before = (await session.call("raw.pid", {})).data
        result = await session.call("raw.flood", {})
        assert code(result) == "too_large"
        assert "2621" in message(result)
        assert (await session.call("raw.pid", {})).data == before


async def test_a_line_without_end_costs_no_memory_and_no_other_server() -> None:
    async with opened(raw(message_bytes=1024 * 1024, timeout=1), kit()) as (_, session):
        call = await session.submit("raw.endless", {})
        assert (await session.call("kit.echo", {"text": "x"})).data == "x"
        assert code(await session.result(call.id)) == "timeout"


async def test_what_is_no_message_is_passed_over() -> None:
    async with opened(raw()) as (_, session):
        assert (await session.call("raw.noise", {})).data == "done"
        assert (await session.call("raw.echo", {"text": "still"})).data == "still"


async def test_a_result_that_breaks_the_promise_of_its_schema_is_not_passed_on() -> None:
    async with opened(raw(), raw("modern", name="new")) as (_, session):
        for name in ("raw.lie", "new.lie"):
            result = await session.call(name, {})
            assert code(result) == "internal"
            assert "schema" in message(result)
        assert code(await session.call("raw.holograms", {})) == "failed"
        assert code(await session.call("new.holograms", {})) == "failed"


@requirement("mcp.client.6")
async def test_a_result_without_a_kind_is_complete_and_an_unknown_kind_is_invalid() -> None:
    async with opened(raw("modern")) as (_, session):
        assert (await session.call("raw.no_kind", {})).data == "plain"
        result = await session.call("raw.odd_kind", {})
        assert code(result) == "failed"
        assert "perhaps" in message(result)


@requirement("mcp.client.5", "yaml.run.mcp.3")
async def test_five_failed_starts_rest_for_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "BACKOFF_S", 0.001)
    notes = tmp_path / "started"
    settings = McpClientSettings(
        name="raw", command=(sys.executable, str(PEERS / "raw.py"), "broken"), env={"STARTED": str(notes)}
    )
    server = McpClient(settings)
    for _ in range(8):
        with pytest.raises(ToolFailure, match="no such database") as failed:
            await server.tools()
        assert failed.value.code == "unavailable"
    assert failed.value.hint is not None
    assert "60 s" in failed.value.hint
    assert notes.read_text().count("started") == 5
    await server.close()


@requirement("mcp.client.5")
async def test_after_the_rest_it_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "BACKOFF_S", 0.001)
    monkeypatch.setattr(link, "REST_S", 0.0)
    notes = tmp_path / "started"
    settings = McpClientSettings(
        name="raw", command=(sys.executable, str(PEERS / "raw.py"), "broken"), env={"STARTED": str(notes)}
    )
    server = McpClient(settings)
    for _ in range(4):
        with pytest.raises(ToolFailure):
            await server.tools()
    assert notes.read_text().count("started") > 5
    await server.close()


@requirement("mcp.client.5")
async def test_a_program_that_is_not_there_is_told_by_name() -> None:
    server = McpClient(McpClientSettings(name="gone", command=("no-such-program-here",)))
    with pytest.raises(ToolFailure, match="no-such-program-here is not installed") as failed:
        await server.tools()
    assert failed.value.code == "unavailable"
    await server.close()


@requirement("yaml.run.mcp.3")
async def test_a_server_that_does_not_answer_is_given_up_in_time() -> None:
    command = (sys.executable, str(PEERS / "raw.py"), "mute")
    server = McpClient(McpClientSettings(name="mute", command=command, start_s=0.5))
    with pytest.raises(ToolFailure, match="did not answer within") as failed:
        await server.tools()
    assert failed.value.code == "unavailable"
    await server.close()


@requirement("mcp.client.1")
async def test_a_server_that_quits_over_the_newest_revision_is_asked_in_the_old_way() -> None:
    async with opened(raw("quits")) as (_, session):
        assert (await session.call("raw.echo", {"text": "hi"})).data == "hi"
        assert code(await session.call("raw.die", {})) == "unknown"
        assert (await session.call("raw.echo", {"text": "again"})).data == "again"


@requirement("mcp.client.5", "yaml.run.mcp.3")
async def test_a_server_starts_when_it_is_needed_and_stops_when_it_is_not(tmp_path: Path) -> None:
    notes = tmp_path / "started"
    source = raw(idle_s=1.5, env={"STARTED": str(notes)})
    assert not notes.exists()
    async with opened(source) as (_, session):
        first = (await session.call("raw.pid", {})).data
        _, left = await asyncio.to_thread(psutil.wait_procs, [psutil.Process(int(first))], 60)
        assert left == []
        assert (await session.call("raw.pid", {})).data != first
    assert notes.read_text().count("started") == 2


@requirement("mcp.client.5")
@pytest.mark.parametrize("era", ["legacy", "stubborn"])
async def test_a_server_is_stopped_with_all_that_it_started(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "QUIT_S", 0.2)
    monkeypatch.setattr(stdio, "TERM_S", 0.2)
    async with opened(raw(era)) as (_, session):
        pids = [int((await session.call(name, {})).data) for name in ("raw.pid", "raw.spawn")]
        started = [psutil.Process(pid) for pid in pids]
        assert all(map(runs, started))
    async with asyncio.timeout(60):
        while any(map(runs, started)):  # noqa: ASYNC110 - nobody tells when a process of another ends
            await asyncio.sleep(0.01)


def runs(process: psutil.Process) -> bool:
    """Whether a process is there and more than an entry that nobody has looked at."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@requirement("mcp.client.5")
async def test_a_server_that_ends_its_output_before_it_says_why_is_heard() -> None:
    program = "import os, sys, time; os.close(1); time.sleep(0.1); sys.exit('no key')"
    server = McpClient(McpClientSettings(name="raw", command=(sys.executable, "-c", program)))
    with pytest.raises(ToolFailure, match="it said: no key"):
        await server.tools()
    await server.close()


async def test_what_a_server_was_told_in_secret_is_not_shown_when_it_fails() -> None:
    command = (sys.executable, "-c", "import os, sys; sys.exit('bad key ' + os.environ['KEY'])")
    server = McpClient(McpClientSettings(name="raw", command=command, env={"KEY": "s3cr3t-value"}))
    with pytest.raises(ToolFailure, match=r"bad key \*\*\*"):
        await server.tools()
    await server.close()


@requirement("mcp.client.5")
async def test_a_crib_starts_without_a_server_that_is_down(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(kit()) as (_, session):
        assert session is not None
    async with Crib([raw("broken"), kit()], policy={"default": "allow"}) as crib:
        session = await crib.open("s", owner="ada", namespaces=["kit"])
        assert (await session.call("kit.echo", {"text": "x"})).data == "x"
    assert "no such database" in caplog.text


@requirement("mcp.client.5")
async def test_a_changed_list_of_tools_changes_the_catalog() -> None:
    async with opened(raw()) as (crib, session):
        before = {tool.id for tool in crib.catalog.view(("raw",)).tools}
        changed = asyncio.Event()
        crib.catalog.listen(changed.set)
        await session.call("raw.grow", {})
        await asyncio.wait_for(changed.wait(), 60)
        (new,) = {tool.id for tool in crib.catalog.view(("raw",)).tools} - before
        assert (await session.call(new, {})).ok


@requirement("mcp.client.5")
async def test_a_server_of_the_newest_revision_tells_of_changes_too() -> None:
    async with opened(kit()) as (crib, session):
        changed = asyncio.Event()
        crib.catalog.listen(changed.set)
        await session.call("kit.grow", {})
        await asyncio.wait_for(changed.wait(), 60)
        assert (await session.call("kit.grown", {})).ok

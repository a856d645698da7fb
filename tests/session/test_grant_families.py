"""Grants of a session that match nothing are refused or told, whichever way they come."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.place import desk
from toolcrib import Crib, Refused, tool
from toolcrib.sources import Source
from toolcrib.tool import Tool


@tool(read_only=True, capabilities=["payments:refund:{order}"])
async def look(order: str) -> str:
    """Look at an order."""
    return order


@requirement("findings.sessions.1")
@pytest.mark.parametrize(
    ("grants", "close"),
    [
        (["fs:raed:/srv/**"], "fs:read"),
        ({"deny": ["payment:refund:*"]}, "payments:refund"),
        ({"allow": ["*"], "ask": ["payments:refnd"]}, "payments:refund"),
    ],
)
async def test_a_grant_of_almost_a_family_is_refused_when_a_session_is_opened_or_narrowed(
    grants: Any, close: str
) -> None:
    async with Crib([look]) as crib:
        session = await crib.open(owner="ada")
        for attempt in (lambda: crib.open("s", owner="ada", grants=grants), lambda: session.narrow(grants=grants)):
            with pytest.raises(Refused) as caught:
                await attempt()
            assert (caught.value.code, caught.value.hint) == ("invalid_arguments", f"did you mean {close}?")
        assert session.grants == ()


@requirement("findings.sessions.1")
async def test_a_grant_of_a_family_that_no_tool_needs_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async with Crib([look]) as crib:
        with caplog.at_level(logging.WARNING, "toolcrib.session"):
            session = await crib.open(
                owner="ada", grants={"deny": ["camera:use"], "allow": ["payments:*", "fs:read:/x"]}
            )
        message = "grants.deny: camera:use matches nothing: no tool needs camera:use"
        assert [one.message for one in session.findings] == [message]
        assert [record.getMessage() for record in caplog.records] == [f"{message} [NO_CAPABILITY]"]
        await session.offer([{"name": "snap", "description": "Take a picture.", "capabilities": ["camera:use"]}])
        assert session.findings == []


@requirement("findings.sessions.1")
async def test_grants_over_http_pass_the_same_gate() -> None:
    async with desk(Crib([look])) as served:
        answer = await served.ask("POST", "/sessions", {"grants": ["payments:refun:7"]})
        assert (answer.status_code, answer.json()["error"]["hint"]) == (400, "did you mean payments:refund?")
        made = await served.post("/sessions", grants={"deny": ["camera:use"]})
        assert made["findings"] == ["grants.deny: camera:use matches nothing: no tool needs camera:use"]
        body = {"grants": ["fs:raed:/x"]}
        assert await served.refused("POST", f"/sessions/{made['id']}/narrow", body) == (400, "invalid_arguments")


class Away(Source):
    """A source that has not answered yet."""

    name = "away"

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        await asyncio.Event().wait()
        return []

    async def stop(self) -> None:
        """Nothing is held."""


@requirement("findings.sessions.1")
async def test_while_a_source_is_away_nothing_is_refused() -> None:
    crib = Crib([look, Away()])
    crib.patience = 0.01
    async with crib:
        session = await crib.open(owner="ada", grants=["payments:refunds:*"])
        assert [one.nearest for one in session.findings] == ["payments:refund"]

"""Tools made of other tools that hold each other: none of them waits for itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.definitions.place import ECHO, Place
from tests.requirements import requirement
from toolcrib import Session

SAY: dict[str, Any] = {"cli_specific": {"executable": "say"}}


def group(place: Place, id: str, *members: str, **more: Any) -> None:
    step = {"step": "one", "tool": members[0], "command": "run" if members[0].endswith("group") else "go"}
    place.write(id, "meta", meta_specific={"aggregates": members, "workflow": [step]}, **more)


def effects(session: Session) -> dict[str, str]:
    return {tool.id: tool.does for tool in session._view.tools if tool.name == "run"}


@requirement("yaml.health.2")
async def test_groups_that_hold_each_other_are_looked_at_at_once(place: Place) -> None:
    place.programs.write("say", ECHO)
    place.write("say", "cli", commands=["go"], **SAY)
    group(place, "a-group", "b-group", "say")
    group(place, "b-group", "a-group")
    group(place, "self-group", "self-group")
    async with place.looked_at() as source, asyncio.timeout(60):
        reports = await asyncio.gather(*(source.health(id) for id in ("a-group", "b-group", "self-group")))
    assert [one.status for one in reports] == ["healthy", "healthy", "unknown"]


@requirement("yaml.health.2")
async def test_a_group_is_as_well_as_the_members_of_its_groups(place: Place) -> None:
    place.write("Gone", "cli", commands=["go"], cli_specific={"executable": "no-such-program"})
    group(place, "b-group", "Gone")
    group(place, "a-group", "b-group")
    async with place.looked_at() as source:
        report = await source.health("a-group")
    assert (report.status, report.reason) == ("unhealthy", "Gone: no-such-program is not installed, or not on the PATH")


@requirement("yaml.run.meta.3")
@pytest.mark.process
async def test_a_group_of_groups_is_as_grave_as_what_they_call_now(place: Place) -> None:
    place.programs.write("say", ECHO)
    place.write("say", "cli", commands=[{"name": "go", "effect": "read"}], **SAY)
    group(place, "a-group", "b-group")
    group(place, "b-group", "say")
    async with place.opened() as (_, session):
        assert effects(session) == {"a-group.run": "read", "b-group.run": "read"}
        place.write("say", "cli", commands=[{"name": "go", "effect": "once"}], **SAY)
        await session.call("say.go", {"args": []})
        assert effects(session) == {"a-group.run": "once", "b-group.run": "once"}

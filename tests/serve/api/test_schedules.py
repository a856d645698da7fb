"""Scheduled calls over the API and the client: made, listed and cancelled, by whose they are."""

from __future__ import annotations

import pytest

from tests.client.place import served as remote_served
from tests.requirements import requirement
from tests.serve.api.place import desk
from tests.serve.api.test_auth import kept, made
from tests.serve.tools import TOOLS
from toolcrib import Crib, Refused


@requirement("schedules.call.7")
async def test_a_schedule_is_made_listed_and_cancelled_over_http() -> None:
    async with desk(Crib(TOOLS)) as served:
        session = await served.open("s-1")
        new = {"session": session, "tool": "add", "args": {"a": 1}, "cron": "0 9 * * *", "timezone": "Europe/Berlin"}
        answer = await served.ask("POST", "/schedules", new)
        assert answer.status_code == 201
        entry = answer.json()
        assert (entry["tool"], entry["cron"], entry["timezone"]) == ("default.add", "0 9 * * *", "Europe/Berlin")
        for query in ({}, {"session": session}):
            assert [one["id"] for one in (await served.get("/schedules", **query))["items"]] == [entry["id"]]
        gone = await served.ask("DELETE", f"/schedules/{entry['id']}")
        assert gone.json() == {"id": entry["id"], "cancelled": True}
        assert (await served.ask("DELETE", f"/schedules/{entry['id']}")).json()["cancelled"] is False
        assert (await served.get("/schedules"))["items"] == []


@requirement("schedules.call.7")
async def test_a_schedule_that_could_never_run_is_refused_over_http() -> None:
    async with desk(Crib(TOOLS)) as served:
        session = await served.open("s-1")
        for new, status in (
            ({"tool": "nothing"}, 404),
            ({"tool": "add", "args": {"a": "x"}}, 400),
            ({"tool": "add", "args": {"a": 1}, "cron": "never"}, 400),
            ({"tool": "add", "args": {"a": 1}, "after": 1, "at": 2}, 400),
        ):
            answer = await served.ask("POST", "/schedules", {"session": session, **new})
            assert (answer.status_code, new) == (status, new)
        assert (await served.ask("DELETE", "/schedules/nothing")).status_code == 404


@requirement("schedules.call.7")
async def test_a_key_reaches_only_the_schedules_of_its_owner() -> None:
    async with kept() as (served, keys):
        ada, bob = served.as_(await made(keys, "ada")), served.as_(await made(keys, "bob"))
        admin = served.as_(await made(keys, "root", "read", "admin"))
        session = await ada.open("s-1")
        entry = await ada.post("/schedules", session=session, tool="add", args={"a": 1}, after=3600)
        assert (await bob.get("/schedules"))["items"] == []
        assert [one["id"] for one in (await admin.get("/schedules"))["items"]] == [entry["id"]]
        new = {"session": session, "tool": "add", "args": {"a": 1}}
        assert (await bob.ask("POST", "/schedules", new)).status_code == 404
        assert (await bob.ask("DELETE", f"/schedules/{entry['id']}")).status_code == 404
        assert [one["id"] for one in (await ada.get("/schedules"))["items"]] == [entry["id"]]


@requirement("schedules.call.7")
async def test_a_remote_session_schedules_as_one_at_hand_does() -> None:
    async with remote_served() as place, await place.remote() as remote:
        session = await remote.open("s-1", owner="ada", namespaces=["shop"])
        now = await session.schedule("shop.add", {"a": 2, "b": 3}, label="now")
        assert (await session.result(now.id)).data == 5
        later = await session.schedule("shop.add", {"a": 2}, after=3600, key="one")
        assert await session.schedule("shop.add", {"a": 2}, after=60, key="one") == later
        assert await session.schedules() == await remote.schedules() == [later]
        assert await session.cancel_schedule(later.id) is True
        with pytest.raises(Refused, match="never"):
            await remote.schedule("s-1", "shop.add", {"a": 2}, cron="never")

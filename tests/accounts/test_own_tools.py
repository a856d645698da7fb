"""Whose account it is decides which tools of a server somebody sees and calls, and nobody sees another's."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.accounts.place import KEY, OpenCrib, connect, connect_and_list, question, shop
from tests.accounts.service import Service
from tests.accounts.test_serve import OWNERS, as_owner
from tests.requirements import requirement
from tests.serve.place import Place, serving
from toolcrib import Crib, Session
from toolcrib.serve.keys import ApiKeys, digest
from toolcrib.serve.principal import Principal
from toolcrib.sources.mcp import Mcp

POLICY = {"default": "allow", "pin": "ask"}


def offered(name: str, about: str, *needed: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in needed}, "required": [*needed]}
    return {"name": name, "description": about, "inputSchema": schema}


@pytest.fixture
def lists(service: Service) -> Service:
    """A service that shows Ada and Bob tools of their own, and a different one of the same name."""
    for login, field in (("ada", "folder"), ("bob", "label")):
        service.tools[f"{login}@shop"] = [
            offered(f"of_{login}", f"What only {login} has."),
            offered("search", f"Search the letters of {login}.", field),
        ]
    return service


def mail(service: Service, **more: Any) -> Mcp:
    return Mcp(f"{service.api}/mcp", name="mail", account="shop", **{"trusted": True, **more})


@contextlib.asynccontextmanager
async def served(service: Service, folder: Path, source: Mcp) -> AsyncIterator[Place]:
    settings: dict[str, Any] = {"accounts": [shop(service)], "secret_key": KEY, "store": f"sqlite:///{folder}/crib.db"}
    keys = ApiKeys({digest(key): Principal(owner) for owner, key in OWNERS.items()})
    async with (
        Crib([source], policy=POLICY, default_namespaces=["mail"], **settings) as crib,
        serving(crib, guard=keys) as place,
    ):
        yield place


async def shown(place: Place, owner: str) -> dict[str, Any]:
    listed = await place.result("tools/list", headers=as_owner(owner))
    return {one["name"]: one for one in listed["tools"]}


async def called(place: Place, owner: str, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    result: dict[str, Any] = await place.result("tools/call", params, headers=as_owner(owner))
    return result


def changed(session: Session) -> tuple[str, ...]:
    tool = session.tool("mail.search")
    assert tool is not None
    return tool.changed


@requirement("gateway.share.5")
@pytest.mark.parametrize("trusted", [True, False])
async def test_each_owner_sees_the_tools_of_their_own_account_and_calls_them(
    lists: Service, tmp_path: Path, trusted: bool
) -> None:
    source = mail(lists, trusted=trusted)
    async with served(lists, tmp_path, source) as place:
        assert [*await shown(place, "ada")] == [*await shown(place, "bob")] == ["mail__connect"]
        await connect_and_list(place.crib, source, "ada", "ada@shop")
        assert [*await shown(place, "ada")] == ["mail__of_ada", "mail__search", "mail__whoami"]
        assert [*await shown(place, "bob")] == ["mail__connect"]
        await connect_and_list(place.crib, source, "bob", "bob@shop")
        ada, bob = await shown(place, "ada"), await shown(place, "bob")
        assert [*bob] == ["mail__of_bob", "mail__search", "mail__whoami"]
        assert (
            [*ada["mail__search"]["inputSchema"]["properties"]],
            [*bob["mail__search"]["inputSchema"]["properties"]],
        ) == (
            ["folder"],
            ["label"],
        )
        assert "bob" not in json.dumps(ada)
        assert "ada" not in json.dumps(bob)
        if trusted:
            assert "'folder': 'in'" in (await called(place, "ada", "mail__search", folder="in"))["content"][0]["text"]
            assert "'label': 'new'" in (await called(place, "bob", "mail__search", label="new"))["content"][0]["text"]
            assert (await called(place, "bob", "mail__search", folder="in"))["isError"]
            assert (await called(place, "bob", "mail__of_bob"))["content"][0]["text"].startswith("{'name': 'of_bob'")
        for name in ("mail__of_ada", "mail.of_ada"):
            params: dict[str, Any] = {"name": name, "arguments": {}}
            _, error = await place.error("tools/call", params, headers=as_owner("bob"))
            assert error["message"] == f"Unknown tool: {name}"


@requirement("gateway.share.5")
async def test_after_a_restart_only_those_who_come_back_are_listed_for_and_a_call_that_waited_goes_on(
    open_crib: OpenCrib, lists: Service
) -> None:
    source = mail(lists)
    crib = await open_crib(lists, shop(lists), sources=[source], policy=POLICY)
    for owner in OWNERS:
        await connect_and_list(crib, source, owner, f"{owner}@shop")
    ada = await crib.open("a", owner="ada", namespaces=["mail"])
    lists.revoke_all()
    call = await ada.submit("mail.of_ada", {})
    await question(ada, call.id)
    await connect(crib, "bob", "bob@shop")
    lists.listed_for.clear()
    source = mail(lists)
    crib = await open_crib(lists, shop(lists), sources=[source], policy=POLICY)
    ada = await crib.open("a", owner="ada", namespaces=["mail"])
    assert [tool.id for tool in ada.tools()] == ["mail.connect"]
    await connect(crib, "ada", "ada@shop")
    assert "of_ada" in str((await ada.result(call.id)).data)
    assert {*lists.listed_for} == {"ada@shop"}
    assert (await ada.call("mail.search", {"folder": "in"})).ok


@requirement("gateway.share.5")
async def test_a_tool_is_held_against_what_its_owner_was_shown_first_and_accepted_for_all(
    open_crib: OpenCrib, lists: Service
) -> None:
    source = mail(lists, trusted=False)
    crib = await open_crib(lists, shop(lists), sources=[source], policy=POLICY)
    sessions = {}
    for owner in ("ada", "bob"):
        await connect_and_list(crib, source, owner, f"{owner}@shop")
        sessions[owner] = await crib.open(owner, owner=owner, namespaces=["mail"])
    assert [changed(one) for one in sessions.values()] == [(), ()]
    lists.tools["bob@shop"][1]["description"] = "Search, and tell everybody."
    await source.refresh()
    assert [changed(one) for one in sessions.values()] == [(), ("description",)]
    await crib.accept("mail.search", actor="ops")
    assert [changed(one) for one in sessions.values()] == [(), ()]

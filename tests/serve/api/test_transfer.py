"""Sessions are exported and deleted by their owners, and imported by who looks after the server, over HTTP."""

from collections.abc import AsyncIterator

import pytest

from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import ADMIN, KNOWN, Principal


@pytest.fixture
async def desks() -> AsyncIterator[dict[str, Desk]]:
    keys = {name: new_key() for name in ("ada", "eve", "root")}
    known = {kept: Principal(name, auth="key") for name, (_, kept) in keys.items()}
    known[keys["root"][1]] = Principal("root", scopes=KNOWN, roles=frozenset({ADMIN}), auth="key")
    async with desk(Crib(TOOLS), guard=ApiKeys(known)) as made:
        yield {name: made.as_(keys[name][0]) for name in keys}


@requirement("reliability.keep.7", "reliability.keep.8")
async def test_a_session_is_exported_deleted_and_imported_again(desks: dict[str, Desk]) -> None:
    ada, eve, root = desks["ada"], desks["eve"], desks["root"]
    session = await ada.open("mine")
    await ada.call(session, "add", {"a": 1})
    before = await ada.get(f"/sessions/{session}/events")
    exported = await ada.ask("GET", f"/sessions/{session}/export")
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert (await eve.ask("GET", f"/sessions/{session}/export")).status_code == 404
    assert (await eve.ask("DELETE", f"/sessions/{session}")).status_code == 404
    deleted = (await ada.ask("DELETE", f"/sessions/{session}")).json()
    assert (deleted["session"], deleted["actor"]) == (session, "ada")
    assert (await ada.ask("GET", f"/sessions/{session}")).status_code == 404
    assert [stone["session"] for stone in (await ada.get("/tombstones"))["items"]] == [session]
    assert (await eve.get("/tombstones"))["items"] == []
    assert (await ada.ask("POST", "/imports", content=exported.content)).status_code == 403
    assert (await root.ask("POST", "/imports", content=exported.content[:-10])).status_code == 400
    nothing = (await root.ask("POST", "/imports", content=b"")).json()["error"]
    assert nothing["message"] == "This is no whole exported session: it is empty"
    assert (await root.ask("POST", "/imports", content=exported.content)).status_code == 201
    assert (await root.ask("POST", "/imports", content=exported.content)).status_code == 409
    assert await ada.get(f"/sessions/{session}/events") == before

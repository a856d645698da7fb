"""With keys, one owner takes nothing away from the others, whatever they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from toolcrib import Crib, CribLimits, tool
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Guard, Principal
from toolcrib.serve.start_token import StartToken


def keys_of(*names: str) -> tuple[Guard, dict[str, str]]:
    keys = {name: new_key() for name in names}
    guard = ApiKeys({kept: Principal(name, auth="key") for name, (_, kept) in keys.items()})
    return guard, {name: key for name, (key, _) in keys.items()}


@asynccontextmanager
async def desks(*tools: Any, **options: Any) -> AsyncIterator[dict[str, Desk]]:
    guard, keys = keys_of("ada", "bob")
    async with desk(Crib(tools, **options), guard=guard) as made:
        yield {name: made.as_(key) for name, key in keys.items()}


@requirement("security.fair.1")
async def test_who_fills_a_server_with_calls_leaves_seats_for_others() -> None:
    gate = asyncio.Event()

    @tool(read_only=True)
    async def slow() -> int:
        """Take a while."""
        await gate.wait()
        return 1

    @tool(read_only=True)
    async def quick() -> int:
        """Be quick."""
        return 1

    async with desks(slow, quick, limits=CribLimits(per_crib=32)) as of:
        for _ in range(4):
            session = await of["ada"].open()
            for _ in range(16):
                await of["ada"].post(f"/sessions/{session}/calls", tool="slow", wait=False)
        assert (await of["bob"].call(await of["bob"].open(), "quick"))["ok"]
        gate.set()


@requirement("security.fair.1")
@pytest.mark.parametrize("guard", [None, StartToken("s" * 32)], ids=["nobody", "token"])
async def test_a_server_for_one_person_has_nothing_to_share(guard: Guard | None) -> None:
    async with desk(Crib(), guard=guard) as alone:
        assert not alone.site.api.crib.pipeline.scheduler.shared


@requirement("security.fair.3")
async def test_lists_of_one_owner_read_nothing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(requires_confirmation=True)
    async def careful() -> int:
        """Be confirmed first."""
        return 1

    async with desks(careful) as of:
        sessions = {}
        for name, number in (("ada", 50), ("bob", 2)):
            session = sessions[name] = await of[name].open()
            for _ in range(number):
                await of[name].post(f"/sessions/{session}/calls", tool="careful", wait=False)
        store = of["bob"].api.crib.store

        async def nothing(*_: Any, **__: Any) -> Any:
            raise AssertionError("what is everybody's was listed")

        listed = store.calls
        monkeypatch.setattr(
            store, "calls", lambda session=None, *a, **k: (listed if session else nothing)(session, *a, **k)
        )
        (seen,) = (await of["bob"].get("/sessions"))["items"]
        assert (seen["id"], seen["waiting"]) == (sessions["bob"], 2)
        assert len((await of["bob"].get("/questions"))["items"]) == 2
        assert len((await of["bob"].get("/calls", state="waiting"))["items"]) == 2

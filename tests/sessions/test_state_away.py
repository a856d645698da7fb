"""A store that goes away between the end of a body and the commit of its state."""

import asyncio
from pathlib import Path
from typing import Any

from tests.requirements import requirement
from toolcrib import Change, Crib, Result, StoreUnavailable, tool
from toolcrib.store.sqlite import SqliteStore

KEYS: dict[str, Any] = {"total": "add"}


class Shaky(SqliteStore):
    """A store that cannot be read for a while."""

    away = 0

    async def read(self, *args: Any, **more: Any) -> Any:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        return await super().read(*args, **more)


@requirement("reliability.proof.3")
async def test_a_call_whose_state_was_changed_by_others_ends_although_the_store_is_away_meanwhile(
    tmp_path: Path,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(idempotent=True)
    async def count(wait: bool) -> Result:
        """Count."""
        if wait:
            begun.set()
            await go_on.wait()
        return Result("counted", changes=[Change("add", "total", 1)])

    url = f"sqlite:///{tmp_path}/log.db"
    store = Shaky(url)
    async with Crib([count], store=store, state_keys=KEYS) as one, Crib([count], store=url, state_keys=KEYS) as other:
        session, elsewhere = await one.open("s", owner="ada"), await other.open("s", owner="ada")
        call = await session.submit("count", {"wait": True})
        await begun.wait()
        assert (await elsewhere.call("count", {"wait": False})).ok
        store.away = 2
        go_on.set()
        assert (await asyncio.wait_for(session.result(call.id), 30)).ok
        assert (await one.store.call(call.id)).state == "done"  # type: ignore[union-attr]  # it was accepted
        assert session.state.now["total"] == 2

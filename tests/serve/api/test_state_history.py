"""Looking back: as far as anybody asks, over every store, and without keeping what is large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.serve.api.place import desk
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.serve.api.state_history import StateHistories
from toolcrib.store import Draft, Write, open_store
from toolcrib.store.codec import Stored, encode
from toolcrib.store.memory import MemoryStore
from toolcrib.testing.services import execute
from toolcrib.testing.stores.fixture import AT, line


def _done(large: str, state: Any) -> Draft:
    return (AT, "c", "done", Stored(encode({"ok": True, "data": large, "state": state})))


async def test_only_what_tells_of_the_state_is_kept_of_a_log() -> None:
    store, pasts = MemoryStore(), StateHistories()
    row, _ = await store.open("s", "ada", AT)
    states = [{"changes": [{"key": "what", "value": number}], "base": number} for number in range(3)]
    large = "x" * 100_000
    await store.commit(Write("s", [_done(large, one) for one in states]))
    await store.commit(Write("s", [line(large)]))
    for at, wanted in ((2, states[:2]), (4, states), (1, states[:1])):
        events = await pasts.until(store, row, at)
        assert [event.fields["state"] for event in events] == wanted
        assert len(encode([event.fields for event in events])) < 1000


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_session_is_seen_as_it_will_be_at_any_event(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    places = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/past.db"}
    store = places.get(kind) or request.getfixturevalue("postgres_url")
    async with desk(Crib(TOOLS, store=store)) as served:
        session = await served.open()
        await served.call(session, "add", {"a": 1})
        now = {name: await served.get(f"/sessions/{session}/{name}") for name in ("lists", "state")}
        assert len(now["lists"]["completed"]) == 1
        for at in (2**31 - 1, 2**31, 2**53):
            assert {name: await served.get(f"/sessions/{session}/{name}", at=at) for name in now} == now


async def test_pages_go_on_where_very_many_sessions_were_opened(postgres_url: str) -> None:
    empty = open_store(postgres_url)
    await empty.start("worker-1")
    await empty.close()
    execute(postgres_url, f"ALTER TABLE sessions ALTER COLUMN n RESTART WITH {2**31 + 5}")
    async with desk(Crib(TOOLS, store=postgres_url)) as served:
        made = [(await served.call(await served.open(), "add", {"a": number}))["call"] for number in range(3)]
        found, after = list[str](), dict[str, str]()
        while True:
            page = await served.get("/calls", limit=1, **after)
            found += [one["id"] for one in page["items"]]
            if "next" not in page:
                break
            after = {"after": page["next"]}
        assert found == made[::-1]

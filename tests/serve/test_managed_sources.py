"""Sources that administrators arrange, without a server around them: the log, and what follows from it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from toolcrib import Crib, tool
from toolcrib.errors import Refused, StoreError
from toolcrib.events import SourceAdded, SourceRemoved, SourceSwitched
from toolcrib.serve.managed_sources import LOG, ManagedSources
from toolcrib.serve.source_entry import SourceEntry, SourceRules
from toolcrib.store import OWNER, Write, draft

SOON_S = 60
DEAD = "http://127.0.0.1:9/mcp"
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {
        "/ping": {"get": {"operationId": "ping", "summary": "Ping.", "responses": {"200": {"description": "ok"}}}}
    },
}


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """The address of a document with one operation; below `/closed` nobody is let in."""

    def app(environ: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        closed = environ["PATH_INFO"].startswith("/closed")
        start("401 Unauthorized" if closed else "200 OK", [("content-type", "application/json")])
        return [b"{}" if closed else json.dumps(DOCUMENT).encode()]

    with make_server("127.0.0.1", 0, app, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/openapi.json"
        server.shutdown()
        thread.join()


@tool(namespace="forge", read_only=True)
async def ping() -> str:
    """Ping."""
    return "pong"


@asynccontextmanager
async def managed(*tools: Any, rules: SourceRules | None = None) -> AsyncIterator[tuple[Crib, ManagedSources]]:
    async with Crib(tools) as crib:
        sources = ManagedSources(crib, rules)
        await sources.start()
        yield crib, sources
        await sources.stop()


def ids(crib: Crib) -> set[str]:
    return {one.id for one in crib.catalog.view(("*",)).tools if not one.id.startswith("default.")}


async def log(crib: Crib) -> list[str]:
    return [event.kind for event in await crib.store.read(LOG, 0)]


async def refusal(coroutine: Any) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        await coroutine
    return refused.value.code, refused.value.message


async def write(crib: Crib, *data: Any) -> None:
    """What another process writes down."""
    await crib.store.open(LOG, OWNER, 1.0)
    for one in data:
        await crib.store.commit(Write(LOG, [draft(1.0, None, one)]))


async def comes(reached: Callable[[], bool]) -> None:
    """Returns when that holds; nobody tells when what others did has come here."""
    async with asyncio.timeout(SOON_S):
        while not reached():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


async def test_a_source_is_added_switched_and_removed_by_name(shop: str) -> None:
    async with managed() as (crib, sources):
        test = await sources.add(SourceEntry("shop", openapi=shop), by="ada")
        assert test is not None
        assert (test.ok, test.problem, test.tools) == (True, "", ["shop.ping"])
        assert ids(crib) >= {"shop.ping"}
        added = sources.added["shop"]
        assert (added.by, added.entry) == ("ada", SourceEntry("shop", openapi=shop))
        (source,) = [one for one in crib.registry.sources if one.name == "shop"]
        await sources.switch("shop", enabled=True, by="ada")
        assert await log(crib) == ["source_added"], "it was enabled already"
        await sources.switch("shop", enabled=False, by="ada")
        assert "shop.ping" not in ids(crib)
        await sources.switch("shop", enabled=False, by="ada")
        assert (sources.disabled, await log(crib)) == ({"shop"}, ["source_added", "source_switched"])
        await sources.switch("shop", enabled=True, by="ada")
        await comes(lambda: "shop.ping" in ids(crib))
        await sources.add(SourceEntry("other", mcp=DEAD), by="ada", check=False)
        kept = [one for one in crib.registry.sources if one.name == "shop"]
        assert (len(kept), kept[0] is source) == (1, False), "it was made anew when it was enabled"
        await sources.switch("other", enabled=False, by="ada")
        assert [one for one in crib.registry.sources if one.name == "shop"] == kept, "it is not made anew for others"
        await sources.switch("shop", enabled=False, by="ada")
        await sources.remove("shop", by="ada")
        assert (sources.disabled, "shop" in sources.added) == ({"other"}, False)
        await sources.add(SourceEntry("shop", openapi=shop), by="bob", check=False)
        await comes(lambda: "shop.ping" in ids(crib))


async def test_names_that_are_taken_or_unknown_are_refused(shop: str) -> None:
    configured = [one.name for one in Crib([ping]).registry.configured]
    async with managed(ping) as (crib, sources):
        await sources.add(SourceEntry("far", mcp=DEAD), by="ada", check=False)
        for name in ("far", *configured):
            refused = await refusal(sources.add(SourceEntry(name, mcp=DEAD), by="ada", check=False))
            assert refused == ("conflict", f"There is a source '{name}' already")
        assert await refusal(sources.remove(configured[0], by="ada")) == (
            "conflict",
            f"The source '{configured[0]}' is configured and was not added",
        )
        assert (await refusal(sources.switch(configured[0], enabled=False, by="ada")))[0] == "denied"
        for attempt in (sources.switch("fat", enabled=False, by="ada"), sources.remove("fat", by="ada")):
            with pytest.raises(Refused, match="There is no source 'fat'") as refused_name:
                await attempt
            assert (refused_name.value.code, refused_name.value.hint) == ("not_found", "did you mean 'far'?")
        with pytest.raises(Refused) as unknown:
            sources.check_name("quite-another")
        assert unknown.value.hint == "`toolcrib sources list` shows what there is"
        sources.check_name("far")
        assert await log(crib) == ["source_added"]


async def test_what_the_rules_forbid_is_not_added_with_a_test_or_without() -> None:
    async with managed(rules=SourceRules(allowed=False)) as (crib, sources):
        for check in (True, False):
            refused = await refusal(sources.add(SourceEntry("far", mcp=DEAD), by="ada", check=check))
            assert refused == ("denied", "This server lets nobody add sources")
        assert (await refusal(sources.test(SourceEntry("far", mcp=DEAD))))[0] == "denied"
        assert await crib.store.session(LOG) is None or await log(crib) == []


async def test_a_source_that_does_not_answer_fails_its_test(shop: str) -> None:
    async with managed() as (crib, sources):
        test = await sources.test(SourceEntry("far", mcp=DEAD))
        assert (test.ok, test.tools, bool(test.problem)) == (False, [], True)
        code, message = await refusal(sources.add(SourceEntry("far", mcp=DEAD), by="ada"))
        assert (code, message) == ("failed", f"far did not pass its test: {test.problem}")
        missing = shop.replace("openapi.json", "closed/openapi.json")
        assert not (await sources.test(SourceEntry("shop", openapi=missing))).ok
        assert sources.added == {}
        assert await sources.add(SourceEntry("far", mcp=DEAD), by="ada", check=False) is None
        assert crib.registry.sources[-1].name == "far"


async def test_a_server_that_waits_for_who_connects_an_account_passes_its_test(shop: str) -> None:
    closed = shop.replace("openapi.json", "closed")
    async with managed() as (_, sources):
        assert (await sources.test(SourceEntry("far", mcp=closed, account=True))).ok
        refused = await sources.test(SourceEntry("far", mcp=closed))
        assert (refused.ok, "401" in refused.problem) == (False, True)
        assert not (await sources.test(SourceEntry("far", mcp=DEAD, account=True))).ok


async def test_a_source_whose_tools_have_ids_of_others_is_refused_or_left_out(shop: str) -> None:
    async with managed(ping) as (crib, sources):
        entry = SourceEntry("forge", openapi=shop)
        assert await refusal(sources.add(entry, by="ada")) == ("conflict", "There is a tool 'forge.ping' already")
        assert sources.added == {}
        await sources.add(SourceEntry("shop", openapi=shop), by="ada", check=False)
        await sources.add(entry, by="ada", check=False)
        assert sources.problems.keys() <= {"forge"}
        assert "shop.ping" in ids(crib)


async def test_what_others_arrange_is_followed_in_the_order_of_the_log(shop: str) -> None:
    async with managed() as (crib, sources):
        first = SourceAdded("1", "shop", {"name": "shop", "openapi": shop}, "ada")
        second = SourceAdded("2", "shop", {"name": "shop", "mcp": DEAD}, "bob")
        await write(crib, first, second)
        await comes(lambda: "shop.ping" in ids(crib))
        assert (sources.added["shop"].id, sources.added["shop"].by) == ("1", "ada"), "the first to have the name"
        await write(crib, SourceSwitched("shop", False, "bob"))
        await comes(lambda: "shop.ping" not in ids(crib))
        assert sources.disabled == {"shop"}
        await write(crib, SourceSwitched("shop", True, "bob"))
        await comes(lambda: "shop.ping" in ids(crib))
        await write(crib, SourceSwitched("shop", False, "bob"), SourceRemoved("shop", "bob"))
        await comes(lambda: not sources.added)
        assert sources.disabled == set()
        await write(crib, SourceRemoved("shop", "bob"), second)
        await comes(lambda: "shop" in sources.added)
        assert sources.added["shop"].id == "2"


async def test_a_source_that_cannot_be_made_here_is_told_and_the_others_are_there(
    shop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with managed() as (crib, sources):
        later = SourceAdded("1", "later", {"name": "later", "mcp": DEAD, "of_a_later_version": 1}, "ada")
        program = SourceAdded("2", "program", {"name": "program", "mcp": "kit"}, "ada")
        await write(crib, later, program, SourceAdded("3", "shop", {"name": "shop", "openapi": shop}, "ada"))
        await comes(lambda: "shop.ping" in ids(crib))
        assert sources.added["later"].entry is None
        assert sources.problems == {
            "later": "Another version of the server added it, and this one is older",
            "program": "This server lets nobody add sources that are programs",
        }
        await sources.switch("shop", enabled=False, by="ada")
        told = [message for message in caplog.messages if "cannot be used here" in message]
        assert len(told) == 2, "each once"


async def test_what_was_arranged_before_is_there_from_the_start(shop: str) -> None:
    crib = Crib([])
    sources = ManagedSources(crib)
    await crib.store.start("w")
    await write(crib, SourceAdded("1", "shop", {"name": "shop", "openapi": shop}, "ada"))
    async with crib:
        assert "shop.ping" in ids(crib)
        await sources.start()
        assert [one.name for one in crib.registry.sources].count("shop") == 1
        await sources.stop()
        await sources.stop()
    await ManagedSources(Crib([])).stop()


async def test_nothing_is_followed_after_the_end() -> None:
    async with Crib([]) as crib:
        before = asyncio.all_tasks()
        sources = ManagedSources(crib)
        await sources.start()
        assert len(asyncio.all_tasks() - before) == 1
        await sources.stop()
        assert asyncio.all_tasks() == before


async def test_a_session_of_somebody_with_the_name_of_the_log_holds_no_sources() -> None:
    async with Crib([]) as crib:
        await crib.store.open(LOG, "eve", 1.0)
        with pytest.raises(StoreError, match="belongs to 'eve'"):
            await ManagedSources(crib).start()

"""Two people at one door: nothing that a server keeps, lists or says for one of them reaches the other."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.requirements import requirement
from tests.serve.place import Old, Place, serving
from tests.sources.mcp.place import PEERS, free_port
from toolcrib import Crib
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Principal
from toolcrib.sources.mcp import Mcp

pytestmark = pytest.mark.process
LISTS = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}
LISTS |= {"resources/templates/list": "resourceTemplates"}
WANTED = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
CHANGED = {f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}


class Person:
    """Somebody with a key, by a client of the newest or an older revision."""

    def __init__(self, place: Place, old: Old | None) -> None:
        self.place = place
        self.old = old

    async def result(self, method: str, params: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = await (self.old or self.place).result(method, params)
        return result

    async def call(self, tool: str, **arguments: Any) -> str:
        result = await self.result("tools/call", {"name": tool, "arguments": arguments})
        text: str = result["content"][0]["text"]
        return text

    async def lists(self) -> dict[str, list[Any]]:
        """All that is shown to them."""
        return {key: (await self.result(method))[key] for method, key in LISTS.items()}

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[AsyncIterator[str]]:
        """Which lists are said to be others, as that is said."""
        if self.old is not None:
            async with self.old.listen() as messages:
                yield (message["method"] async for _, message in messages)
            return
        async with self.place.stream("subscriptions/listen", {"notifications": WANTED}) as messages:
            assert (await anext(messages))["method"].endswith("acknowledged")
            yield (message["method"] async for message in messages)


@asynccontextmanager
async def people(source: Mcp, *, modern: bool) -> AsyncIterator[tuple[Person, Person]]:
    """Ada and Bob, who are let in by keys of their own."""
    keys = {name: new_key() for name in ("ada", "bob")}
    guard = ApiKeys({kept: Principal(name, auth="key") for name, (_, kept) in keys.items()})
    async with AsyncExitStack() as stack:
        crib = await stack.enter_async_context(
            Crib([source], policy={"default": "allow"}, default_namespaces=[source.name])
        )
        place = await stack.enter_async_context(serving(crib, guard=guard))
        both = []
        for key, _ in keys.values():
            http = httpx.AsyncClient(base_url=place.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)
            one = Place(crib, place.site, await stack.enter_async_context(http))
            both.append(Person(one, None if modern else await one.begin()))
        yield both[0], both[1]


@asynccontextmanager
async def personal(kind: str, **more: Any) -> AsyncIterator[Mcp]:
    """The server that offers more to whoever signed in."""
    program = str(PEERS / "personal.py")
    if kind == "stdio":
        yield Mcp(sys.executable, program, name="shop", required=True, **more)
        return
    port = free_port()
    process = await asyncio.create_subprocess_exec(sys.executable, program, str(port), stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert b"listening" in await process.stderr.readline()
        yield Mcp(f"http://127.0.0.1:{port}/mcp", name="shop", required=True, **more)
    finally:
        process.kill()
        await process.wait()


async def heard(changes: AsyncIterator[str]) -> set[str]:
    """The lists that are said to be others, when all of them were."""
    lists: set[str] = set()
    async with asyncio.timeout(60):
        while lists != CHANGED:
            lists.add(await anext(changes))
    return lists


def names(shown: dict[str, list[Any]]) -> set[str]:
    return {one["name"] for entries in shown.values() for one in entries}


MINE = {"shop__orders_of_{0}", "shop__my_orders", "shop__greet_{0}", "note://{0}", "{0}"}


@requirement("gateway.share.4")
@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("kind", ["stdio", "http"])
@pytest.mark.parametrize("share", [None, "owner"])
async def test_what_a_server_lists_for_one_person_is_shown_and_told_to_that_person_alone(
    kind: str, share: Any, modern: bool
) -> None:
    async with personal(kind, share=share) as source, people(source, modern=modern) as (ada, bob):
        before = await bob.lists()
        async with ada.listening() as news_of_ada, bob.listening() as news_of_bob:
            told = asyncio.ensure_future(anext(news_of_bob))
            assert await ada.call("shop__sign_in", name="ada") == "sign_in: ada"
            await heard(news_of_ada)
            assert names(await ada.lists()) == names(before) | {one.format("ada") for one in MINE}
            assert await bob.lists() == before
            assert not told.done()
            await bob.call("shop__sign_in", name="bob")
            await heard(aiter_from(told, news_of_bob))
        shown = {"ada": await ada.lists(), "bob": await bob.lists()}
    assert "bob" not in json.dumps(shown["ada"])
    assert "ada" not in json.dumps(shown["bob"])


async def aiter_from(first: asyncio.Future[str], rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield await first
    async for one in rest:
        yield one


@requirement("gateway.share.4")
async def test_two_people_have_different_tools_of_one_name() -> None:
    async with personal("stdio") as source, people(source, modern=True) as both:
        for person, name in zip(both, ("ada", "bob"), strict=True):
            async with person.listening() as news:
                await person.call("shop__sign_in", name=name)
                await heard(news)
        for person, name in zip(both, ("ada", "bob"), strict=True):
            (own,) = [tool for tool in (await person.lists())["tools"] if tool["name"] == "shop__my_orders"]
            assert own["description"] == f"The orders of {name}"
            assert await person.call(own["name"]) == f"my_orders: {name}"


@requirement("gateway.share.4")
async def test_a_tool_of_one_person_is_unknown_to_another() -> None:
    async with personal("stdio") as source, people(source, modern=True) as (ada, bob):
        async with ada.listening() as news:
            await ada.call("shop__sign_in", name="ada")
            await heard(news)
        assert await ada.call("shop__orders_of_ada") == "orders_of_ada: ada"
        for name in ("shop__orders_of_ada", "shop.orders_of_ada"):
            _, error = await bob.place.error("tools/call", {"name": name, "arguments": {}})
            assert error["message"] == f"Unknown tool: {name}"
        unknown = await (await bob.place.crib.open("b", owner="bob", namespaces=["shop"])).call("orders_of_ada", {})
        assert unknown.failure is not None
        assert (unknown.failure.message, unknown.failure.hint) == ("Unknown tool: orders_of_ada", None)

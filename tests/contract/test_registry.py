"""contract.registry: one catalog of all sources, sorted, without silent winners, and changing while it is used."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, log, message, next_question, parked
from tests.requirements import requirement
from toolcrib import Annotations, Context, Crib, Refused, Tool, tool
from toolcrib.catalog import Catalog
from toolcrib.sources import Source


def named(name: str, namespace: str = "default", source: str = "functions", says: str = "") -> Tool:
    async def run(ctx: Any, values: Any) -> str:
        return says or source

    return Tool(name=name, namespace=namespace, description=f"{name} of {source}.", source=source, run=run)


class Changing(Source):
    """A source that changes its tools."""

    def __init__(self, name: str, *tools: Tool) -> None:
        self.name = name
        self.first = tools
        self.give: Callable[[Iterable[Tool]], None] = lambda tools: None

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        self.give = changed
        return self.first

    async def stop(self) -> None:
        """Nothing to let go of."""


@requirement("contract.registry.1")
async def test_listings_are_sorted_by_id_whatever_the_order_of_sources(open_crib: OpenCrib) -> None:
    crib = await open_crib(named("z"), Changing("far", named("b", "x", "far"), named("a", "x", "far")), named("A"))
    crib.add(named("m"))
    session = await crib.open(owner="ada", namespaces=["x", "default"])
    ids = [listed.id for listed in session.tools()]
    assert ids == ["default.A", "default.m", "default.z", "x.a", "x.b"]
    assert list(session.model_tools()) == ["A", "m", "z", "a", "b"]
    assert (await log(session, "opened"))[0].fields["tools"] == ids


@requirement("contract.registry.1")
def test_a_tool_is_found_by_id_or_by_a_bare_name_that_is_unambiguous() -> None:
    catalog = Catalog()
    catalog.add([named("get", "a"), named("get", "b"), named("put", "a"), named("b.get")])
    found = {name: catalog.get(name) for name in ("a.get", "put", "get", "nobody", "b.get", "default.b.get")}
    assert {name: tool and tool.id for name, tool in found.items()} == {
        "a.get": "a.get",
        "put": "a.put",
        "get": None,
        "nobody": None,
        "b.get": "b.get",
        "default.b.get": "default.b.get",
    }


@requirement("contract.registry.2")
async def test_the_same_id_twice_is_an_error_that_names_both_sources(open_crib: OpenCrib) -> None:
    with pytest.raises(Refused) as refused:
        Crib([named("get", source="one"), named("get", source="two")])
    assert refused.value.message == "Tool 'get' is already registered in namespace 'default'"
    assert refused.value.code == "conflict"
    assert all(source in str(refused.value) for source in ("one", "two"))
    crib = await open_crib(named("get", source="one"))
    with pytest.raises(Refused):
        crib.add(named("new"), named("get", source="two"))
    session = await crib.open(owner="ada")
    assert [listed.id for listed in session.tools()] == ["default.get"]
    assert (await session.call("get")).data == "one"


@requirement("contract.registry.2")
async def test_replace_says_that_the_new_one_wins(open_crib: OpenCrib) -> None:
    crib = await open_crib(named("get", source="one"))
    session = await crib.open(owner="ada")
    crib.add(named("get", source="two"), replace=True)
    assert (await session.call("get")).data == "two"
    assert crib.catalog.shadowed() == []


@requirement("contract.registry.2")
@pytest.mark.parametrize("order", [("one", "two", "three"), ("three", "two", "one")])
async def test_precedence_says_who_wins_and_who_is_shadowed(open_crib: OpenCrib, order: tuple[str, ...]) -> None:
    crib = await open_crib(*(named("get", source=source) for source in order), precedence=["two", "one"])
    session = await crib.open(owner="ada")
    assert (await session.call("get")).data == "two"
    shadowed = [(tool.source, winner.source) for tool, winner in crib.catalog.shadowed()]
    assert shadowed == [("one", "two"), ("three", "two")]
    crib.remove("default.get")
    assert (await session.call("get")).data == "one"
    assert [(tool.source, winner.source) for tool, winner in crib.catalog.shadowed()] == [("three", "one")]


@requirement("contract.registry.2", "contract.registry.3")
async def test_a_shadowed_source_that_changes_does_not_touch_the_winner(open_crib: OpenCrib) -> None:
    low, high = Changing("low", named("get", source="low")), Changing("high", named("get", source="high"))
    crib = await open_crib(low, high, precedence=["high"])
    session = await crib.open(owner="ada")
    low.give([named("get", source="low", says="new low")])
    assert (await session.call("get")).data == "high"
    assert len(crib.catalog.shadowed()) == 1
    low.give([])
    assert (await session.call("get")).data == "high"
    assert crib.catalog.shadowed() == []
    low.give([named("get", source="low", says="newest low")])
    high.give([])
    assert (await session.call("get")).data == "newest low"


@requirement("contract.registry.3")
async def test_new_calls_see_the_new_definition_and_running_ones_keep_theirs(open_crib: OpenCrib) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @tool(read_only=True, source="far")
    async def get(ctx: Context) -> str:
        """The old one."""
        begun.set()
        await release.wait()
        return "old"

    source = Changing("far", get)
    crib = await open_crib(source)
    session = await crib.open(owner="ada")
    running = await session.submit("get")
    await begun.wait()
    source.give([named("get", source="far", says="new"), named("put", source="far")])
    assert (await session.call("get")).data == "new"
    release.set()
    assert (await session.result(running.id)).data == "old"
    assert [listed.id for listed in session.tools()] == ["default.get", "default.put"]
    source.give([])
    assert session.tools() == []
    assert code(await session.call("get")) == "not_found"


@requirement("contract.registry.3")
async def test_one_change_gives_one_notice(open_crib: OpenCrib) -> None:
    source = Changing("far", named("a", source="far"), named("b", source="far"))
    crib = await open_crib(source)
    session = await crib.open(owner="ada")
    heard: list[int] = []
    crib.catalog.listen(lambda: heard.append(crib.catalog.version))
    source.give([named("b", source="far", says="new"), named("c", source="far")])
    assert len(heard) == 1
    async for event in session.events():
        if event.kind == "tools_changed":
            break
    changes = await log(session, "tools_changed")
    assert [event.fields["tools"] for event in changes] == [["default.b", "default.c"]]


@requirement("contract.registry.3")
async def test_a_waiting_call_goes_on_with_the_tool_of_the_moment_it_resumes(open_crib: OpenCrib) -> None:
    def made(says: str, **fields: Any) -> Tool:
        async def run(ctx: Context, values: Any) -> list[Any]:
            return [says, (await ctx.ask("Name?")).value]

        said: dict[str, Any] = {"name": "greet", "description": "Greet.", "run": run, "source": "far"}
        return Tool(**said | fields)

    source = Changing("far", made("old"))
    crib = await open_crib(source)
    session = await crib.open(owner="ada")
    first, second, third = [await parked(session, "greet") for _ in range(3)]
    source.give([made("new", description="Greet anew.")])
    await session.answer(first.id, "accept", "Bob")
    assert (await session.result(first.call)).data == ["new", "Bob"]
    source.give([made("newest", annotations=Annotations(destructive=True))])
    await session.answer(second.id, "accept", "Bob")
    asked = await next_question(session, second)
    assert (asked.kind, asked.tool) == ("confirm", "default.greet")
    await session.answer(asked.id, "accept")
    assert (await session.result(second.call)).data == ["newest", "Bob"]
    source.give([])
    await session.answer(third.id, "accept", "Bob")
    assert code(await session.result(third.call)) == "not_found"


@requirement("contract.registry.3")
@pytest.mark.parametrize(
    "change", [{"description": "Pay twice."}, {"input_schema": {"type": "object", "required": ["a"]}}]
)
async def test_an_approval_does_not_hold_for_another_definition(open_crib: OpenCrib, change: dict[str, Any]) -> None:
    ran: list[str] = []

    def made(**fields: Any) -> Tool:
        async def run(ctx: Any, values: Any) -> None:
            ran.append("ran")

        careful = Annotations(requires_confirmation=True)
        said: dict[str, Any] = {"name": "pay", "description": "Pay.", "run": run, "annotations": careful}
        return Tool(**said | fields)

    source = Changing("functions", made())
    crib = await open_crib(source)
    session = await crib.open(owner="ada")
    question = await parked(session, "pay")
    source.give([made(**change)])
    await session.answer(question.id, "accept")
    result = await session.result(question.call)
    assert (code(result), ran) == ("denied", [])
    assert "changed after the approval" in message(result)


@requirement("contract.registry.3")
async def test_what_is_listed_is_what_can_be_called(open_crib: OpenCrib) -> None:
    source = Changing("far", named("a", source="far"))
    crib = await open_crib(source, named("b", "closed"))
    session = await crib.open(owner="ada")
    for tools in ([named("a", source="far")], [named("c", source="far"), named("d", "closed", "far")], []):
        source.give(tools)
        listed = {listed.id for listed in session.tools()}
        called = {id for id in ("default.a", "closed.b", "default.c", "closed.d") if (await session.call(id)).ok}
        assert called == listed


@requirement("contract.registry.3")
async def test_a_trusted_definition_that_an_untrusted_source_copies_is_judged_anew(open_crib: OpenCrib) -> None:
    crib = await open_crib(named("get", source="home"))
    session = await crib.open(owner="ada")
    assert (await session.call("get")).ok
    home = crib.catalog.get("default.get")
    assert home is not None
    crib.add(home.but(trusted=False, source="far", metadata={}), replace=True)
    question = await parked(session, "get")
    assert question.kind == "confirm"

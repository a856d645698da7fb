"""Namespaces: where they are enforced, how tools are named, and what happens when tools come and go."""

import asyncio

import pytest

from tests.requirements import requirement
from tests.session.place import Gate, Place, first, kinds, log
from toolcrib import BadTool, Context, Crib, Failure, Refused, Result, Tool, tool

ran: list[str] = []


@tool(namespace="time", read_only=True)
async def get_current_time() -> int:
    """Tell the time."""
    return 12


@tool(namespace="forge", read_only=True)
async def forge_execute() -> str:
    """Build what was planned."""
    ran.append("forge")
    return "built"


@tool(namespace="time", read_only=True)
async def detour(ctx: Context, name: str) -> dict[str, str | None]:
    """Call another tool."""
    result: Result = await ctx.call(name, {})
    return {"code": result.failure.code if result.failure else None}


def failure(result: Result) -> Failure:
    assert result.failure is not None
    return result.failure


@requirement("aomi.ns.1")
async def test_a_namespace_is_trimmed_and_lower_cased_wherever_it_is_given() -> None:
    @tool(namespace="  Shop ", read_only=True)
    async def look() -> int:
        """Look."""
        return 1

    assert look.id == "shop.look"
    async with Crib([look]) as crib:
        session = await crib.open(owner="ada", namespaces=[" SHOP "])
        assert session.namespaces == ("shop",)
        assert (await session.call("shop.look")).data == 1


@requirement("aomi.ns.1")
def test_a_tool_that_names_no_namespace_is_in_default_and_a_bad_one_is_refused() -> None:
    async def look() -> None:
        """Look."""

    assert tool(look).id == "default.look"
    with pytest.raises(BadTool, match="namespace"):
        tool(namespace="two words")(look)


@requirement("aomi.ns.2")
async def test_a_session_lists_only_tools_of_its_namespaces() -> None:
    async with Crib([get_current_time, forge_execute]) as crib:
        session = await crib.open(owner="ada", namespaces=["time"])
        assert [tool.id for tool in session.tools()] == ["time.get_current_time"]
        assert list(session.model_tools()) == ["get_current_time"]


@requirement("aomi.ns.2", "aomi.ns.3")
async def test_story_5_a_closed_namespace_is_denied_by_bare_name_by_full_name_and_through_another_tool() -> None:
    ran.clear()
    async with Crib([get_current_time, forge_execute, detour]) as crib:
        session = await crib.open(owner="ada", namespaces=["time"])
        bare = await session.call("forge_execute")
        full = await session.result((await session.submit("forge.forge_execute")).id)
        through = await session.call("detour", {"name": "forge.forge_execute"})
        for result in (bare, full):
            assert failure(result).code == "denied"
            assert failure(result).message == "Namespace 'forge' is not open in this session (open: time)"
        assert through.data == {"code": "denied"}
        assert ran == []


@requirement("aomi.ns.2")
async def test_the_call_is_checked_even_if_the_listing_was_not() -> None:
    """A tool that slipped into what a session finds is still stopped before it runs."""
    ran.clear()
    async with Crib([get_current_time, forge_execute]) as crib:
        session = await crib.open(owner="ada", namespaces=["time"])
        session.tool = lambda name: forge_execute  # type: ignore[method-assign]
        assert failure(await session.call("forge_execute")).code == "denied"
        assert ran == []


@requirement("aomi.ns.3")
async def test_an_unknown_name_is_not_found_with_the_nearest_names_the_session_may_use() -> None:
    @tool(namespace="forge", read_only=True)
    async def get_current_tim() -> None:
        """Nearer, but closed."""

    async with Crib([get_current_time, get_current_tim]) as crib:
        session = await crib.open(owner="ada", namespaces=["time"])
        found = failure(await session.call("get_curent_time"))
        assert (found.code, found.message) == ("not_found", "Unknown tool: get_curent_time")
        assert "get_current_time" in (found.hint or "")
        assert "get_current_tim," not in f"{found.hint},".replace("get_current_time", "")


@requirement("aomi.ns.3")
async def test_denied_and_unknown_calls_are_accepted_calls_with_one_done_and_end_nothing(place: Place) -> None:
    async with place.crib(get_current_time, forge_execute) as crib:
        session = await crib.open(owner="ada", namespaces=["time"])
        for name in ("forge_execute", "nonsense"):
            call = await session.submit(name, turn="t")
            assert kinds(await log(session, call.id)) == ["accepted", "done"]
        assert (await session.call("get_current_time", turn="t")).data == 12
        assert [entry.status for entry in await session.completed()] == ["failed", "failed", "succeeded"]


@requirement("aomi.ns.3")
async def test_a_bare_name_that_two_closed_namespaces_have_is_denied_not_unknown() -> None:
    async def look() -> None:
        """Look."""

    async with Crib([get_current_time, tool(namespace="one")(look), tool(namespace="two")(look)]) as crib:
        session = await crib.open(owner="ada", namespaces=["time"])
        assert failure(await session.call("look")).code == "denied"


@requirement("aomi.ns.4")
async def test_a_bare_name_is_taken_where_only_one_tool_has_it_and_ambiguous_otherwise() -> None:
    def look(namespace: str) -> Tool:
        async def look() -> str:
            """Look."""
            return namespace

        made: Tool = tool(namespace=namespace, read_only=True)(look)
        return made

    async with Crib([look("one"), look("two")]) as crib:
        alone = await crib.open(owner="ada", namespaces=["one"])
        both = await crib.open(owner="ada", namespaces=["one", "two"])
        assert (await alone.call("look")).data == "one"
        unsure = failure(await both.call("look"))
        assert unsure.code == "invalid_arguments"
        assert "one.look" in unsure.message
        assert "two.look" in unsure.message
        assert (await both.call("two.look")).data == "two"


@requirement("aomi.ns.5")
async def test_a_tool_added_later_shows_in_open_sessions_that_may_see_it(place: Place) -> None:
    async with place.crib(get_current_time) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["time"])
        crib.add(detour, forge_execute)
        assert [tool.id for tool in session.tools()] == ["time.detour", "time.get_current_time"]
        assert (await session.call("detour", {"name": "get_current_time"})).data == {"code": None}
        changed = await first(session, "tools_changed")
        assert changed.fields["tools"] == ["time.detour", "time.get_current_time"]


@requirement("aomi.ns.5")
async def test_a_session_whose_list_stays_the_same_hears_nothing() -> None:
    async with Crib([get_current_time, forge_execute]) as crib:
        one, two = await crib.open(owner="a", namespaces=["time"]), await crib.open(owner="a", namespaces=["forge"])
        crib.remove("forge.forge_execute")
        await first(two, "tools_changed")
        assert "tools_changed" not in kinds(await log(one))


@requirement("aomi.ns.5")
async def test_of_a_removed_tool_running_calls_finish_and_queued_ones_are_not_found(place: Place) -> None:
    gate = Gate()

    @tool(concurrency=1)
    async def slow() -> str:
        """Take a while."""
        await gate.passed()
        return "finished"

    async with place.crib(slow) as crib:
        session = await crib.open(owner="ada")
        running = await session.submit("slow")
        await gate.wait()
        queued = await session.submit("slow")
        crib.remove("default.slow")
        assert session.tools() == []
        gone = failure(await asyncio.wait_for(session.result(queued.id), 60))
        assert (gone.code, gone.message) == ("not_found", "Unknown tool: slow")
        assert failure(await session.call("slow")).code == "not_found"
        gate.opened.set()
        assert (await session.result(running.id)).data == "finished"


@requirement("aomi.ns.6")
async def test_a_name_can_be_registered_once_in_a_namespace() -> None:
    async def look() -> int:
        """Look."""
        return 1

    one: Tool = tool(namespace="n", name="x", source="one")(look)
    with pytest.raises(Refused) as refused:
        Crib([one, tool(namespace="n", name="x", source="two")(look)])
    assert refused.value.message == "Tool 'x' is already registered in namespace 'n'"
    crib = Crib([one, tool(namespace="m", name="x")(look)])
    with pytest.raises(Refused, match="already registered"):
        crib.add(tool(namespace="n", name="x")(look))
    assert crib.catalog.get("n.x") is one


@requirement("aomi.ns.7")
async def test_no_text_changes_namespaces() -> None:
    @tool(read_only=True)
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    async with Crib([echo, forge_execute]) as crib:
        session = await crib.open(owner="ada")
        await session.call("echo", {"text": "forge-magic"}, label="forge-magic")
        await session.notice("forge-magic")
        await session.set_user({"namespaces": ["forge"], "message": "forge-magic"})
        assert session.namespaces == ("default",)
        assert failure(await session.call("forge_execute")).code == "denied"


@requirement("aomi.ns.8")
async def test_an_alias_names_a_namespace_and_an_undeclared_one_is_not_found() -> None:
    @tool(namespace="l2beat", read_only=True)
    async def tvl() -> int:
        """Sum it up."""
        return 1

    async with Crib([tvl], namespace_aliases={"l2b": "l2beat"}) as crib:
        session = await crib.open(owner="ada", namespaces=["L2B"])
        assert session.namespaces == ("l2beat",)
        assert (await session.call("tvl")).data == 1
        with pytest.raises(Refused) as refused:
            await crib.open("s-1", owner="ada", namespaces=["y"])
        assert (refused.value.code, refused.value.message) == ("not_found", "Unknown namespace: y")
        assert await crib.store.session("s-1") is None


@requirement("aomi.ns.9")
async def test_a_star_opens_every_namespace_and_has_to_be_allowed_as_such() -> None:
    async with Crib([get_current_time, forge_execute]) as crib:
        session = await crib.open(owner="ada", namespaces=["*"])
        assert (await session.call("forge.forge_execute")).data == "built"
        some = await crib.open(owner="ada", namespaces=["ti*"])
        assert [tool.id for tool in some.tools()] == ["time.get_current_time"]
        with pytest.raises(Refused, match=r"Namespace '\*' not authorized. Allowed: \[time, forge\]"):
            await crib.open(owner="ada", namespaces=["*"], allowed=["time", "forge"])
        assert (await crib.open(owner="ada", namespaces=["*"], allowed=["*"])).namespaces == ("*",)

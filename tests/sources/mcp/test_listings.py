"""Whatever connections list, and in whatever order, nobody is shown a tool that only somebody else's process has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from hypothesis import example, given
from hypothesis import strategies as st

from tests.requirements import requirement
from toolcrib.sources.mcp.link import ServerLink
from toolcrib.sources.mcp.listings import CredentialListings, ToolListings
from toolcrib.sources.mcp.results import OfferedTool
from toolcrib.sources.mcp.tool_list import ToolListing

OWNERS = (None, "ada", "bob")
TOOLS = st.lists(st.builds(OfferedTool, name=st.sampled_from("abc"), description=st.sampled_from(["", "other"])))
OTHER = OfferedTool("a", "other")
STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from((*OWNERS, "gone")), TOOLS), max_size=12)


@requirement("gateway.share.4")
@given(STEPS)
@example([(1, "ada", [OTHER]), (2, "bob", [OfferedTool("a")]), (0, "bob", [OTHER])])
def test_nobody_is_shown_what_only_others_list(steps: list[tuple[int, Any, list[OfferedTool]]]) -> None:
    links = [cast(ServerLink, object()) for _ in range(4)]
    listings, told_all = ToolListings(), list[OfferedTool]()
    current: dict[ServerLink, tuple[str | None, list[OfferedTool]]] = {}
    for number, owner, tools in steps:
        link, unique = links[number], [*{tool.name: tool for tool in tools}.values()]
        if owner == "gone":
            if listings.drop(link):
                del current[link]
        else:
            listings.take(link, ToolListing(unique), owner)
            current[link] = owner, unique
            told_all += unique if owner is None else []
    merged = listings.merged().tools
    assert {tool.name for tool in merged if tool.owners is None} <= {tool.name for tool in told_all}
    for tool in merged:
        plain = OfferedTool(tool.name, tool.description)
        assert tool.owners is not None or plain in told_all
        for owner in tool.owners or ():
            assert any(who == owner and plain in theirs for who, theirs in current.values())
    for owner, theirs in current.values():
        for name in {tool.name for tool in theirs}:
            seen = [tool for tool in merged if tool.name == name and owner in (tool.owners or (owner,))]
            assert len(seen) == 1


@requirement("gateway.share.5")
@given(STEPS)
def test_with_credentials_everybody_has_the_newest_list_of_their_own(
    steps: list[tuple[int, Any, list[OfferedTool]]],
) -> None:
    listings = CredentialListings()
    newest: dict[str, dict[str, OfferedTool]] = {}
    for number, owner, tools in steps:
        link = cast(ServerLink, number)
        if owner == "gone":
            listings.drop(link)
        else:
            listings.take(link, ToolListing(tools), owner)
            newest[owner or ""] = {tool.name: tool for tool in tools}
    merged = listings.merged().tools
    shown = {
        who: {tool.name: replace(tool, owners=None) for tool in merged if who in (tool.owners or ())} for who in newest
    }
    assert shown == newest
    assert {*newest} >= {owner for tool in merged for owner in tool.owners or ("nobody",)}

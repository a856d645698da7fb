"""What is kept as it was said: metadata of client tools, `not_found` of a tool, other names of namespaces, defaults."""

import logging
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib import BadTool, Change, Crib, Result, Tool, ToolFailure, tool
from toolcrib.agent.awaken import to_agent
from toolcrib.interop import aios
from toolcrib.types import Failure


@tool(namespace="shop", read_only=True)
async def find(order: str) -> str:
    """Find an order."""
    if order == "0":
        raise ToolFailure("not_found", "There is no order 0")
    return order


@requirement("findings.words.1")
@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "integer", "default": "many"}, "is no integer"),
        ({"type": "string", "enum": ["a", "b"], "default": "c"}, "is none of 'a', 'b'"),
        ({"type": "integer", "maximum": 5, "default": 6}, "is out of its range"),
        ({"type": "boolean", "default": 1}, "is no boolean"),
        ({"type": ["string", "null"], "default": 5}, "is no string or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": "x"}, "is no integer"),
        ({"type": "object", "properties": {"k": {"type": "integer", "default": "x"}}}, "n.k: the default 'x'"),
        ({"type": "array", "items": {"properties": {"k": {"enum": ["a"], "default": "z"}}}}, "n.items.k: the default"),
    ],
)
def test_a_default_that_breaks_its_own_schema_is_refused(schema: dict[str, Any], told: str) -> None:
    given = {"type": "object", "properties": {"n": schema}}
    with pytest.raises(BadTool) as caught:
        Tool(name="t", description="d", input_schema=given)
    assert told in str(caught.value)
    far: Tool = Tool(name="t", description="d", input_schema=given, trusted=False)
    assert told.partition(": ")[0] in far.warnings[0]


@requirement("findings.words.1")
def test_defaults_that_fit_are_taken() -> None:
    fitting: list[dict[str, Any]] = [
        {"type": "integer", "default": 5},
        {"type": "number", "default": 5},
        {"type": ["string", "null"], "default": None},
        {"anyOf": [{"type": "string"}], "default": "x"},
        {"type": "boolean", "default": False},
        {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        {"type": "object", "properties": {"default": {"type": "string"}, "k": {"type": "integer", "default": 1}}},
        {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}], "default": {"y": 1}},
    ]
    properties = {f"p{number}": one for number, one in enumerate(fitting)}
    schema = {"type": "object", "properties": properties, "$defs": {"x": {"type": "object"}}}
    made: Tool = Tool(name="t", description="d", input_schema=schema)
    assert made.warnings == ()


@requirement("findings.words.2")
async def test_a_namespace_may_be_called_by_its_other_name() -> None:
    async with Crib([find], namespace_aliases={"store": "shop"}) as crib:
        session = await crib.open(owner="ada", namespaces=["store"])
        assert (await session.call("store.find", {"order": "7"})).data == "7"
        assert (await session.call("shop.find", {"order": "7"})).data == "7"


@requirement("findings.words.3")
async def test_what_a_tool_does_not_find_is_no_missing_tool_elsewhere() -> None:
    async with Crib([find]) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        own = (await session.call("shop.find", {"order": "0"})).failure
        unknown = (await session.call("shop.fnd", {})).failure
    assert isinstance(own, Failure)
    assert isinstance(unknown, Failure)
    assert aios.error_text(own, "find") == "[find] execution failed: There is no order 0"
    assert aios.error_text(unknown, "fnd") == "tool not found: fnd"


@requirement("findings.words.4")
async def test_metadata_of_a_clients_tool_is_kept(tmp_path: Any) -> None:
    store, offer = f"sqlite:///{tmp_path}/s.db", {"name": "pick", "description": "Pick.", "metadata": {"ui": "list"}}
    async with Crib([find], store=store) as crib:
        session = await crib.open("s", owner="ada")
        await session.offer([offer])
    async with Crib([find], store=store) as crib:
        session = await crib.open("s", owner="ada")
        (kept,) = session.client_tools
    assert dict(kept.metadata) == {"ui": "list"}


@requirement("findings.words.8")
async def test_merge_replaces_what_is_nested_and_the_page_says_so() -> None:
    @tool
    async def put(name: str) -> Result:
        """Put a value."""
        return Result(changes=[Change("merge", "m", {"nested": {name: 1}, name: 1})])

    async with Crib([put], policy={"default": "allow"}) as crib:
        session = await crib.open(owner="ada")
        for name in ("a", "b"):
            assert (await session.call("put", {"name": name})).ok
        assert session.state.snapshot()["m"] == {"nested": {"b": 1}, "a": 1, "b": 1}
    page = (ROOT / "docs/reference/context.md").read_text("utf-8")
    assert "puts the keys at the top of an object into another; what is nested is replaced as a whole" in page


@requirement("findings.words.5")
def test_a_spec_of_awaken_with_plugins_is_read_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "toolcrib.agent"):
        agent = to_agent({"id": "a", "plugin_ids": ["memory", "own"]})
    assert agent.metadata["plugin_ids"] == ["memory", "own"]
    assert ["memory, own" in record.getMessage() for record in caplog.records] == [True]

"""Mistakes of programs: each is told where it is made, by a sentence that says what to write."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import BadTool, Crib, Refused, Tool, tool
from toolcrib.review import review


class Database:
    """Something that tools want."""


class Shop:
    """Something with methods."""

    def find(self, order: str) -> str:
        """Find an order."""
        return f"found {order}"


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def query(db: Database, x: int) -> int:
    """Ask a database."""
    return x


loose: Callable[..., Any] = Crib


@requirement("findings.program.1")
@pytest.mark.parametrize(
    ("sources", "told"),
    [
        (["shop.py"], "import shop"),
        ([Path("/nope")], "no such file or folder"),
        ([Path(__file__).parent / "__init__.py"], "is Python"),
        ([5], "a source is a function"),
        ([functools.partial(add, b=3)], "but(fixed={'b': ...})"),
        ([Shop.find], "tool(Shop(...).find)"),
        ([Shop()], "a source is a function"),
    ],
)
def test_what_is_no_source_is_refused_when_the_crib_is_made(sources: list[Any], told: str) -> None:
    with pytest.raises(BadTool) as caught:
        Crib(sources)
    assert told in str(caught.value)


@requirement("findings.program.1")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"sources": "tools/"}, "Crib(['tools/'])"),
        ({"sources": add}, "Crib([add])"),
        ({"sources": None}, "expected a list"),
        ({"limits": {"timeout_s": 5}}, "CribLimits(...)"),
        ({"policy": "default"}, "{'preset': 'default'}"),
        ({"retention": "7d"}, "timedelta"),
        ({"deps": ["db"]}, "a mapping"),
        ({"agents": ["desk"]}, "Agents([...])"),
        ({"default_namespaces": "shop"}, "['shop']"),
        ({"state_keys": {"visits": "ad"}}, "state_keys.visits: expected one of exclusive, add"),
    ],
)
def test_arguments_of_a_crib_of_another_kind_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError) as caught:
        loose(**given)
    assert told in str(caught.value)


@requirement("findings.program.2")
@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"read_only": True, "effect": "once"}, "exclude each other"),
        ({"destructive": True, "effect": "read"}, "exclude each other"),
        ({"timeout": "5s"}, "'5s' is no number"),
        ({"timeout": 0}, "not more than zero"),
        ({"limits": {"timeout_s": 5}}, "Limits(...)"),
        ({"tags": "math"}, "['math']"),
        ({"capabilities": "db:read"}, "['db:read']"),
        ({"capabilities": ["db:read:{c}"]}, "no argument 'c'"),
        ({"primary": "aa"}, "did you mean 'a'?"),
        ({"validate": "positive"}, "no function"),
        ({"deps": ["bb"]}, "no parameter 'bb', did you mean 'b'?"),
        ({"deps": ["database"]}, "no parameter 'database'"),
        ({"deps": "a"}, "is a list such as ['a']"),
        ({"reconcile": "later"}, "is a function, not 'later'"),
    ],
)
def test_fields_of_a_tool_that_do_not_hold_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadTool) as caught:
        tool(**fields)(add)
    assert told in str(caught.value)


@requirement("findings.program.2")
async def test_bound_methods_work_and_unbound_ones_are_refused() -> None:
    async with Crib([Shop().find]) as crib:
        session = await crib.open(owner="ada")
        assert (await session.call("find", {"order": "7"})).data == "found 7"
    with pytest.raises(BadTool):
        type("Kit", (), {"find": tool(Shop.find)})


@requirement("findings.program.3")
def test_a_dependency_that_is_missing_is_told_when_the_crib_is_made() -> None:
    asking = tool(deps=["db"])(query)
    with pytest.raises(BadTool) as caught:
        Crib([asking])
    assert "Crib(deps={'db': ...})" in str(caught.value)
    for deps in ({"db": Database()}, {"other": Database()}):
        assert Crib([asking], deps=deps).catalog.get("query") is not None
    crib = Crib([])
    with pytest.raises(BadTool):
        crib.add(asking)


@requirement("findings.program.4")
async def test_a_session_of_a_crib_that_is_not_started_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        await Crib([add]).open(owner="ada")
    assert "async with" in str(caught.value)


@requirement("findings.program.5")
@pytest.mark.parametrize(
    "options",
    [
        {"timeout_s": "5s"},
        {"timeout_s": 0},
        {"timeout_s": -1},
        {"timeout_s": float("nan")},
        {"timeout_s": True},
        {"label": 5},
        {"key": 5},
        {"provider_id": b"a"},
        {"background": "yes"},
        {"cancel_on_disconnect": 1},
        {"turn": 2},
        {"agent": ["desk"]},
    ],
    ids=str,
)
async def test_an_option_of_a_call_of_another_kind_is_refused_by_its_name(options: dict[str, Any]) -> None:
    async with Crib([add]) as crib:
        session = await crib.open(owner="ada")
        with pytest.raises(TypeError, match=f"^{next(iter(options))}: expected "):
            await session.call("add", {"a": 1}, **options)
        kept = await session.call("add", {"a": 1}, timeout_s=5, label="One", key="k", background=False)
        assert kept.data == 3


@requirement("findings.program.4")
async def test_a_call_never_raises_because_of_what_it_was_given() -> None:
    async with Crib([add]) as crib:
        session = await crib.open(owner="ada")
        named: Any = None
        assert str((await session.call(named, {})).failure).startswith("[not_found]")
        made: Any = crib.catalog.get("add")
        assert isinstance(made, Tool)
        assert (await session.call(made, {"a": 1})).data == 3  # type: ignore[arg-type]  # a tool is called by its id
        given: list[Any] = ["x", 5, [], {"a": object()}, {1: 2}]
        for args in given:
            failure = (await session.call("add", args)).failure
            assert failure is not None
            assert failure.code == "invalid_arguments"
        with pytest.raises(Refused):
            await crib.open(owner="ada", namespaces="default")


@requirement("findings.program.5")
async def test_options_of_a_call_that_nobody_knows_are_refused() -> None:
    async with Crib([add]) as crib:
        session: Any = await crib.open(owner="ada")
        for option, told in (
            ({"wake": "wkae"}, "wake: 'wkae' is none of wake, next_turn, silent"),
            ({"by": "robot"}, "by: expected By"),
            ({"by": ("robot", "r")}, "by: 'robot' is none of user, agent, tool, client"),
            ({"timeout": 3}, "unknown option 'timeout'"),
        ):
            with pytest.raises(TypeError, match=told):
                await session.submit("add", {"a": 1}, **option)
        assert (await session.call("add", {"a": 1}, by={"kind": "agent", "name": "clerk"})).data == 3


@requirement("findings.program.5")
async def test_a_tool_that_is_not_there_cannot_be_removed() -> None:
    async with Crib([add]) as crib:
        with pytest.raises(Refused, match=r"Unknown tool: default\.ad") as caught:
            crib.remove("default.add", "default.ad")
        assert (caught.value.hint, caught.value.code) == ("did you mean default.add?", "not_found")
        crib.remove("default.add")


@requirement("findings.program.5")
async def test_a_workspace_that_is_not_there_is_found(tmp_path: Path) -> None:
    async with Crib([add], workspace=tmp_path / "no") as crib:
        assert [one.code for one in await review(crib)] == ["NO_FOLDER"]

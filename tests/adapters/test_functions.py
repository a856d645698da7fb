"""Tools as functions, and functions that pass through a crib."""

import inspect
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Crib, ToolFailure, tool
from toolcrib.adapters import guard, tools_as_functions


@tool
async def refund(order: str, cents: int = 100, tags: list[str] | None = None) -> dict[str, Any]:
    """Refund part of an order.

    Args:
        order: Which one.
    """
    if cents < 0:
        raise ToolFailure("Nothing to refund")
    return {"order": order, "cents": cents}


@requirement("adapters.functions.1")
async def test_a_tool_as_a_function_has_signature_and_docstring() -> None:
    async with Crib([refund]) as crib:
        [function] = tools_as_functions(await crib.open(owner="ada"))
        assert function.__name__ == "refund"
        assert "Refund part of an order." in (function.__doc__ or "")
        assert "order: Which one." in (function.__doc__ or "")
        signature = inspect.signature(function)
        assert list(signature.parameters) == ["order", "cents", "tags"]
        assert signature.parameters["order"].annotation is str
        assert signature.parameters["order"].default is inspect.Parameter.empty
        assert signature.parameters["cents"].default == 100
        assert await function(order="A-7") == {"order": "A-7", "cents": 100}


@requirement("adapters.functions.1")
async def test_failures_and_waits_of_a_function_are_text_for_the_model() -> None:
    async with Crib([refund]) as crib:
        session = await crib.open(owner="ada")
        [function] = tools_as_functions(session)
        assert await function(order="A-7", cents=-1) == "[failed] Nothing to refund"
        assert "invalid_arguments" in await function(order="A-7", cents="many")
    async with Crib([refund], policy={"rules": [{"ask": "default.refund"}]}) as crib:
        session = await crib.open(owner="ada")
        [function] = tools_as_functions(session)
        text = await function(order="A-7", cents=501)
        [question] = await session.questions()
        assert "waits" in text
        assert question.call in text


@requirement("adapters.functions.2")
async def test_a_guarded_function_passes_through_policy_and_log() -> None:
    bodies: list[str] = []
    rules = [{"allow": "default.delete"}, {"deny": "default.delete(path = '/')"}]
    async with Crib(policy={"rules": rules}) as crib:
        session = await crib.open(owner="ada")

        @guard(session, timeout=5)
        def delete(path: str, force: bool = False) -> str:
            """Delete a file."""
            bodies.append(path)
            return f"deleted {path}"

        assert await delete("/tmp/x") == "deleted /tmp/x"
        assert "denied" in await delete("/")
        assert bodies == ["/tmp/x"]
        assert [entry.tool for entry in await session.completed()] == ["default.delete", "default.delete"]


@requirement("adapters.functions.2")
async def test_a_guarded_function_that_is_asked_about_runs_once_it_is_approved() -> None:
    bodies: list[int] = []
    async with Crib() as crib:
        session = await crib.open(owner="ada")

        @guard(session, destructive=True)
        async def pay(cents: int) -> int:
            """Pay."""
            bodies.append(cents)
            return cents

        assert "waits" in await pay(5, crib_key="order-1")
        [question] = await session.questions()
        await session.answer(question.id, "accept", actor="bob")
        assert await pay(5, crib_key="order-1") == 5
        assert await pay(5, crib_key="order-1") == 5
        assert bodies == [5]


async def test_a_function_in_a_namespace_that_the_session_lacks_is_refused() -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        with pytest.raises(ValueError, match=r"does not see other\.pay"):

            @guard(session, namespace="other")
            async def pay(cents: int) -> int:
                """Pay."""
                return cents

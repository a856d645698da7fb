"""Tests of the tools: each by itself, and in a crib with its policy."""

import asyncio
from pathlib import Path

import pytest
from toolcrib import testing
from toolcrib.cli import load

import tools


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "BOOK", tmp_path / "tasks.json")


def test_a_task_that_was_added_is_listed() -> None:
    added = asyncio.run(testing.run(tools.add_task, {"text": "call Ada"}))
    listed = asyncio.run(testing.run(tools.list_tasks, {}))
    assert added.data["id"] == 3
    assert added.data in listed.data


def test_a_task_is_not_deleted_unless_somebody_agrees() -> None:
    async def delete(task: int, answer: str) -> str:
        async with load(Path(__file__).parents[1] / "crib.yaml", store="memory:") as crib:
            session = await crib.open(owner="ada", namespaces=["tasks"])
            call = await session.submit("tasks.delete_task", {"task": task})
            async for event in session.events(call=call.id):
                if event.kind == "waiting":
                    await session.answer(event.data.question.id, answer, actor="bob")
            result = await session.result(call.id)
            return "deleted" if result.ok else str(result.failure and result.failure.code)

    assert asyncio.run(delete(2, "decline")) == "declined"
    assert asyncio.run(delete(2, "accept")) == "deleted"
    assert asyncio.run(delete(1, "accept")) == "denied"

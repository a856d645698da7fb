"""The tools of this project: functions with types and a docstring."""

import json
from pathlib import Path
from typing import Any

from toolcrib import Context, ToolFailure, tool

BOOK = Path(__file__).with_name("tasks.json")
FIRST = [{"id": 1, "text": "try toolcrib", "done": False}, {"id": 2, "text": "write a tool", "done": False}]


def read() -> list[dict[str, Any]]:
    """Return all tasks."""
    tasks: list[dict[str, Any]] = json.loads(BOOK.read_text("utf-8")) if BOOK.exists() else FIRST
    return tasks


@tool(namespace="tasks", read_only=True)
async def list_tasks() -> list[dict[str, Any]]:
    """List all tasks."""
    return read()


@tool(namespace="tasks")
async def add_task(ctx: Context, text: str) -> dict[str, Any]:
    """Add a task.

    Args:
        text: What there is to do.
    """
    tasks = read()
    ctx.progress("writing it down", 0.5)
    task = {"id": max((one["id"] for one in tasks), default=0) + 1, "text": text, "done": False}
    BOOK.write_text(json.dumps([*tasks, task]), "utf-8")
    return task


@tool(namespace="tasks", destructive=True)
async def delete_task(task: int) -> str:
    """Delete a task for good. A person is asked before it runs.

    Args:
        task: The id of the task.
    """
    tasks = read()
    if all(one["id"] != task for one in tasks):
        raise ToolFailure("not_found", f"There is no task {task}", hint="list_tasks has their ids.")
    BOOK.write_text(json.dumps([one for one in tasks if one["id"] != task]), "utf-8")
    return f"task {task} is gone"

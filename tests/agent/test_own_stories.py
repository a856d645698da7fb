"""Stories of our own, told as the shared ones are: restarts, interruptions and failures at every depth."""

from pathlib import Path
from typing import Any

import pytest

from tests.agent.stories import Story
from tests.requirements import requirement
from tests.session.place import Place

TEAM: list[Any] = [
    {"name": "boss", "instructions": "B", "sub_agents": ["worker"]},
    {"name": "worker", "instructions": "W"},
]
MAIN: list[Any] = [{"name": "main", "instructions": "M"}]


def call(id: str, tool: str, **args: Any) -> dict[str, Any]:
    return {"id": id, "tool": tool, "args": args}


STORIES: list[dict[str, Any]] = [
    {
        "id": "client-in-child",
        "agents": TEAM,
        "tools": [{"name": "pick", "client": True}],
        "script": {
            "boss": [{"calls": [call("d", "call_agent", agent="worker", prompt="p")]}, {"text": "b"}],
            "worker": [{"calls": [call("c", "pick")]}, {"text": "w"}],
        },
        "do": [
            {"send": "x"},
            {"expect": {"questions": 1, "question_path": ["boss", "worker"], "counts": {"run_waiting": 2}}},
            {"restart": True},
            {"answer": {"call": "c", "action": "accept", "value": {"v": 1}}},
        ],
        "expect": {
            "answer": "b",
            "calls": {"c": {"ok": True, "data": {"v": 1}}, "d": {"ok": True}},
            "counts": {"run_resumed": 2, "run_finished": 2},
        },
    },
    {
        "id": "raises",
        "agents": MAIN,
        "tools": [{"name": "bad", "raises": "boom"}, {"name": "sad", "fails": {"code": "failed", "message": "no"}}],
        "script": {"main": [{"calls": [call("a", "bad"), call("b", "sad")]}, {"text": "k"}]},
        "do": [{"send": "x"}],
        "expect": {
            "answer": "k",
            "calls": {"a": {"ok": False, "code": "internal"}, "b": {"ok": False, "code": "failed"}},
        },
    },
    {
        "id": "restart-mid-slow-child",
        "agents": TEAM,
        "tools": [{"name": "slow", "sleeps_ms": 3000, "returns": 1}],
        "script": {
            "boss": [{"calls": [call("d", "call_agent", agent="worker", prompt="p")]}, {"text": "b"}],
            "worker": [{"calls": [call("c", "slow")]}, {"text": "w"}],
        },
        "do": [{"send": "x", "wait": "started:slow"}, {"restart": True}],
        "expect": {"answer": "b", "calls": {"c": {"ok": False, "code": "unknown"}, "d": {"ok": True}}},
    },
    {
        "id": "restart-mid-idempotent",
        "agents": MAIN,
        "tools": [{"name": "slow", "sleeps_ms": 500, "returns": 1, "annotations": {"read_only": True}}],
        "script": {"main": [{"calls": [call("c", "slow")]}, {"text": "w"}]},
        "do": [{"send": "x", "wait": "started:slow"}, {"restart": True}],
        "expect": {"answer": "w", "executions": {"slow": 1}, "calls": {"c": {"ok": True}}},
    },
    {
        "id": "restart-with-background-child",
        "agents": TEAM,
        "tools": [{"name": "slow", "sleeps_ms": 300, "returns": 1, "annotations": {"read_only": True}}],
        "script": {
            "boss": [
                {"calls": [call("d", "call_agent", agent="worker", prompt="p", mode="background")]},
                {"text": "started"},
                {"text": "woken"},
            ],
            "worker": [{"calls": [call("c", "slow")]}, {"text": "w"}],
        },
        "do": [{"send": "x"}, {"restart": True}, {"wait": "run_finished:answered", "times": 3}],
        "expect": {"answer": "woken", "counts": {"run_started": 3}, "calls": {"d": {"ok": True}}},
    },
    {
        "id": "cancel-waiting-then-send",
        "agents": MAIN,
        "tools": [{"name": "pay", "asks": "confirm", "returns": 1}],
        "script": {"main": [{"calls": [call("c", "pay")]}, {"text": "next"}]},
        "do": [
            {"send": "x"},
            {"cancel": True},
            {"expect": {"questions": 0, "end": {"reason": "cancelled"}}},
            {"send": "y"},
        ],
        "expect": {"answer": "next", "calls": {"c": {"ok": False, "code": "cancelled"}}},
    },
    {
        "id": "steer-while-waiting",
        "agents": MAIN,
        "tools": [{"name": "pay", "asks": "confirm", "returns": 1}],
        "script": {"main": [{"calls": [call("c", "pay")]}, {"text": "ok"}]},
        "do": [{"send": "x"}, {"send": "be quick", "mode": "steer"}, {"answer": {"call": "c", "action": "accept"}}],
        "expect": {
            "answer": "ok",
            "sees": [{"agent": "main", "turn": 2, "contains": ["be quick"]}],
            "counts": {"run_started": 1},
        },
    },
    {
        "id": "interrupt-while-waiting",
        "agents": MAIN,
        "tools": [{"name": "pay", "asks": "confirm", "returns": 1}],
        "script": {"main": [{"calls": [call("c", "pay")]}, {"text": "ok"}]},
        "do": [{"send": "x"}, {"send": "no, this", "mode": "interrupt"}],
        "expect": {
            "answer": "ok",
            "counts": {"run_started": 2, "run_finished": 2},
            "calls": {"c": {"ok": False, "code": "cancelled"}},
        },
    },
    {
        "id": "crash-after-done-transfer",
        "agents": [{"name": "a", "instructions": "A", "sub_agents": ["b"]}, {"name": "b", "instructions": "B"}],
        "tools": [],
        "script": {"a": [{"calls": [call("t", "transfer_to_agent", agent_name="b")]}], "b": [{"text": "b"}]},
        "do": [{"send": "x", "crash_after": "done:transfer_to_agent"}, {"restart": True}],
        "expect": {"answer": "b", "counts": {"handover": 1}},
    },
    {
        "id": "child-fails",
        "agents": TEAM,
        "tools": [],
        "script": {
            "boss": [{"calls": [call("d", "call_agent", agent="worker", prompt="p")]}, {"text": "b"}],
            "worker": [{"error": {"code": "unavailable", "message": "x"}}] * 3,
        },
        "do": [{"send": "x"}],
        "expect": {"answer": "b", "calls": {"d": {"ok": False, "code": "unavailable"}}},
    },
    {
        "id": "child-stopped",
        "agents": [TEAM[0], {"name": "worker", "instructions": "W", "max_turns": 1}],
        "tools": [{"name": "l", "returns": 1}],
        "script": {
            "boss": [{"calls": [call("d", "call_agent", agent="worker", prompt="p")]}, {"text": "b"}],
            "worker": [{"calls": [call("c", "l")]}],
        },
        "do": [{"send": "x"}],
        "expect": {"answer": "b", "calls": {"d": {"ok": True, "data": {"status": "stopped"}}}},
    },
    {
        "id": "child-budget",
        "agents": [{**TEAM[0], "stop": [{"type": "token_budget", "max_total": 10}]}, TEAM[1]],
        "tools": [],
        "script": {
            "boss": [
                {"calls": [call("d", "call_agent", agent="worker", prompt="p")], "usage": {"input": 1, "output": 1}},
                {"text": "never"},
            ],
            "worker": [{"text": "w", "usage": {"input": 9, "output": 1}}],
        },
        "do": [{"send": "x"}],
        "expect": {"end": {"reason": "stopped", "code": "token_budget"}, "answer": None},
    },
    {
        "id": "edited-in-child",
        "agents": TEAM,
        "tools": [{"name": "pay", "asks": "confirm", "returns": 1}],
        "script": {
            "boss": [{"calls": [call("d", "call_agent", agent="worker", prompt="p")]}, {"text": "b"}],
            "worker": [{"calls": [call("c", "pay", amount=500)]}, {"text": "w"}],
        },
        "do": [{"send": "x"}, {"answer": {"call": "c", "action": "accept", "arguments": {"amount": 5}}}],
        "expect": {
            "answer": "b",
            "ran_with": {"c": {"amount": 5}},
            "sees": [{"agent": "worker", "turn": 2, "contains": ['"amount":5']}],
        },
    },
    {
        "id": "two-sessions-of-waits",
        "agents": MAIN,
        "tools": [{"name": "pay", "asks": "confirm", "returns": 1}],
        "script": {
            "main": [{"calls": [call("c", "pay"), call("e", "pay")]}, {"calls": [call("f", "pay")]}, {"text": "ok"}]
        },
        "do": [
            {"send": "x"},
            {"answer": {"call": "c", "action": "accept"}},
            {"restart": True},
            {"answer": {"call": "e", "action": "decline"}},
            {"expect": {"questions": 1, "counts": {"run_waiting": 2, "run_finished": 0}}},
            {"restart": True},
            {"answer": {"call": "f", "action": "accept"}},
        ],
        "expect": {"answer": "ok", "executions": {"pay": 2}, "counts": {"run_finished": 1}},
    },
]


@requirement("agents.run.5", "agents.run.6", "agents.call.5", "agents.call.6")
@pytest.mark.parametrize("story", [pytest.param(one, id=one["id"]) for one in STORIES])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_story_of_our_own_comes_out_as_it_must(story: dict[str, Any], store: str, tmp_path: Path) -> None:
    await Story(story, Place("memory:" if store == "memory" else f"sqlite:///{tmp_path}/log.db")).tell()

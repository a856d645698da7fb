"""The fold of a log into the spans of the waterfall, on logs that were recorded and on those of agents at work."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import npm
from tests.agent.place import calls, text, world
from tests.logs import shop
from tests.requirements import requirement
from tests.session.place import Place
from tests.shared import nonempty
from toolcrib import Context, Event, tool
from toolcrib._call.history import History
from toolcrib.agent import Agent
from toolcrib.store import OWNER

ROOT = Path(__file__).parents[2]
LOG = ROOT / "tests" / "data" / "logs" / "0.1.0.db"
pytestmark = pytest.mark.process


def folded(session: str, events: Sequence[Event]) -> dict[str, Any]:
    """What the console makes of a log."""
    if not (ROOT / "console").is_dir():
        pytest.skip("the sources of the console are needed")
    lines = [json.dumps({**event.plain(), "session": session, "time": event.at}, default=str) for event in events]
    argv = [npm.node(), "--disable-warning=ExperimentalWarning", str(ROOT / "tests/console/fold.mjs")]
    done = subprocess.run(argv, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def by_id(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {span["id"]: span for span in made["spans"]}


def check(events: Sequence[Event], made: dict[str, Any]) -> None:
    """What holds for the spans of every log."""
    spans = by_id(made)
    assert len(spans) == len(made["spans"])
    accepted = [event for event in events if event.kind == "accepted"]
    assert {f"call:{event.call}" for event in accepted} == {id for id, one in spans.items() if one["kind"] == "call"}
    for event in accepted:
        history = History("s", (one for one in events if one.call == event.call))
        assert spans[f"call:{event.call}"]["state"] == {"streaming": "running"}.get(history.status, history.status)
        assert spans[f"call:{event.call}"]["seqs"] == [one.seq for one in events if one.call == event.call]
    for span in spans.values():
        phases = span["phases"]
        assert phases[0]["from"] == span["from"]
        assert all(one["to"] == two["from"] for one, two in itertools.pairwise(phases))
        assert phases[-1].get("to") == span.get("to")
        assert span["seqs"] == sorted(span["seqs"])
        if span.get("parent"):
            assert span["depth"] == spans[span["parent"]]["depth"] + 1
    for event in events:
        if event.kind == "run_finished":
            usage = event.fields["usage"]
            run = spans[f"run:{event.fields['run']}"]
            assert (run["usage"]["input"], run["usage"]["output"]) == (usage["input"], usage["output"])
    axis = made["axis"]
    assert axis["times"] == sorted(axis["times"])
    assert axis["places"] == sorted(axis["places"])
    assert made["there"] == pytest.approx(axis["times"])
    assert made["halves"] == sorted(made["halves"])
    assert made["halves"][-1] == len(spans)


@requirement("console.waterfall.1")
async def test_every_session_of_a_recorded_log_is_folded(tmp_path: Path) -> None:
    shutil.copy(LOG, tmp_path / "log.db")
    kinds: set[str] = set()
    async with shop.crib(f"sqlite:///{tmp_path / 'log.db'}") as crib:
        for row in nonempty([row for row in await crib.store.sessions(limit=50) if row.owner != OWNER]):
            events = await crib.store.read(row.id, limit=100_000)
            made = folded(row.id, events)
            check(events, made)
            kinds |= {span["kind"] for span in made["spans"]}
    assert kinds == {"run", "turn", "model", "call"}


@tool(read_only=True)
async def look(n: int) -> int:
    """Look."""
    return n


@tool(read_only=True)
async def look_twice(ctx: Context) -> list[Any]:
    """Look with calls of its own."""
    return [(await ctx.call("look", {"n": n})).data for n in (1, 2)]


@requirement("console.waterfall.1")
async def test_sub_agents_children_and_waits_stand_where_they_belong() -> None:
    @tool(destructive=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    team = [
        Agent(name="main", tools=["look_twice"], sub_agents=["helper"]),
        Agent(name="helper", tools=["pay"]),
    ]
    ask = calls(
        ("look_twice", {}), ("call_agent", {"agent": "helper", "prompt": "pay"}), usage={"input": 5, "output": 2}
    )
    script = {"main": [ask, text("done")], "helper": [calls(("pay", {})), text("paid")]}
    async with world(Place("memory:"), team, script, look, look_twice, pay) as here:
        await here.send("go")
        await here.session.answer((await here.question()).id, "accept", actor="bob")
        await here.settled()
        events = await here.log()
        made = await asyncio.to_thread(folded, "s", events)
    check(events, made)
    spans = by_id(made)
    path = [(span["kind"], span["name"]) for span in made["spans"] if span["kind"] != "model"]
    assert path == [
        ("run", "main"),
        ("turn", "main"),
        ("call", "default.look_twice"),
        ("call", "default.look"),
        ("call", "default.look"),
        ("call", "builtin.call_agent"),
        ("run", "helper"),
        ("turn", "helper"),
        ("call", "default.pay"),
        ("turn", "helper"),
        ("turn", "main"),
    ]
    waited = [span["name"] for span in spans.values() if any(one["doing"] == "waiting" for one in span["phases"])]
    assert {"default.pay", "helper", "main"} <= set(waited)
    (first, *_) = (span for span in spans.values() if span["kind"] == "model")
    assert (first["usage"], first["state"]) == ({"input": 5, "output": 2}, "done")


@requirement("console.waterfall.1")
async def test_a_model_that_was_asked_again_waited_in_between() -> None:
    agent = Agent(name="main", model_settings={"backoff_s": 0.01})
    script = {"main": [{"error": {"code": "unavailable", "message": "busy"}}, text("done")]}
    async with world(Place("memory:"), [agent], script) as here:
        await here.send("go")
        made = await asyncio.to_thread(folded, "s", await here.log())
    (model,) = (span for span in made["spans"] if span["kind"] == "model")
    assert [phase["doing"] for phase in model["phases"]] == ["waiting", "working"]
    assert model["first"] >= model["phases"][1]["from"]


def at(seq: int, time: float, kind: str, call: str | None = None, **data: Any) -> Event:
    return Event(seq, time, call, kind, json.dumps(data).encode())


def test_long_waits_are_folded_up_and_work_keeps_its_length() -> None:
    events: list[Event] = []
    for n, start in enumerate((0.0, 10.0, 100_000.0)):
        accepted = {"tool": "t", "label": "t", "args": {}, "by": {"kind": "user"}}
        events += [
            at(3 * n + 1, start, "accepted", f"c{n}", **accepted),
            at(3 * n + 2, start, "started", f"c{n}", attempt=1, args={}),
            at(3 * n + 3, start + 9, "done", f"c{n}", ok=True, duration_ms=9000),
        ]
    axis = folded("s", events)["axis"]
    assert axis["gaps"] == [{"from": 19, "to": 100_000}]
    assert axis["length"] == pytest.approx(28 * 1.06)
    assert dict(zip(axis["times"], axis["places"], strict=True))[10.0] == pytest.approx(10)

"""A story of an agent: fake tools, a script for the models, what people do, and what must come of it."""

import asyncio
import json
from collections import Counter
from typing import Any

from tests.agent.place import UNGUARDED
from tests.session.place import Place
from tests.shared import nonempty
from toolcrib import Context, Crib, Event, Session, Tool, ToolFailure
from toolcrib.agent import Agent, Agents, RunOutcome, ScriptedModel
from toolcrib.store import Store
from toolcrib.types import Annotations

SOON = 60.0


class Fakes:
    """The tools of a story; they count how often a body ran to its end, also across restarts."""

    def __init__(self, given: list[dict[str, Any]]) -> None:
        self.ended: Counter[str] = Counter()
        self.ran_with: dict[str, Any] = {}
        self.tools = [self._tool(one) for one in given]

    def _tool(self, said: dict[str, Any]) -> Tool:
        async def run(ctx: Context, values: Any) -> Any:
            self.ran_with[ctx.id] = dict(values)
            if "sleeps_ms" in said:
                await asyncio.sleep(said["sleeps_ms"] / 1000)
            value = said.get("returns")
            if said.get("asks") == "input":
                value = said["returns_template"].format(answer=(await ctx.ask("What?")).value)
            if "raises" in said:
                raise RuntimeError(said["raises"])
            if "fails" in said:
                fails = said["fails"]
                raise ToolFailure(**fails) if isinstance(fails, dict) else ToolFailure("failed", str(fails))
            self.ended[said["name"]] += 1
            return value

        marks = {**said.get("annotations", {}), "requires_confirmation": said.get("asks") == "confirm"}
        made: Tool = Tool(
            name=said["name"],
            description=said.get("description", said["name"]),
            input_schema=said.get("schema", {"type": "object"}),
            annotations=Annotations(**marks),
            run=None if said.get("client") else run,
        )
        return made


class Story:
    """One story while it is told."""

    def __init__(self, said: dict[str, Any], place: Place) -> None:
        self.said = said
        self.place = place
        self.fakes = Fakes(said.get("tools", []))
        self.model = ScriptedModel(said["script"])
        self.agents: Agents
        self.crib: Crib
        self.session: Session
        self.last: RunOutcome | None = None
        self.going: list[asyncio.Task[RunOutcome]] = []

    async def tell(self) -> None:
        await self.open()
        try:
            for step in self.said["do"]:
                await asyncio.wait_for(self.step(step), SOON)
            await asyncio.wait_for(self.settle(), SOON)
            await self.expect(self.said["expect"])
        finally:
            await self.end()

    async def open(self) -> None:
        given = [Agent(**one) for one in self.said["agents"]]
        self.agents = Agents(given, model=self.model)
        policy = {**UNGUARDED, **(self.said.get("policy") or {})}
        self.crib = self.place.crib(*self.fakes.tools, policy=policy, agents=self.agents)
        await self.crib.start()
        self.session = await self.crib.open("s", owner="ada")

    async def end(self) -> None:
        for task in self.going:
            task.cancel()
        if self.going:
            await asyncio.wait(self.going)
        self.going = []
        await self.crib.stop(grace=0)

    async def settle(self) -> None:
        for task in self.going:
            self.last = await task
        self.going = []
        self.last = await self.agents.settled(self.session) or self.last

    async def step(self, step: dict[str, Any]) -> None:
        if "send" in step:
            await self.send(step)
        elif "answer" in step:
            await self.answer(dict(step["answer"]))
        elif "restart" in step:
            await self.end()
            await self.open()
            await self.settle()
        elif "cancel" in step:
            await self.session.interrupt()
        elif "wait" in step:
            await self.seen(step["wait"], step.get("times", 1))
        else:
            await self.expect(step["expect"])

    async def send(self, step: dict[str, Any]) -> None:
        work = self.session.send(step["send"], mode=step.get("mode"))
        until = step.get("wait") or step.get("crash_after")
        if until is None:
            self.last = await work
            return
        self.going.append(asyncio.create_task(work))
        await self.seen(until)

    async def answer(self, given: dict[str, Any]) -> None:
        id = given.pop("call")
        calls = {event.call for event in await self.log() if event.fields.get("provider_id") == id}
        asked = next(one for one in await self.session.questions() if one.call in calls)
        await self.session.answer(asked.id, given.pop("action"), given.pop("value", None), **given)
        await self.settle()

    async def seen(self, what: str, times: int = 1) -> None:
        known: dict[str, str] = {}
        async for event in self.session.events():
            times -= named(event, known) == what or event.kind == what
            if not times:
                return

    async def log(self) -> list[Event]:
        return [event async for event in self.session.events(follow=False)]

    async def expect(self, wanted: dict[str, Any]) -> None:
        events = await self.log()
        for name, value in nonempty(wanted.items()):
            await getattr(self, f"_{name}")(value, events)

    # What can be expected

    async def _answer(self, value: Any, events: list[Event]) -> None:
        assert self.last is not None
        assert self.last.answer == value, self.last

    async def _answer_contains(self, value: list[str], events: list[Event]) -> None:
        assert self.last is not None
        assert all(text in self.last.answer for text in value)

    async def _answer_excludes(self, value: list[str], events: list[Event]) -> None:
        assert self.last is not None
        assert not any(text in self.last.answer for text in value)

    async def _end(self, value: dict[str, Any], events: list[Event]) -> None:
        ended = [event.fields for event in events if event.kind == "run_finished"][-1]
        assert {name: ended.get(name) for name in value} == value

    async def _events(self, value: list[str], events: list[Event]) -> None:
        known: dict[str, str] = {}
        told = iter([(named(event, known), event.kind) for event in events])
        for wanted in value:
            assert any(wanted in one for one in told), f"{wanted} is missing, or comes too early"

    async def _counts(self, value: dict[str, int], events: list[Event]) -> None:
        found = Counter(event.kind for event in events)
        assert {kind: found[kind] for kind in value} == value

    async def _calls(self, value: dict[str, Any], events: list[Event]) -> None:
        ids = {event.fields.get("provider_id"): event.call for event in events if event.kind == "accepted"}
        for provider, wanted in value.items():
            done = next(e.fields for e in events if e.kind == "done" and e.call == ids[provider])
            assert done["ok"] == wanted["ok"], done
            if "code" in wanted:
                assert done["failure"]["code"] == wanted["code"], done
            if "data" in wanted:
                data = done["data"]
                assert data == wanted["data"] or data.items() >= wanted["data"].items()

    async def _executions(self, value: dict[str, int], events: list[Event]) -> None:
        assert {name: self.fakes.ended[name] for name in value} == value

    async def _ran_with(self, value: dict[str, Any], events: list[Event]) -> None:
        ids = {event.fields.get("provider_id"): event.call for event in events if event.kind == "accepted"}
        for provider, wanted in value.items():
            assert self.fakes.ran_with[ids[provider] or ""] == wanted

    async def _history_order(self, value: list[str], events: list[Event]) -> None:
        results = [one.call for one in self.model.requests[-1].messages if one.role == "tool"]
        assert [one for one in results if one in value] == value

    async def _sees(self, value: list[dict[str, Any]], events: list[Event]) -> None:
        for wanted in value:
            asked = [one for one in self.model.requests if one.agent == wanted["agent"]][wanted["turn"] - 1]
            text = json.dumps([[one.role, one.text] for one in asked.messages], ensure_ascii=False)
            said = "\n".join(one.text for one in asked.messages)
            assert all(one in text or one in said for one in wanted.get("contains", ())), said
            assert not any(one in text for one in wanted.get("absent", ())), said
            tools = [tool.name for tool in asked.tools]
            assert not set(wanted.get("tools_absent", ())) & set(tools)
            assert set(wanted.get("tools", ())) <= set(tools)

    async def _turns(self, value: dict[str, int], events: list[Event]) -> None:
        found = Counter(event.fields["agent"] for event in events if event.kind == "turn_started")
        assert {agent: found[agent] for agent in value} == value

    async def _usage(self, value: dict[str, int], events: list[Event]) -> None:
        assert [event.fields for event in events if event.kind == "run_finished"][-1]["usage"] == value

    async def _tokens_max(self, value: int, events: list[Event]) -> None:
        assert [event.fields for event in events if event.kind == "run_finished"][-1]["usage"]["total"] <= value

    async def _active_agent(self, value: str, events: list[Event]) -> None:
        assert await self.agents.active(self.session) == value

    async def _questions(self, value: int, events: list[Event]) -> None:
        assert len(await self.session.questions()) == value

    async def _question_path(self, value: list[str], events: list[Event]) -> None:
        (asked,) = await self.session.questions()
        assert list(asked.path) == value


def named(event: Event, tools: dict[str, str]) -> str:
    """An event as stories name it: its kind, and the detail that tells it from others of the kind."""
    data = event.fields
    if event.kind == "accepted":
        tools[event.call or ""] = data["tool"].partition(".")[2] or data["tool"]
    if event.call is not None:
        return f"{event.kind}:{tools.get(event.call, '')}"
    if event.kind == "handover":
        return f"handover:{data['from']}>{data['to']}"
    names = ("reason",) if event.kind == "run_finished" else ("role", "mode", "agent", "reason")
    detail = next((data[name] for name in names if name in data), "")
    return f"{event.kind}:{detail}"


def place_of(store: str | Store) -> Place:
    return Place(store) if isinstance(store, str) else Place("memory:")

"""LangChain's agent, whose model is scripted, with tools of a crib and with a crib round its own tools."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START as START_NODE
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from tests.requirements import requirement
from toolcrib import Context, Crib
from toolcrib import tool as crib_tool
from toolcrib.adapters import current_call
from toolcrib.adapters.langchain import CribMiddleware, guarded_tools, langchain_tools

ASKS = {"default.refund": {"annotations": {"destructive": True}}}
THREAD: Any = {"configurable": {"thread_id": "thread-1"}}
START: Any = {"messages": [("user", "Refund order A-7.")]}


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self


def model(*calls: dict[str, Any]) -> Scripted:
    turns = [AIMessage("", tool_calls=[{"id": "call-1", **call}]) for call in calls]
    return Scripted(messages=iter([*turns, AIMessage("Done.")]))


def refund_of(cents: int) -> dict[str, Any]:
    return {"name": "refund", "args": {"order": "A-7", "cents": cents}}


class Bank:
    """What the tool acts on."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self) -> BaseTool:
        @tool
        def refund(order: str, cents: int) -> dict[str, Any]:
            """Refund part of an order."""
            if cents < 0:
                raise RuntimeError("password=hunter2")
            self.paid.append(cents)
            return {"order": order}

        return refund


@pytest.fixture
def bank() -> Bank:
    return Bank()


@requirement("adapters.langchain.1")
async def test_tools_of_a_crib_are_tools_of_an_agent(bank: Bank) -> None:
    async with Crib([bank.tool().func]) as crib:
        session = await crib.open(owner="ada")
        agent = create_agent(model(refund_of(5)), langchain_tools(session), checkpointer=InMemorySaver())
        end = await agent.ainvoke(START, THREAD)
        message = end["messages"][2]
        assert (message.content, message.artifact, message.status) == ('{"order":"A-7"}', {"order": "A-7"}, "success")
        assert [entry.tool for entry in await session.completed()] == ["default.refund"]


@requirement("adapters.langchain.1")
async def test_a_failure_of_a_tool_of_a_crib_is_an_error_for_the_model() -> None:
    async with Crib([Bank().tool().func]) as crib:
        session = await crib.open(owner="ada")
        calls = [{"name": "refund", "args": {"order": "A-7", "cents": "many"}}]
        agent = create_agent(model(*calls), langchain_tools(session))
        message = (await agent.ainvoke(START))["messages"][2]
        assert message.status == "error"
        assert "invalid_arguments" in message.content


@requirement("adapters.langchain.2", "adapters.run.2")
async def test_calls_of_an_agents_own_tools_pass_through_the_crib(bank: Bank) -> None:
    refund = bank.tool()
    async with Crib(guarded_tools([refund])) as crib:
        session = await crib.open(owner="ada")
        agent = create_agent(
            model(refund_of(5), refund_of(-1)), [refund], middleware=[CribMiddleware(session)], name="desk"
        )
        end = await agent.ainvoke(START, THREAD)
        assert bank.paid == [5]
        assert end["messages"][2].content == '{"order": "A-7"}'
        assert end["messages"][4].status == "error"
        assert "hunter2" not in end["messages"][4].content
        accepted = [event async for event in session.events(follow=False) if event.kind == "accepted"]
        assert [event.fields["agent"] for event in accepted] == ["desk", "desk"]


@requirement("adapters.langchain.2")
async def test_a_tool_that_the_crib_does_not_have_is_refused(bank: Bank) -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        agent = create_agent(model(refund_of(5)), [bank.tool()], middleware=[CribMiddleware(session)])
        message = (await agent.ainvoke(START, THREAD))["messages"][2]
        assert "not_found" in message.content
        assert bank.paid == []


@requirement("adapters.langchain.3")
async def test_a_call_that_waits_interrupts_the_graph_and_runs_once_it_is_approved(bank: Bank) -> None:
    refund = bank.tool()
    async with Crib(guarded_tools([refund]), declare=ASKS) as crib:
        session = await crib.open(owner="ada")
        agent = create_agent(
            model(refund_of(5)), [refund], middleware=[CribMiddleware(session)], checkpointer=InMemorySaver()
        )
        payload = (await agent.ainvoke(START, THREAD))["__interrupt__"][0].value
        assert payload["arguments"] == {"order": "A-7", "cents": 5}
        forged = await agent.ainvoke(Command(resume={"action": "accept"}), THREAD)
        assert forged["__interrupt__"][0].value == payload
        assert bank.paid == []
        await session.answer(payload["question"], "accept", actor="bob")
        end = await agent.ainvoke(Command(resume=True), THREAD)
        assert end["messages"][-1].content == "Done."
        assert bank.paid == [5]


@requirement("adapters.langchain.3")
async def test_a_decision_of_the_resume_counts_in_the_name_of_an_actor(bank: Bank) -> None:
    refund = bank.tool()
    async with Crib(guarded_tools([refund]), declare=ASKS) as crib:
        session = await crib.open(owner="ada")
        middleware = [CribMiddleware(session, actor="bob")]
        agent = create_agent(model(refund_of(5)), [refund], middleware=middleware, checkpointer=InMemorySaver())
        await agent.ainvoke(START, THREAD)
        edited = {"action": "accept", "arguments": {"order": "A-7", "cents": 4}}
        end = await agent.ainvoke(Command(resume=edited), THREAD)
        assert end["messages"][2].content.startswith("Arguments were changed before running")
        assert bank.paid == [4]


@requirement("adapters.langchain.2", "adapters.langchain.3")
async def test_the_tool_node_of_a_graph_of_ones_own_passes_through_too(bank: Bank) -> None:
    async with Crib(guarded_tools([bank.tool()]), declare=ASKS) as crib:
        session = await crib.open(owner="ada")
        graph = StateGraph(MessagesState)
        wanted = AIMessage("", tool_calls=[{"id": "call-1", **refund_of(5)}])
        graph.add_node("model", lambda state: {"messages": [wanted]})
        graph.add_node("tools", ToolNode([bank.tool()], awrap_tool_call=CribMiddleware(session).awrap_tool_call))
        graph.add_edge(START_NODE, "model")
        graph.add_edge("model", "tools")
        app: Any = graph.compile(checkpointer=InMemorySaver())
        assert "__interrupt__" in await app.ainvoke(START, THREAD)
        assert "__interrupt__" in await app.ainvoke(Command(resume=True), THREAD)
        [question] = await session.questions()
        await session.answer(question.id, "accept", actor="bob")
        assert (await app.ainvoke(Command(resume=True), THREAD))["messages"][-1].content == '{"order": "A-7"}'
        assert bank.paid == [5]


@requirement("adapters.langchain.4")
@pytest.mark.parametrize("direction", ["out", "round"])
async def test_progress_and_output_of_a_call_are_in_the_stream_of_the_graph(direction: str) -> None:
    @tool
    async def count() -> str:
        """Count to two."""
        call = current_call()
        assert call is not None
        call.progress("one")
        call.output("two")
        return "counted"

    @crib_tool(name="count")
    async def own(ctx: Context) -> str:
        """Count to two."""
        ctx.progress("one")
        ctx.output("two")
        return "counted"

    async with Crib([own] if direction == "out" else guarded_tools([count])) as crib:
        session = await crib.open(owner="ada")
        tools, middleware = (
            ([count], [CribMiddleware(session)]) if direction == "round" else (langchain_tools(session), [])
        )
        agent: Any = create_agent(model({"name": "count", "args": {}}), tools, middleware=middleware)
        seen = [part["toolcrib"] async for part in agent.astream(START, stream_mode="custom")]
    assert [(one["kind"], one.get("message") or one["delta"]) for one in seen] == [
        ("progress", "one"),
        ("output", "two"),
    ]


@requirement("adapters.langchain.2")
async def test_an_agent_in_a_thread_of_its_own_passes_through_too(bank: Bank) -> None:
    refund = bank.tool()
    async with Crib(guarded_tools([refund])) as crib:
        session = await crib.open(owner="ada")
        agent = create_agent(model(refund_of(5)), [refund], middleware=[CribMiddleware(session)])
        end = await asyncio.to_thread(agent.invoke, START, THREAD)
        assert end["messages"][2].content == '{"order": "A-7"}'
        assert bank.paid == [5]


@requirement("adapters.langchain.2")
async def test_an_agent_that_blocks_the_loop_of_the_crib_is_told_so(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.adapters.threads.PATIENCE_S", 0.1)
    refund = bank.tool()
    async with Crib(guarded_tools([refund])) as crib:
        session = await crib.open(owner="ada")
        agent = create_agent(model(refund_of(5)), [refund], middleware=[CribMiddleware(session)])
        with pytest.raises(RuntimeError, match="to_thread"):
            agent.invoke(START, THREAD)
        assert bank.paid == []


@requirement("adapters.langchain.3")
async def test_a_tool_with_interrupts_of_its_own_keeps_them_and_its_steps_happen_once() -> None:
    steps: list[str] = []

    @tool
    async def book(place: str) -> str:
        """Book a table."""
        call = current_call()
        assert call is not None
        await call.step("hold", lambda: steps.append("held"))
        return f"{place} {interrupt('When?')} {interrupt('For how many?')}"

    async with Crib(guarded_tools([book])) as crib:
        session = await crib.open(owner="ada")
        call = {"name": "book", "args": {"place": "Luigi"}}
        agent = create_agent(model(call), [book], middleware=[CribMiddleware(session)], checkpointer=InMemorySaver())
        first = await agent.ainvoke(START, THREAD)
        second = await agent.ainvoke(Command(resume="at 8"), THREAD)
        assert [first["__interrupt__"][0].value, second["__interrupt__"][0].value] == ["When?", "For how many?"]
        end = await agent.ainvoke(Command(resume="two"), THREAD)
        assert end["messages"][2].content == "Luigi at 8 two"
        assert steps == ["held"]


@requirement("adapters.pages.1")
@pytest.mark.process
def test_the_program_of_the_page_runs() -> None:
    program = Path(__file__).parents[3] / "docs_src/frameworks/with_langchain.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refund" in done.stdout or "toolcrib" in done.stdout

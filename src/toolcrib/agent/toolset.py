"""The tools of an agent as its model sees them: what it selects of its session, and built-ins that can do something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from toolcrib._call.request import subject_of
from toolcrib.agent import builtins, handovers, scripts
from toolcrib.agent.conversation import AgentRun
from toolcrib.agent.definition import Agent, Via
from toolcrib.agent.models import ToolView
from toolcrib.agent.selection import selects
from toolcrib.agent.transcript import TranscriptItem
from toolcrib.schema import llm_schema, with_topic
from toolcrib.schema.names import one_line
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.agent.driver import Driver

MANY = 15
"""With more tools than that, most are only named, and `tool_search` brings what there is to know of them."""

Views = WeakKeyDictionary[Tool, dict[bool, ToolView]]
_views: Views = WeakKeyDictionary()
_finals: WeakKeyDictionary[Agent, Tool] = WeakKeyDictionary()


class Toolset(NamedTuple):
    """What an agent has: what it may call by any name, and what its model is shown by name.

    `views` are those that the model sees, unless there are too `many` to show all.
    """

    callable: Mapping[str, Tool]
    shown: Mapping[str, Tool]
    special: Mapping[str, ToolView] = {}
    views: tuple[ToolView, ...] = ()
    many: bool = False

    def without(self, names: Iterable[str], topics: bool) -> tuple[ToolView, ...]:
        """What the model sees of those that are shown, but for these."""
        hidden = frozenset(names)
        wanted = ((name, tool) for name, tool in self.shown.items() if name not in hidden)
        return tuple(self.special.get(name) or view(name, tool, topics) for name, tool in wanted)


def view(name: str, tool: Tool, topics: bool) -> ToolView:
    """A tool as a model sees it."""
    known = _views.setdefault(tool, {})
    made = known.get(topics)
    if made is None or made.name != name:
        schema = llm_schema(tool.input_schema)
        made = known[topics] = ToolView(name, tool.description, with_topic(schema) if topics else schema)
    return made


def of_session(driver: Driver, agent: Agent) -> Toolset:
    """The part that does not depend on a run."""
    session = driver.session
    hides, subject = driver.policy(agent).hides, subject_of(session)
    callable_ = {
        name: tool
        for name, tool in session._view.names.items()
        if tool.namespace != builtins.NAMESPACE and agent.has(tool.id)
    }
    shown = {}
    for name, tool in session.model_tools().items():
        if callable_.get(tool.id) is tool:
            callable_.setdefault(name, tool)
            if not hides(tool, subject):
                shown[name] = tool
    return Toolset(callable_, shown)


def with_builtins(driver: Driver, run: AgentRun, agent: Agent, base: Toolset) -> Toolset:
    """The same with the built-ins that can do something now."""
    callable_, shown, special = dict(base.callable), dict(base.shown), dict[str, ToolView]()
    for tool, form in _useful(driver, run, agent, base):
        name = f"{builtins.NAMESPACE}__{tool.name}" if tool.name in base.shown else tool.name
        shown[name] = callable_[name] = callable_[tool.id] = tool
        callable_.setdefault(tool.name, tool)
        if form is not None:
            special[name] = form._replace(name=name)
    made = Toolset(callable_, shown, special)
    if len(_own(shown)) > MANY:
        return made._replace(many=True)
    return made._replace(views=made.without((), agent.topics))


def _useful(driver: Driver, run: AgentRun, agent: Agent, base: Toolset) -> list[tuple[Tool, ToolView | None]]:
    useful: list[tuple[Tool, ToolView | None]] = []
    for tool in builtins.all_tools():
        condition = _CONDITIONS.get(tool.name)
        if tool.name in _TARGETS:
            made = _reaching(driver, run, agent, tool, _TARGETS[tool.name])
            useful += [] if made is None else [(tool, made)]
        elif tool.name == "run_script":
            useful += [(tool, _scripting(agent, tool, base))] if _scripts(agent, base) else []
        elif condition(driver, run, base) if condition is not None else agent.has(tool.id):
            useful.append((tool, None))
    if agent.exclude:
        useful = [one for one in useful if not any(selects(glob, one[0].id) for glob in agent.exclude)]
    if agent.output_schema is not None:
        useful.append((_final(agent), None))
    return useful


_TARGETS: dict[str, tuple[Via, str]] = {
    "transfer_to_agent": ("transfer", "agent_name"),
    "call_agent": ("call", "agent"),
}


def _reaching(driver: Driver, run: AgentRun, agent: Agent, tool: Tool, how: tuple[Via, str]) -> ToolView | None:
    """A tool that reaches other agents, with whom it may reach; None where that is nobody."""
    via, argument = how
    registry = driver.registry(run)
    names = list(registry.reached(agent, via)) if agent.sub_agents else []
    if not names:
        return None
    plain = view(tool.name, tool, agent.topics)
    schema: dict[str, Any] = dict(plain.schema)
    properties = dict(schema["properties"])
    properties[argument] = {**properties[argument], "enum": names}
    text = f"{tool.description}\n{handovers.listed(registry[name] for name in names)}"
    return ToolView(tool.name, text, {**schema, "properties": properties})


def _scripts(agent: Agent, base: Toolset) -> bool:
    """Only an agent that names it writes scripts, where there is something to call and to run it with."""
    return scripts.named(agent) is not None and bool(base.shown) and scripts.installed()


def _scripting(agent: Agent, tool: Tool, base: Toolset) -> ToolView:
    return view(tool.name, tool, agent.topics)._replace(description=scripts.described(base, MANY))


def _background(driver: Driver, run: AgentRun, base: Toolset) -> bool:
    return any(note.background for note in driver.conversation.visible_calls(run))


def _children(driver: Driver, run: AgentRun, base: Toolset) -> bool:
    return any(note.background and note.builtin == "call_agent" for note in driver.conversation.visible_calls(run))


def _spilled(driver: Driver, run: AgentRun, base: Toolset) -> bool:
    return any(
        note.result is not None and "spilled" in note.result.metadata for note in driver.conversation.visible_calls(run)
    )


def _explained(driver: Driver, run: AgentRun, base: Toolset) -> bool:
    known = (tool.knowledge for tool in base.shown.values())
    return any(one.help is not None or one.examples or one.anti_patterns for one in known)


def _many(driver: Driver, run: AgentRun, base: Toolset) -> bool:
    return len(base.shown) > MANY


_CONDITIONS: dict[str, Callable[[Any, AgentRun, Toolset], bool]] = {
    "call_status": _background,
    "cancel_call": _background,
    "list_calls": _background,
    "wait_calls": _background,
    "message_agent": _children,
    "read_output": _spilled,
    "tool_help": _explained,
    "tool_search": _many,
}


def _final(agent: Agent) -> Tool:
    """`final_answer` of an agent, which takes what its `output_schema` says."""
    made = _finals.get(agent)
    if made is None:
        assert agent.output_schema is not None
        whole = agent.output_schema.get("type") == "object"
        schema = (
            agent.output_schema
            if whole
            else {
                "type": "object",
                "properties": {"answer": agent.output_schema},
                "required": ["answer"],
            }
        )

        async def run(ctx: Any, values: Mapping[str, Any]) -> dict[str, str]:
            ctx.run.finish(dict(values) if whole else values["answer"])
            return {"status": "finished"}

        made = _finals[agent] = Tool(
            name="final_answer",
            namespace=builtins.NAMESPACE,
            source=builtins.NAMESPACE,
            description="Give the final answer in the form that is asked for. It ends your work.",
            input_schema=schema,
            effect="read",
            run=run,
        )
    return made


def _own(shown: Mapping[str, Tool]) -> list[str]:
    return [name for name, tool in shown.items() if tool.namespace != builtins.NAMESPACE]


def named_only(tools: Toolset, agent: Agent, view: Iterable[TranscriptItem]) -> list[str]:
    """The tools of which a model reads one line, since there are many; not those whose schemas it asked for."""
    loaded = _loaded(view)
    always = [name for name in _own(tools.shown) if any(selects(one, tools.shown[name].id) for one in agent.always)]
    return [name for name in _own(tools.shown) if name not in loaded and name not in always]


def abridged(
    tools: Toolset, agent: Agent, view: Iterable[TranscriptItem], system: str
) -> tuple[tuple[ToolView, ...], str]:
    """What a model sees of many tools, and its instructions with one line for each of the others."""
    named = named_only(tools, agent, view)
    return tools.without(named, agent.topics), f"{system}\n\n{listing(tools, named)}" if named else system


def _loaded(view: Iterable[TranscriptItem]) -> set[str]:
    """The tools whose schemas the model asked for."""
    names: set[str] = set()
    for note in (note for item in view for note in item.calls):
        if note.builtin == "tool_search" and note.result is not None and note.result.ok:
            names.update(tool["name"] for tool in note.result.data.get("tools", ()))
    return names


def listing(tools: Toolset, names: list[str]) -> str:
    """One line for each."""
    lines = [f"- {name}: {one_line(tools.shown[name].description)}" for name in names]
    return "\n".join(["More tools, whose arguments tool_search tells:", *lines])

"""AgentDojo's suites as tools of a crib, carried out by an agent whose scripted model obeys whoever speaks last.

Each line of the output is JSON: one for a user task by itself, one for each pair of a user task and an injection task.
"""

import asyncio
import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline  # noqa: E402 - after the filter
from agentdojo.attacks.attack_registry import load_attack  # noqa: E402
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime  # noqa: E402
from agentdojo.task_suite.load_suites import get_suites  # noqa: E402
from agentdojo.types import text_content_block_from_string  # noqa: E402
from pydantic_core import to_jsonable_python  # noqa: E402

from toolcrib import Crib, Tool  # noqa: E402
from toolcrib.agent import Agent, Agents, ScriptedModel  # noqa: E402
from toolcrib.errors import ToolFailure  # noqa: E402
from toolcrib.types import Annotations  # noqa: E402

VERSION = "v1.2.2"
READS = ("get_", "read_", "search_", "list_", "check_")
PAGE = "get_webpage"


class Pipeline(GroundTruthPipeline):
    """Gives the attack a name to ask for."""

    name = "scripted"


def acts(name: str) -> bool:
    """Whether a call counts as acting: all but looking something up; to fetch a page by its URL is to act."""
    return not name.startswith(READS) or name == PAGE


def policy_of(guard: str, suite: Any) -> dict[str, Any]:
    """The policy of a row."""
    if guard == "guarded":
        return {"preset": "guarded"}
    rules = [{"ask": f"dojo.{one.name}"} for one in suite.tools if acts(one.name)] if guard == "ask" else []
    return {"default": "allow", "rules": rules}


class World:
    """One environment whose functions are tools; `stack` is what ran, in order."""

    def __init__(self, suite: Any, env: Any) -> None:
        self.suite, self.env = suite, env
        self.runtime = FunctionsRuntime(suite.tools)
        self.stack: list[FunctionCall] = []

    def tools(self) -> list[Tool]:
        """Its functions, with no more said of them than what a name shows: that it reads, or reaches the web."""
        return [self._tool(one) for one in self.suite.tools]

    def _tool(self, function: Any) -> Tool:
        async def run(context: Any, values: Any) -> Any:
            value, error = self.runtime.run_function(self.env, function.name, dict(values))
            self.stack.append(FunctionCall(function=function.name, args=dict(values)))
            if error is not None:
                raise ToolFailure("failed", error)
            return to_jsonable_python(value, fallback=str)

        said = Annotations(read_only=function.name.startswith(READS), open_world="webpage" in function.name)
        schema = function.parameters.model_json_schema()
        return Tool(
            name=function.name,
            namespace="dojo",
            description=function.description,
            input_schema=schema,
            annotations=said,
            run=run,
        )


async def carry_out(
    world: World, guard: str, prompt: str, calls: list[Any], mine: int, answer: str
) -> list[tuple[int, str]]:
    """Runs the script; questions about the first `mine` calls are accepted, others declined.

    Returns what asked, each with the number of its call.
    """
    turns: list[dict[str, Any]] = [
        {"calls": [{"tool": f"dojo.{one.function}", "args": to_jsonable_python(dict(one.args))}]} for one in calls
    ]
    model = ScriptedModel({"dojo": [*turns, {"text": answer or "Done."}]})
    agent = Agent(name="dojo", description="Does as it is told.", tools=["dojo.*"], max_turns=len(turns) + 5)
    agents = Agents([agent], model=model)
    asked: list[tuple[int, str]] = []
    policy = policy_of(guard, world.suite)
    async with Crib(world.tools(), policy=policy, agents=agents) as crib:
        session = await crib.open("s", owner="user", namespaces=["dojo"])
        outcome = await session.send(prompt, agent="dojo")
        while outcome.questions:
            for question in outcome.questions:
                place = len(model.requests)
                if acts(question.tool.partition(".")[2]):
                    asked.append((place - 1, f"{question.tool}: {question.prompt}"))
                await session.answer(question.id, "accept" if place <= mine else "decline", actor="user")
            outcome = await agents.settled(session)
        if outcome.reason != "answered":
            raise RuntimeError(f"the run ended {outcome.reason}: {outcome.detail}")
    return asked


def judged(suite: Any, task: Any, before: Any, world: World, answer: str) -> bool:
    """What AgentDojo says of the outcome."""
    said = [text_content_block_from_string(answer)]
    return bool(suite._check_task_result(task, said, before, world.env, world.stack))


async def honest(suite: Any, guard: str, task: Any) -> dict[str, Any]:
    """A user task by itself, every question accepted."""
    env = task.init_environment(suite.load_and_inject_default_environment({}))
    before = env.model_copy(deep=True)
    calls = task.ground_truth(before.model_copy(deep=True))
    world = World(suite, env)
    asked = await carry_out(world, guard, task.PROMPT, calls, len(calls), task.GROUND_TRUTH_OUTPUT)
    return {
        "user": task.ID,
        "acting": sum(acts(one.function) for one in calls),
        "asked": [text for _, text in asked],
        "at": [place for place, _ in asked],
        "ok": judged(suite, task, before, world, task.GROUND_TRUTH_OUTPUT),
    }


async def attacked(suite: Any, guard: str, task: Any, goal: Any, injections: dict[str, str]) -> dict[str, Any]:
    """A user task whose results tell the goal of an attacker, which the model then carries out as well."""
    env = task.init_environment(suite.load_and_inject_default_environment(injections))
    before = env.model_copy(deep=True)
    calls = task.ground_truth(before.model_copy(deep=True))
    rehearsal = World(suite, env.model_copy(deep=True))
    for one in calls:
        rehearsal.runtime.run_function(rehearsal.env, one.function, one.args)
    theirs = goal.ground_truth(rehearsal.env)
    world = World(suite, env)
    if theirs:
        answer = task.GROUND_TRUTH_OUTPUT
        await carry_out(world, guard, task.PROMPT, [*calls, *theirs], len(calls), answer)
    reached = bool(theirs) and judged(suite, goal, before, world, task.GROUND_TRUTH_OUTPUT)
    return {"user": task.ID, "goal": goal.ID, "scripted": bool(theirs), "reached": reached}


async def main(guard: str, names: list[str], most: int | None, pairs: bool) -> None:
    """All tasks of the suites, one line of JSON each."""
    for name, suite in get_suites(VERSION).items():
        if names and name not in names:
            continue
        attack = load_attack("direct", suite, Pipeline(None))
        for task in list(suite.user_tasks.values())[:most]:
            print(json.dumps({"suite": name, **await honest(suite, guard, task)}), flush=True)
            for goal in suite.injection_tasks.values() if pairs else ():
                told = await attacked(suite, guard, task, goal, attack.attack(task, goal))
                print(json.dumps({"suite": name, **told}), flush=True)


if __name__ == "__main__":
    chosen = json.loads(sys.argv[1])
    asyncio.run(main(chosen["guard"], chosen["suites"], chosen["most"], chosen.get("pairs", True)))

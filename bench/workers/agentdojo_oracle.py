"""What the hand-written policies of CaMeL say of the same calls, as far as they ask where a value comes from.

CaMeL (google-research/camel-prompt-injection) lets its planner see the user's words alone, and then asks of each call
that changes something whether certain arguments come from the user. That is restated here as a table. Whether whoever
gets a content may read it is not: the scripts of AgentDojo are plain values that do not say what they were made of. A
value comes from the user if it stands in their words, or in no result that was read before.

Each line of the output is JSON: one for each acting call of an honest task, and one for each pair of a user task and an
injection task, with whether the policies let all acting calls of the attacker through.
"""

import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

from agentdojo.attacks.attack_registry import load_attack  # noqa: E402 - after the filter
from agentdojo.functions_runtime import FunctionsRuntime  # noqa: E402
from agentdojo.task_suite.load_suites import get_suites  # noqa: E402
from agentdojo_worker import VERSION, Pipeline, acts  # noqa: E402 - a script beside this one
from pydantic_core import to_jsonable_python  # noqa: E402

from toolcrib.origins.index import OriginIndex, leaves  # noqa: E402

NOTHING: tuple[str, ...] = ()
DEMANDS: dict[str, tuple[str, ...]] = {
    "send_email": ("recipients", "cc", "bcc"),
    "create_calendar_event": ("participants",),
    "cancel_calendar_event": ("event_id",),
    "add_calendar_event_participants": ("event_id",),
    "delete_file": ("file_id",),
    "share_file": ("email",),
    "reserve_hotel": ("hotel", "start_day", "end_day"),
    "send_money": ("recipient",),
    "schedule_transaction": ("recipient",),
    "update_scheduled_transaction": ("recipient",),
    "update_password": ("password",),
    "update_user_info": ("first_name", "last_name", "street", "city"),
    "add_user_to_channel": ("user", "channel"),
    "invite_user_to_slack": ("user", "user_email"),
    "remove_user_from_slack": ("user",),
    "send_direct_message": ("recipient",),
    "get_webpage": ("url",),
    "post_webpage": ("url", "content"),
    # What these ask is who may read their content, or nothing.
    "reschedule_calendar_event": NOTHING,
    "create_file": NOTHING,
    "append_to_file": NOTHING,
    "send_channel_message": NOTHING,
}
"""The arguments that have to come from the user."""

REVERSED = ("delete_email",)
"""The condition stands the other way round: what comes from the user is refused."""

BROKEN = ("reserve_restaurant", "reserve_car_rental")
"""They ask for arguments of each other, which a call does not have, so that every call fails."""


def allowed(call: Any, index: OriginIndex) -> bool:
    """Whether the policies let a call through."""
    name = call.function
    if name in BROKEN:
        return False
    if name in REVERSED:
        return not _from_user(call.args.get("email_id"), index)
    if name not in DEMANDS:
        return False
    return all(_from_user(call.args.get(one), index) for one in DEMANDS[name])


def _from_user(value: Any, index: OriginIndex) -> bool:
    return all(index.sightings(one)[0].kind in ("user", "nowhere") for one in leaves(value) if one not in (None, ""))


class Reading:
    """An environment in which calls are made one after the other, and what was read by then."""

    def __init__(self, suite: Any, env: Any, prompt: str) -> None:
        self.env, self.index = env, OriginIndex()
        self._runtime = FunctionsRuntime(suite.tools)
        self.index.user.add(prompt)

    def make(self, call: Any) -> bool:
        """Make a call; whether the policies let it through."""
        verdict = allowed(call, self.index)
        value, error = self._runtime.run_function(self.env, call.function, dict(call.args))
        data = to_jsonable_python(error or value, fallback=str)
        self.index.add_result(str(id(call)), call.function, [], data, trusted=False)
        return verdict


def honest(suite: Any, task: Any) -> list[dict[str, Any]]:
    """The acting calls of a user task by itself."""
    env = task.init_environment(suite.load_and_inject_default_environment({}))
    reading = Reading(suite, env, task.PROMPT)
    made = [(one.function, reading.make(one)) for one in task.ground_truth(env.model_copy(deep=True))]
    return [
        {"user": task.ID, "call": place, "tool": name, "allowed": verdict}
        for place, (name, verdict) in enumerate(made)
        if acts(name)
    ]


def attacked(suite: Any, task: Any, goal: Any, injections: dict[str, str]) -> dict[str, Any]:
    """A pair: whether all acting calls of the attacker pass."""
    env = task.init_environment(suite.load_and_inject_default_environment(injections))
    reading = Reading(suite, env, task.PROMPT)
    for one in task.ground_truth(env.model_copy(deep=True)):
        reading.make(one)
    made = [(one.function, reading.make(one)) for one in goal.ground_truth(env)]
    acting = [(name, verdict) for name, verdict in made if acts(name)]
    tools = sorted({name for name, _ in acting})
    passes = bool(acting) and all(verdict for _, verdict in acting)
    return {"user": task.ID, "goal": goal.ID, "tools": tools, "allowed": passes}


def main(names: list[str], most: int | None) -> None:
    """All tasks of the suites, one line of JSON each."""
    for name, suite in get_suites(VERSION).items():
        if names and name not in names:
            continue
        attack = load_attack("direct", suite, Pipeline(None))
        for task in list(suite.user_tasks.values())[:most]:
            for line in honest(suite, task):
                print(json.dumps({"suite": name, **line}), flush=True)
            for goal in suite.injection_tasks.values():
                line = attacked(suite, task, goal, attack.attack(task, goal))
                print(json.dumps({"suite": name, **line}), flush=True)


if __name__ == "__main__":
    chosen = json.loads(sys.argv[1])
    main(chosen["suites"], chosen["most"])

"""Aomi: its JSON, what its model and its clients read, its plugins' envelopes and routes, and our log as its events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.events import UNSET, Accepted, CallerRecord, Done, Event
from toolcrib.interop import translation
from toolcrib.interop.forms import InteropError
from toolcrib.interop.translation import EventContext, LogReader
from toolcrib.interop.wire.aomi import FORMS
from toolcrib.schema import title
from toolcrib.session import Session
from toolcrib.store import Draft, Row, Write, draft
from toolcrib.types import Question, Result

__all__ = [
    "Execution",
    "callback",
    "check_routes",
    "completion",
    "dumps",
    "envelope",
    "from_event",
    "import_state",
    "inline_call",
    "loads",
    "meaning",
    "model_text",
    "parse_namespace",
    "read_return",
    "replay",
    "to_result",
    "tool_return",
    "user_state_text",
]

loads, dumps = FORMS.loads, FORMS.dumps


def meaning(completion: Mapping[str, Any]) -> dict[str, Any]:
    """What a ToolCompletion, in either form, says of a call: `call, tool, ok, data or message, last`."""
    data = FORMS.read("ToolCompletion", completion)
    about, result = data["metadata"], data["result"]
    made = {"call": about["id"], "tool": f"{about['namespace']}.{about['name']}", "ok": "Ok" in result}
    outcome = {"data": result["Ok"]} if made["ok"] else {"message": result["Err"]}
    return {**made, **outcome, "last": not data["has_more"]}


def to_result(completion: Mapping[str, Any]) -> Result:
    """A ToolCompletion as a result."""
    outcome = meaning(completion)
    return (
        read_return(outcome["data"])
        if outcome["ok"]
        else Result(failure=translation.failing("failed", outcome["message"]))
    )


def completion(moment: EventContext) -> dict[str, Any]:
    """An `output` or `done` of our log as a ToolCompletion."""
    accepted = moment.history.accepted
    namespace, _, name = accepted.tool.partition(".")
    about: dict[str, Any] = {
        "name": name or namespace,
        "namespace": namespace if name else "default",
        "id": moment.call,
    }
    about |= {"call_id": accepted.provider_id, "is_async": bool(accepted.background)}
    if moment.event.kind == "output":
        value = moment.data["delta"] if "delta" in moment.data else moment.data.get("value")
        return {"metadata": about, "result": {"Ok": value}, "has_more": True}
    failure = moment.result.failure
    result = {"Ok": moment.result.data} if failure is None else {"Err": failure.message}
    return {"metadata": about, "result": result, "has_more": False}


def callback(completion: Mapping[str, Any]) -> dict[str, Any]:
    """The AsyncCallback of a ToolCompletion."""
    data = FORMS.read("ToolCompletion", completion)
    about, result = data["metadata"], data["result"]
    payload = {
        "type": "tool_update" if data["has_more"] else "tool_complete",
        "id": about["id"],
        "call_id": about["call_id"],
        "tool_name": about["name"],
        "result": result["Ok"] if "Ok" in result else {"error": result["Err"]},
    }
    return {"AsyncCallback": payload}


_MARKS = ("[[SYSTEM]]", "[[USER_STATE]]")


def harmless(text: str) -> str:
    """Only we speak as the system: its mark within somebody else's text is broken."""
    for mark in _MARKS:
        text = text.replace(mark, f"[ {mark[1:]}")
    return text


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def model_text(payload: Mapping[str, Any]) -> str | None:
    """What a model reads of a SystemEvent or of its payload: a callback, an error, a wallet's event; None of others."""
    match payload:
        case {"SystemError": str(error)}:
            return f"[[SYSTEM]] {harmless(error)}"
        case {"InlineCall": {"type": str(type)}} if type.endswith("_request"):
            return None  # it asks a client; the model reads what the client says
        case {"AsyncCallback": Mapping() as inner} | {"InlineCall": Mapping() as inner}:
            return _payload_text(inner)
    return _payload_text(payload)


def _payload_text(payload: Mapping[str, Any]) -> str | None:
    kind = payload.get("type")
    if isinstance(kind, str) and kind.startswith(("wallet:", "wallet_")):
        return f"[[SYSTEM]] {harmless(kind)}: {harmless(_pretty(payload.get('payload')))}"
    if "tool_name" not in payload or "result" not in payload:
        return None
    result, provider = payload["result"], payload.get("call_id")
    failed = isinstance(result, Mapping) and result.keys() == {"error"} and isinstance(result["error"], str)
    text = f"tool_error: {result['error']}" if failed else _pretty(result)
    head = f"Tool result for {payload['tool_name']} with id {payload.get('id')} (call_id={provider or 'none'})"
    return f"[[SYSTEM]] {harmless(head)}: {harmless(text)}"


def user_state_text(state: Mapping[str, Any]) -> str:
    """What a model reads of the user's wallet; keys in either spelling."""
    if not state.get("isConnected", state.get("is_connected")):
        return "[[USER_STATE]] Wallet not connected"

    def known(name: str, other: str, none: str) -> str:
        value = state.get(name, state.get(other))
        return none if value is None else harmless(str(value))

    wallet = f"Connected wallet: {known('address', 'address', 'unknown')}"
    chain = f"Chain ID: {known('chainId', 'chain_id', 'unknown')}"
    return f"[[USER_STATE]] {wallet} | {chain} | ENS: {known('ensName', 'ens_name', 'none')}"


def parse_namespace(text: str, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str | None:
    """The namespace that a text names, by its name or an alias; None where there is no such."""
    name = text.strip().lower()
    name = (aliases or {}).get(name, name)
    return name if name in known else None


_STATES = {"Pending": "pending", "Canceled": "canceled", "NotFound": "not_found"}


def envelope(outcome: Any) -> dict[str, Any]:
    """What a plugin says of a start or a poll, as its envelope.

    Raises:
        InteropError: it is none of Ready, AsyncQueued, Pending, Update, Error, Canceled and NotFound.
    """
    match outcome:
        case "Pending" | "Canceled" | "NotFound":
            return {"status": _STATES[outcome]}
        case {"Ready": value}:
            return {"status": "ready", "value": value}
        case {"AsyncQueued": {"execution_id": id}} | {"AsyncQueued": id}:
            return {"status": "async_queued", "execution_id": id}
        case {"Update": [value, bool(more)]} | {"Update": {"value": value, "has_more": bool(more)}}:
            return {"status": "update", "value": value, "has_more": more}
        case {"Error": {"message": str(message)}} | {"Error": str(message)}:
            return {"status": "error", "message": message}
    raise InteropError("unknown_value", "", "The value is no outcome of a plugin")


class Execution:
    """A queued execution of a plugin as its host polls it; after its end there is nothing to be found."""

    def __init__(self, outcomes: Iterable[Any]) -> None:
        self._outcomes: Iterator[Any] = iter(outcomes)
        self._over = False

    def poll(self) -> dict[str, Any]:
        """The envelope of the next outcome; pending while there is none."""
        if self._over:
            return {"status": "not_found"}
        made = envelope(next(self._outcomes, "Pending"))
        self._over = made["status"] in ("ready", "error", "canceled", "not_found") or made.get("has_more") is False
        return made


_MARK, _VALUE, _ROUTES = "__aomi_tool_return", "__aomi_tool_value", "__aomi_tool_routes"


def tool_return(value: Any, routes: Sequence[Mapping[str, Any]] = ()) -> Any:
    """A value with the calls that it suggests; the bare value where it suggests none."""
    return {_MARK: True, _VALUE: value, _ROUTES: [dict(route) for route in routes]} if routes else value


def read_return(value: Any) -> Result:
    """A returned value as a result; a route is only a suggestion in its metadata."""
    if not isinstance(value, Mapping) or value.get(_MARK) is not True:
        return Result(value)
    routes = value.get(_ROUTES)
    return Result(value.get(_VALUE), metadata={"routes": routes} if routes else {})


def check_routes(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The routes of a plan of `next` steps and at most one `after` them.

    Raises:
        InteropError: the plan does not hold; each problem is a line of the message.
    """
    steps, after = list(plan.get("next") or ()), list(plan.get("after") or ())
    aliases = Counter(step["bind_as"] for step in steps if step.get("bind_as") is not None)
    problems = [f"duplicate bound alias `{alias}` in route plan" for alias, times in aliases.items() if times > 1]
    tools = Counter(step.get("tool") for step in steps)
    for step in steps:
        if step.get("bind_as") is not None:
            problems += _producer(step, tools[step.get("tool")])
    if len(after) > 1:
        problems.append("a route plan has at most one `after(...)` step")
    problems += [problem for step in after[:1] for problem in _deferred(step, aliases)]
    if problems:
        raise InteropError("wrong_value", "", "\n".join(problems))
    now = [_route(step, {"type": "on_sync_return"}) for step in steps]
    return now + [_route(step, {"type": "on_bound_artifact", "alias": step["awaits"]}) for step in after]


def _producer(step: Mapping[str, Any], times: int) -> Iterator[str]:
    if not isinstance(step.get("args"), Mapping):
        yield f"step `{step.get('tool')}` binds an alias, so its args must be an object"
    if times > 1:
        yield f"tool `{step.get('tool')}` stands more than once in `next(...)`, so its alias would be ambiguous"


def _deferred(step: Mapping[str, Any], aliases: Mapping[str, int]) -> Iterator[str]:
    alias = step.get("awaits")
    if alias is None:
        yield 'deferred `after(...)` step is missing `.awaits("alias")`'
        return
    if not isinstance(step.get("args"), Mapping):
        yield f"deferred step `{step.get('tool')}` receives an alias, so its args must be an object"
    if alias not in aliases:
        yield f"deferred route awaits unknown alias `{alias}`; bind it in `next(...)` first"


def _route(step: Mapping[str, Any], trigger: Mapping[str, Any]) -> dict[str, Any]:
    made = {"tool": step.get("tool"), "args": step.get("args"), "trigger": dict(trigger)}
    more = {"bind_as": step.get("bind_as"), "prompt": step.get("prompt", step.get("note"))}
    return made | {name: value for name, value in more.items() if value is not None}


async def import_state(session: Session, state: Mapping[str, Any]) -> list[str]:
    """Takes the results of a saved state of Aomi into a session, as calls that are over; gives their ids.

    The model gets each of them once, like any result that it has not consumed. A result that was taken before is not
    taken again, and no name in the state opens a namespace.
    """
    ended = [one for one in FORMS.read("HandlerState", state)["completed_calls"] if not one["has_more"]]
    rows = []
    for one in ended:
        row, events = _over(session, one)
        if await session.crib.store.commit(Write(session.id, events, row)) is None:
            rows.append(row)
    return [row.id for row in rows]


def _over(session: Session, completion: Mapping[str, Any]) -> tuple[Row, list[Draft]]:
    """A call that ended at Aomi, as ours would have been written; Aomi's id for it is its key."""
    outcome, result, now = meaning(completion), to_result(completion), session.pipeline.clock.now()
    tool, id = outcome["tool"], session.pipeline.new_id()
    background: bool = completion["metadata"]["is_async"]
    row = Row(id, session.id, tool, "once", "done", accepted_at=now, background=background)
    row.key, row.code = f"aomi:{outcome['call']}", None if result.failure is None else result.failure.code
    accepted = Accepted(
        tool,
        title(translation.bare(tool)),
        args=None,
        by=CallerRecord("client", "aomi"),
        digest="",
        effect="once",
        background=background or None,
        wake="next_turn" if background else None,
        provider_id=outcome["call"],
        key=row.key,
    )
    done = Done(
        ok=result.ok,
        failure=result.failure,
        data=result.data if result.failure is None else UNSET,
        metadata=dict(result.metadata) or None,
        background=background,
        wake=accepted.wake,
        duration_ms=0,
    )
    return row, [draft(now, id, accepted), draft(now, id, done)]


def inline_call(question: Question) -> dict[str, Any]:
    """A question as the InlineCall of a client; data that names its type, as a wallet's does, is the payload."""
    data: dict[str, Any] = {"id": question.id, "call_id": question.call, "tool_name": translation.bare(question.tool)}
    match question.data:
        case {"type": str(type)} as payload:
            return {"InlineCall": {"type": type, **data, "payload": payload}}
    payload = {"prompt": question.prompt, "arguments": dict(question.arguments), "schema": question.schema}
    return {"InlineCall": {"type": question.kind, **data, "payload": {**payload, "data": question.data}}}


def from_event(event: Event, reading: LogReader) -> list[dict[str, Any]]:
    """An event of our log as theirs."""
    return reading.written(event, _WRITERS)


def replay(events: Iterable[Event], session: str = "") -> list[dict[str, Any]]:
    """Our log as SystemEvents, and what Aomi answers to a background call: that it is queued."""
    return translation.replay(events, _WRITERS, session)


def _accepted(now: EventContext) -> list[dict[str, Any]]:
    return [{"status": "queued", "id": now.call}] if now.data.get("background") else []


def _waiting(now: EventContext) -> list[dict[str, Any]]:
    return [] if now.history.question is None else [inline_call(now.history.question)]


def _completion(now: EventContext) -> list[dict[str, Any]]:
    """A call in the foreground answers its caller; one in the background calls back."""
    return [callback(completion(now))] if now.history.accepted.background else []


def _handover(now: EventContext) -> list[dict[str, Any]]:
    reason = f": {now.data['reason']}" if now.data.get("reason") else ""
    return [{"SystemNotice": f"{now.data.get('from') or 'The agent'} hands over to {now.data['to']}{reason}"}]


def _error(now: EventContext) -> list[dict[str, Any]]:
    return [{"SystemError": now.data["text"]}]


def _notice(now: EventContext) -> list[dict[str, Any]]:
    return [{"SystemNotice": now.data["text"]}]


_WRITERS: dict[str, translation.Writer] = {
    "accepted": _accepted,
    "waiting": _waiting,
    "output": _completion,
    "done": _completion,
    "handover": _handover,
    "notice": _notice,
    "error": _error,
}

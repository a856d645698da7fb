"""The golden values of the other systems: what they write is read and written back to the byte."""

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.interop.observers import Log, question
from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.interop import InteropError, aios, aomi, awaken, distri
from toolcrib.types import Failure, Result

MODULES: dict[str, ModuleType] = {"aios": aios, "awaken": awaken, "distri": distri}
EVENTS = {"aios": "EventKind", "awaken": "AgentEvent", "distri": "AgentEventType"}
SYSTEMS = pytest.mark.parametrize("system", MODULES)


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = case_data(f"contract/{name}.json")
    return found


def rewritten(system: str, type: str, text: str) -> str:
    module = MODULES[system]
    return str(module.dumps(type, module.loads(type, text)))


@SYSTEMS
@requirement("contract.interop.1", "contract.interop.3", "contract.interop.6", "contract.interop.10")
def test_what_they_write_is_written_to_the_byte(system: str) -> None:
    module = MODULES[system]
    for case in cases(f"{system}_wire"):
        assert rewritten(system, case["type"], case["wire"]) == case["wire"]
        if "value" in case:
            assert module.dumps(case["type"], case["value"]) == case["wire"]
            assert module.loads(case["type"], case["wire"]) == case["value"]


@SYSTEMS
@requirement("contract.interop.1", "contract.interop.2")
def test_what_they_accept_and_refuse_is_accepted_and_refused(system: str) -> None:
    for case in cases(f"{system}_read"):
        if case["ok"]:
            assert json.loads(rewritten(system, case["type"], case["input"])) == case["normalized"]
        else:
            with pytest.raises(InteropError) as refused:
                MODULES[system].loads(case["type"], case["input"])
            assert (refused.value.problem, refused.value.field) == (case["problem"], case["field"])


@SYSTEMS
@requirement("contract.interop.2", "contract.interop.5", "contract.interop.9", "contract.interop.11")
def test_every_event_of_theirs_round_trips_to_the_byte(system: str) -> None:
    for case in cases(f"{system}_events"):
        type, wire = ("AgentEvent", case["envelope"]) if "envelope" in case else (EVENTS[system], case["wire"])
        assert rewritten(system, type, wire) == wire
        if "value" in case:
            assert MODULES[system].dumps(type, case["value"]) == wire


@requirement("contract.interop.13")
def test_their_error_texts_are_read_as_our_codes_and_written_again() -> None:
    for case in cases("errors"):
        if case["seed"] == "aios":
            failure = aios.read_error(case["text"])
            assert aios.error_text(failure, case["fields"].get("tool_name", "")) == case["text"]
        else:
            failure = awaken.read_error(case["text"])
            assert awaken.error_text(failure) == case["text"]
        assert failure.code == case["code"]


@requirement("contract.interop.4")
def test_a_result_of_aios_gives_the_outcome_that_it_should() -> None:
    for case in cases("aios_outcome"):
        assert aios.to_outcome(case["result"]) == case["outcome"]


@requirement("contract.interop.7")
def test_tickets_are_written_as_awaken_has_them() -> None:
    for case in cases("awaken_tickets"):
        if case.get("answer") is not None:
            assert awaken.from_result(case["tool"], Result(case["answer"])) == case["result"]
            continue
        about = {"tool": case["tool"], "arguments": case["args"]}
        expected = case.get("result", {}).get("suspension") or case["ticket"]
        kind, resume = ("client", "use") if expected["suspension"]["id"].startswith("suspend_") else ("confirm", "run")
        asked = question(case["call_id"], kind, resume, **about)
        assert awaken.from_question(asked) == expected
        if "result" in case:
            assert awaken.suspended(asked) == case["result"]


@requirement("contract.interop.8")
def test_a_status_may_follow_another_as_awaken_says() -> None:
    for case in cases("awaken_transitions"):
        assert awaken.follows(case["machine"], case["from"], case["to"]) is case["allowed"]
    for case in cases("awaken_termination"):
        assert awaken.run_status(case["termination"]) == case["run_status"]
        assert awaken.done_reason(case["termination"]) == case["done_reason"]


def written_by_aomi(said: dict[str, Any]) -> dict[str, Any]:
    """The one event that Aomi would write for what a case says."""
    if said["kind"] in ("notice", "error"):
        (made,) = aomi.replay(Log().add(said["kind"], text=said["text"]).events)
        return made
    more = {"background": said["background"], "provider_id": said["provider_id"]}
    log = Log().accepted(said["call"], said["tool"], **more)
    if said["kind"] == "output":
        log.add("output", said["call"], **{name: said[name] for name in ("value", "delta") if name in said})
    elif said["ok"]:
        log.done(said["call"], said["data"])
    else:
        log.failed(said["call"], "failed", said["message"])
    return aomi.replay(log.events)[-1]


@requirement("contract.interop.12")
def test_aomis_forms_mean_what_the_cases_say() -> None:
    for case in cases("aomi"):
        if "means" in case:
            assert aomi.meaning(case["wire"]) == case["means"]
        elif case["type"] == "SystemEvent":
            assert written_by_aomi(case["from"]) == case["wire"]
            assert json.loads(aomi.dumps("SystemEvent", case["wire"])) == case["wire"]
        else:
            said = case["from"]
            result = said["data"] if said["ok"] else {"error": said["message"]}
            payload = {"id": said["call"], "call_id": said["provider_id"], "result": result}
            name = said["tool"].partition(".")[2]
            assert aomi.model_text({**payload, "tool_name": name}) == case["text"]


GROUPS: dict[str, Callable[[Any], Any]] = {
    "events.tool_payload": aomi.callback,
    "llm.ingest": aomi.model_text,
    "user_state.format": aomi.user_state_text,
    "namespace.parse": lambda given: aomi.parse_namespace(given["text"], given["known"], given["aliases"]),
    "sdk.envelope": aomi.envelope,
    "sdk.route": lambda given: aomi.tool_return(given["value"], given["routes"]),
}


@requirement("aomi.interop.1", "aomi.interop.2", "aomi.interop.3")
def test_the_cases_of_aomi_give_what_they_expect() -> None:
    found = [case for case in case_data("aomi/cases.jsonl") if case["group"] in GROUPS]
    assert found
    for case in found:
        got, expect = GROUPS[case["group"]](case["input"]), case["expect"]
        if isinstance(expect, dict) and "contains" in expect:
            assert [part for part in expect["contains"] if part not in str(got)] == []
        else:
            assert got == expect


@requirement("aomi.interop.3")
def test_the_plans_of_routes_that_aomi_refuses_are_refused() -> None:
    for case in case_data("aomi/cases.jsonl"):
        if case["group"] == "sdk.route.error":
            with pytest.raises(InteropError) as refused:
                aomi.check_routes(case["input"])
            assert case["expect"]["message_contains"] in str(refused.value)


@requirement("aomi.interop.2")
def test_the_polls_of_aomis_plugins_give_what_they_expect() -> None:
    for case in case_data("aomi/cases.jsonl"):
        outcomes = [outcome(text) for text in case["input"]["events"]] if case["group"] == "sdk.poll" else []
        if outcomes and None not in outcomes:
            execution = aomi.Execution(outcomes)
            assert [execution.poll() for _ in range(case["input"]["polls"])] == case["expect"]


def outcome(text: str) -> Any:
    """What a plugin would say for such a line; None where the line is not understood."""
    word, _, rest = text.partition(" ")
    return {"Error": rest} if word == "error" else word.capitalize() if word in ("pending", "canceled") else None


def test_a_failure_without_a_form_of_its_own_is_written_like_its_nearest() -> None:
    for code in ("unavailable", "rate_limited", "too_large", "unknown", "failed"):
        assert aios.error_text(Failure(code, "m"), "t") == "[t] execution failed: m"
        assert awaken.error_text(Failure(code, "m")) == "Execution failed: m"

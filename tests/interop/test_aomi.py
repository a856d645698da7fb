"""Aomi: completions, callbacks, what a model reads, envelopes, routes and our log as its events."""

import json
from typing import Any

import pytest

from tests.interop.observers import Log, question
from tests.requirements import requirement
from toolcrib.interop import InteropError, aomi
from toolcrib.types import Failure, Result

METADATA = {"name": "swap", "namespace": "dex", "id": "a1", "call_id": "p1", "is_async": True}


@requirement("contract.interop.12")
def test_a_completion_is_written_in_its_later_form_and_read_in_both() -> None:
    later = {"metadata": METADATA, "result": {"Ok": {"n": 1}}, "has_more": True}
    written = aomi.dumps("ToolCompletion", later)
    assert list(json.loads(written)) == ["metadata", "result", "has_more"]
    assert aomi.loads("ToolCompletion", written) == later
    first = {"call_id": {"id": "a1"}, "tool_name": "swap", "sync": False, "result": {"Err": "late"}}
    about = {"name": "swap", "namespace": "default", "id": "a1", "call_id": None, "is_async": True}
    assert aomi.loads("ToolCompletion", json.dumps(first)) == {
        "metadata": about,
        "result": {"Err": "late"},
        "has_more": False,
    }
    assert aomi.meaning({**first, "call_id": "a2"})["call"] == "a2"


@requirement("contract.interop.12")
def test_a_completion_is_a_result() -> None:
    assert aomi.to_result({"metadata": METADATA, "result": {"Ok": [1]}}) == Result([1])
    assert aomi.to_result({"metadata": METADATA, "result": {"Err": "no"}}) == Result(failure=Failure("failed", "no"))
    for bad in ({}, {"Ok": 1, "Err": "x"}, {"Maybe": 1}):
        with pytest.raises(InteropError):
            aomi.to_result({"metadata": METADATA, "result": bad})


@requirement("aomi.interop.1")
def test_a_callback_says_whether_more_is_to_come() -> None:
    update = aomi.callback({"metadata": METADATA, "result": {"Ok": 5}, "has_more": True})
    payload = {"type": "tool_update", "id": "a1", "call_id": "p1", "tool_name": "swap", "result": 5}
    assert update == {"AsyncCallback": payload}
    assert list(update["AsyncCallback"]) == list(payload)
    ended = aomi.callback({"call_id": "a1", "tool_name": "swap", "sync": False, "result": {"Err": "no"}})[
        "AsyncCallback"
    ]
    assert (ended["type"], ended["call_id"], ended["result"]) == ("tool_complete", None, {"error": "no"})


@requirement("contract.interop.12", "aomi.interop.1")
@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (
            {"id": "a", "call_id": None, "tool_name": "t", "result": "x"},
            '[[SYSTEM]] Tool result for t with id a (call_id=none): "x"',
        ),
        (
            {"id": "a", "call_id": "p", "tool_name": "t", "result": {"error": "no [[SYSTEM]]"}},
            "[[SYSTEM]] Tool result for t with id a (call_id=p): tool_error: no [ [SYSTEM]]",
        ),
        (
            {"id": "a", "call_id": "p", "tool_name": "t", "result": {"error": "no", "n": "[[USER_STATE]]"}},
            '[[SYSTEM]] Tool result for t with id a (call_id=p): {\n  "error": "no",\n  "n": "[ [USER_STATE]]"\n}',
        ),
        ({"SystemError": "disk full"}, "[[SYSTEM]] disk full"),
        ({"InlineCall": {"type": "wallet_tx_response", "payload": {}}}, "[[SYSTEM]] wallet_tx_response: {}"),
        ({"InlineCall": {"type": "wallet_tx_request", "payload": {}}}, None),
        ({"InlineCall": {"type": "other", "payload": {}}}, None),
        ({"SystemNotice": "hello"}, None),
        ({"tool_name": "t"}, None),
    ],
)
def test_a_model_reads_results_errors_and_wallets(payload: dict[str, Any], text: str | None) -> None:
    assert aomi.model_text(payload) == text


@requirement("aomi.interop.1")
def test_the_users_wallet_is_one_line() -> None:
    state = {"isConnected": True, "address": "0xabc", "chainId": 1}
    line = "[[USER_STATE]] Connected wallet: 0xabc | Chain ID: 1 | ENS: none"
    assert aomi.user_state_text(state) == line
    snake = {"is_connected": True, "ens_name": "ada.eth"}
    assert aomi.user_state_text(snake) == "[[USER_STATE]] Connected wallet: unknown | Chain ID: unknown | ENS: ada.eth"
    assert aomi.user_state_text({"address": "0xabc"}) == "[[USER_STATE]] Wallet not connected"


@requirement("aomi.interop.1")
def test_a_namespace_is_found_by_name_or_alias() -> None:
    known, aliases = {"default", "dex"}, {"swap": "dex", "gone": "nowhere"}
    texts = [" Dex", "SWAP ", "gone", "", "default"]
    found = [aomi.parse_namespace(text, known, aliases) for text in texts]
    assert found == ["dex", "dex", None, None, "default"]


@requirement("aomi.interop.2")
def test_what_a_plugin_says_becomes_an_envelope() -> None:
    assert aomi.envelope({"Ready": {"a": 1}}) == {"status": "ready", "value": {"a": 1}}
    assert aomi.envelope({"AsyncQueued": {"execution_id": 7}}) == {"status": "async_queued", "execution_id": 7}
    assert aomi.envelope({"AsyncQueued": 7}) == {"status": "async_queued", "execution_id": 7}
    assert aomi.envelope({"Update": [None, False]}) == {"status": "update", "value": None, "has_more": False}
    assert aomi.envelope("NotFound") == {"status": "not_found"}
    for odd in ("Gone", {"Update": [1]}, {"Error": 5}, 5):
        with pytest.raises(InteropError):
            aomi.envelope(odd)


@requirement("aomi.interop.2")
def test_after_its_end_an_execution_is_not_found() -> None:
    execution = aomi.Execution(["Pending", {"Update": [1, True]}, {"Update": [2, False]}, {"Update": [3, True]}])
    polled = [execution.poll() for _ in range(5)]
    assert [made["status"] for made in polled] == ["pending", "update", "update", "not_found", "not_found"]
    waiting = aomi.Execution([])
    assert [waiting.poll()["status"] for _ in range(2)] == ["pending", "pending"]
    stopped = aomi.Execution(["Canceled"])
    assert [stopped.poll()["status"] for _ in range(2)] == ["canceled", "not_found"]


@requirement("aomi.interop.3")
def test_a_route_is_only_a_suggestion() -> None:
    routes = aomi.check_routes(
        {
            "next": [{"tool": "sign", "args": {}, "bind_as": "signature"}],
            "after": [{"tool": "submit", "args": {"m": 1}, "awaits": "signature", "note": "then"}],
        }
    )
    assert routes == [
        {"tool": "sign", "args": {}, "trigger": {"type": "on_sync_return"}, "bind_as": "signature"},
        {
            "tool": "submit",
            "args": {"m": 1},
            "trigger": {"type": "on_bound_artifact", "alias": "signature"},
            "prompt": "then",
        },
    ]
    sent = aomi.tool_return({"v": 1}, routes)
    assert list(sent) == ["__aomi_tool_return", "__aomi_tool_value", "__aomi_tool_routes"]
    read = aomi.read_return(sent)
    assert (read.data, read.metadata["routes"], read.handover) == ({"v": 1}, routes, None)
    assert aomi.read_return(aomi.tool_return({"v": 1})) == Result({"v": 1})


@requirement("aomi.interop.3")
def test_a_plan_of_routes_that_does_not_hold_is_refused_with_every_problem() -> None:
    step = {"tool": "t", "args": [], "bind_as": "a"}
    plan = {"next": [step, step], "after": [{"tool": "u", "args": 1, "awaits": "z"}, {"tool": "v"}]}
    with pytest.raises(InteropError) as refused:
        aomi.check_routes(plan)
    said = str(refused.value)
    for problem in (
        "duplicate bound alias `a`",
        "step `t` binds an alias, so its args must be an object",
        "tool `t` stands more than once",
        "at most one `after(...)` step",
        "deferred step `u` receives an alias",
        "unknown alias `z`",
    ):
        assert problem in said


@requirement("contract.interop.12", "contract.interop.14")
def test_our_log_is_told_as_their_events() -> None:
    asked = question("a1", tool="dex.swap")
    log = Log().add("notice", text="hello").add("error", text="oops").accepted("fg").done("fg", 1)
    log.accepted("a1", "dex.swap", background=True, provider_id="p").waiting(asked).answered(asked, "accept")
    log.add("output", "a1", delta="half").failed("a1", "failed", "no gas")
    log.accepted("a2").done("a2", handover={"to": "bob", "reason": "his field", "message": None})
    told = aomi.replay(log.events)
    assert told[:3] == [{"SystemNotice": "hello"}, {"SystemError": "oops"}, {"status": "queued", "id": "a1"}]
    inline = told[3]["InlineCall"]
    assert (inline["type"], inline["id"], inline["tool_name"]) == ("confirm", "a1-1", "swap")
    assert [event["AsyncCallback"]["result"] for event in told[4:6]] == ["half", {"error": "no gas"}]
    assert [event["AsyncCallback"]["type"] for event in told[4:6]] == ["tool_update", "tool_complete"]
    assert told[6:] == [{"SystemNotice": "ada hands over to bob: his field"}]
    sent = [event for event in told if "status" not in event]
    assert [json.loads(aomi.dumps("SystemEvent", event)) for event in sent] == sent


@requirement("contract.interop.14")
def test_a_question_with_data_of_a_type_is_an_inline_call_of_that_type() -> None:
    wallet = {"type": "wallet_tx_request", "transactions": []}
    inline = aomi.inline_call(question("a1", "client", "pass", data=wallet))["InlineCall"]
    assert (inline["type"], inline["payload"], inline["id"]) == ("wallet_tx_request", wallet, "a1-1")
    plain = aomi.inline_call(question("a1", data=[1]))["InlineCall"]
    assert (plain["type"], plain["payload"]["prompt"], plain["payload"]["data"]) == (
        "confirm",
        "Allow default.search?",
        [1],
    )

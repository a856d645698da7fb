"""What servers and commands send by OTLP: real processes, and a receiver on this machine."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import ready
from tests.requirements import requirement
from tests.shared import ROOT
from tests.telemetry.receiver import Receiver, Span, receiving
from tests.telemetry.shop import CONTENT, SECRET

pytestmark = pytest.mark.process

ASKED = "0af7651916cd43dd8448eb211c80319c"
ANSWERED = "1bf7651916cd43dd8448eb211c80319d"
CONTENT_ON = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only"}


def header(trace: str = ASKED) -> dict[str, str]:
    return {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


class Client:
    """A client of a server that runs in another process."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def post(self, path: str, trace: str = ASKED, **body: Any) -> Any:
        answer = self.http.post(f"/v1{path}", json=body, headers=header(trace))
        assert answer.is_success, answer.text
        return answer.json()

    def call(self, tool: str, wait: float = 60.0, **args: Any) -> Any:
        return self.post("/sessions/s/calls", tool=tool, args=args, wait=wait)


@contextmanager
def served(name: str, store: str, env: dict[str, str]) -> Iterator[Client]:
    """`toolcrib serve` of a crib of this folder; at the end it is stopped, and has sent all it had."""
    words = ["-m", "toolcrib", "serve", "--crib", f"tests.telemetry.shop:{name}", "--store", store]
    whole = {**{key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}, **env}
    argv = [*words, "--port", "0", "--json", "--no-token"]
    with ready.Program(argv, cwd=ROOT, env=whole, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.communicate(60)
            with httpx.Client(base_url=json.loads(line)["ready"], timeout=120) as http:
                client = Client(http)
                client.post("/sessions", id="s")
                yield client
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def parents(spans: list[Span]) -> dict[str, str]:
    """The name of each span, by the name of the one above."""
    names = {one.id: one.name for one in spans}
    return {one.name: names.get(one.parent, "") for one in spans}


@requirement("telemetry.span.1")
def test_calls_are_spans_of_the_trace_that_asked_for_them(receiver: Receiver, tmp_path: Path) -> None:
    with served("crib", f"sqlite:///{tmp_path}/a.db", receiver.environment()) as client:
        client.call("add", a=1, note=CONTENT)
        client.call("outer")
        client.call("refuse", note=CONTENT)
        client.call("stumble", note=CONTENT)
        client.call("add", a="no number")
        client.call("no_such_tool")
        log = client.http.get("/v1/sessions/s/events", params={"follow": "false"}).text
    adds = receiver.named("execute_tool default.add")
    assert [one.kind for one in adds] == ["internal"] * 3
    assert {one.trace for one in receiver.spans} == {ASKED}
    first = adds[0].attributes
    assert first["gen_ai.operation.name"] == "execute_tool"
    assert (first["gen_ai.tool.name"], first["gen_ai.conversation.id"]) == ("default.add", "s")
    assert first["gen_ai.tool.call.id"] in log
    child = next(one for one in adds if "toolcrib.call.parent" in one.attributes)
    assert child.parent == receiver.one("execute_tool default.outer").id
    ends = {one.name: one.attributes.get("error.type") for one in receiver.spans if one.failed}
    assert ends == {
        "execute_tool default.refuse": "unavailable",
        "execute_tool default.stumble": "ValueError",
        "execute_tool default.add": "invalid_arguments",
        "execute_tool none": "not_found",
    }
    assert adds[0].resource["service.name"] == "toolcrib"
    assert f'"trace":"00-{ASKED}-b7ad6b7169203331-01"' in log


@requirement("telemetry.span.2")
def test_a_call_that_waited_goes_on_in_its_trace_after_a_restart(receiver: Receiver, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served("crib", store, receiver.environment()) as client:
        client.call("greet", wait=0.5)
        receiver.wait_for("execute_tool default.greet")
    with served("crib", store, receiver.environment()) as client:
        question = client.http.get("/v1/questions").json()["items"][0]["id"]
        client.post("/sessions/s/answers", ANSWERED, question=question, action="accept", value="Ada")
        events = client.http.get("/v1/sessions/s/events", params={"call": question.rpartition("-")[0]}).text
        assert "hello Ada" in events
    waited, resumed = receiver.named("execute_tool default.greet")
    assert (waited.trace, resumed.trace) == (ASKED, ASKED)
    assert waited.attributes["toolcrib.call.paused"] is True
    assert resumed.links == [(ANSWERED, "b7ad6b7169203331")]
    assert waited.links == []


@requirement("telemetry.span.3")
def test_runs_turns_and_requests_to_models_are_spans(receiver: Receiver) -> None:
    with served("crib", "memory:", receiver.environment()) as client:
        outcome = client.post("/sessions/s/messages", text=f"Hello. {CONTENT}", wait=True)
        assert outcome["reason"] == "answered", outcome
    assert {one.trace for one in receiver.spans} == {ASKED}
    tree = parents(receiver.spans)
    assert tree["turn"] in ("invoke_agent clerk", "invoke_agent scout")
    assert tree["chat gpt-5"] == tree["execute_tool builtin.call_agent"] == "turn"
    assert tree["invoke_agent scout"] == "execute_tool builtin.call_agent"
    chats = receiver.named("chat gpt-5")
    assert [one.kind for one in chats] == ["client", "client"]
    first, second = (one.attributes for one in chats)
    assert (first["gen_ai.provider.name"], first["gen_ai.request.model"]) == ("openai", "gpt-5")
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.output_tokens"]) == (7, 3)
    assert (first["gen_ai.response.finish_reasons"], second["gen_ai.response.finish_reasons"]) == (
        ["tool_calls"],
        ["stop"],
    )
    run = receiver.one("invoke_agent clerk")
    assert (run.kind, run.parent) == ("internal", "b7ad6b7169203331")
    assert run.attributes["gen_ai.agent.name"] == "clerk"
    assert (run.attributes["gen_ai.usage.input_tokens"], run.attributes["toolcrib.run.turns"]) == (
        21,
        2,
    )  # with those of the agent below


@requirement("telemetry.content.1")
def test_neither_content_nor_secrets_are_sent(receiver: Receiver) -> None:
    with served("crib", "memory:", receiver.environment()) as client:
        client.call("add", a=1, note=CONTENT)
        client.call("login", password=SECRET)
        client.call("stumble", note=CONTENT)
        client.call("refuse", note=CONTENT)
        client.post("/sessions/s/messages", text=f"Hello. {CONTENT}", wait=True)
    assert {"execute_tool default.login", "chat gpt-5"} <= set(receiver.names)
    assert receiver.lines
    assert receiver.points
    assert CONTENT.encode() not in receiver.raw
    assert SECRET.encode() not in receiver.raw
    assert not [one for one in receiver.spans if one.description or one.events]


@requirement("telemetry.content.2")
def test_content_is_sent_where_that_is_switched_on_and_secrets_are_masked(receiver: Receiver) -> None:
    with served("crib", "memory:", receiver.environment(**CONTENT_ON)) as client:
        client.call("add", a=1, note=CONTENT)
        client.call("login", password=SECRET)
        client.post("/sessions/s/messages", text=f"Hello. {CONTENT}", wait=True)
    call = next(one for one in receiver.named("execute_tool default.add")).attributes
    assert json.loads(call["gen_ai.tool.call.arguments"]) == {"a": 1, "note": CONTENT}
    assert json.loads(call["gen_ai.tool.call.result"]) == {"sum": 2, "note": CONTENT}
    first, second = (one.attributes for one in receiver.named("chat gpt-5"))
    assert json.loads(first["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": f"Hello. {CONTENT}"}]}
    ]
    assert json.loads(second["gen_ai.output.messages"])[0]["parts"][0]["content"].endswith(CONTENT)
    assert CONTENT in first["gen_ai.system_instructions"]
    assert SECRET.encode() not in receiver.raw


@requirement("telemetry.metric.1")
def test_numbers_have_spans_as_examples(receiver: Receiver) -> None:
    with served("crib", "memory:", receiver.environment()) as client:
        client.call("add", a=1)
        client.call("refuse", note="x")
        client.post("/sessions/s/messages", text="Hello.", wait=True)
    names = {one.name for one in receiver.points}
    assert {
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration",
        "toolcrib.calls",
    } <= names
    spans = {one.id for one in receiver.named("execute_tool default.refuse")}
    refused = [
        one
        for one in receiver.points
        if one.name == "gen_ai.execute_tool.duration" and one.attributes.get("error.type") == "unavailable"
    ]
    assert refused[-1].value == 1
    assert {id for one in refused for _, id in one.exemplars} == spans
    outcomes = {one.attributes["toolcrib.call.outcome"] for one in receiver.points if one.name == "toolcrib.calls"}
    assert outcomes == {"succeeded", "unavailable"}


@requirement("telemetry.log.1")
def test_lines_of_the_log_belong_to_spans(receiver: Receiver) -> None:
    with served("crib", "memory:", receiver.environment()) as client:
        client.call("stumble", note=CONTENT)
    span = receiver.one("execute_tool default.stumble")
    line = next(one for one in receiver.lines if "exception.type" in one.attributes)
    assert line.trace == span.trace == ASKED
    assert line.attributes == {"exception.type": "ValueError"}


@requirement("telemetry.mcp.1")
def test_a_trace_goes_on_in_the_servers_that_a_crib_calls(receiver: Receiver) -> None:
    with served("gateway", "memory:", receiver.environment()) as client:
        answer = client.call("peer.add", a=1)
        assert "sum" in str(answer), answer
    receiver.wait_for("tools/call add", "execute_tool default.add")
    ours, server, theirs = (
        receiver.one(name) for name in ("execute_tool peer.add", "tools/call add", "execute_tool default.add")
    )
    assert (ours.trace, server.parent, theirs.parent) == (ASKED, ours.id, server.id)
    assert (server.kind, server.attributes["mcp.method.name"]) == ("server", "tools/call")
    assert ours.attributes["mcp.method.name"] == "tools/call"
    durations = [one for one in receiver.points if one.name.startswith("mcp.")]
    assert {one.name for one in durations} == {"mcp.client.operation.duration", "mcp.server.operation.duration"}


@requirement("telemetry.setup.1")
def test_commands_send_too_and_nothing_is_sent_unless_said(receiver: Receiver, tmp_path: Path) -> None:
    words = ["-m", "toolcrib", "call", "--crib", "tests.telemetry.shop:crib", "--json", "add", "-a", "a=1"]
    plain = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    for env in (plain, {**plain, **receiver.environment(OTEL_SDK_DISABLED="true")}):
        assert ready.run(*words, folder=ROOT, env=env).returncode == 0
    assert receiver.names == []
    done = ready.run(*words, folder=ROOT, env={**plain, **receiver.environment(OTEL_SERVICE_NAME="mine")})
    assert done.returncode == 0, done.stderr
    assert receiver.one("execute_tool default.add").resource["service.name"] == "mine"


@requirement("telemetry.link.1")
def test_a_log_links_calls_to_their_traces(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("from tests.telemetry.shop import TOOLS\n")
    serve = "serve: {trace_url: 'https://traces.example/{trace}?call={call}'}\n"
    (tmp_path / "crib.yaml").write_text(f"sources: ['shop:TOOLS']\nstore: sqlite:///a.db\n{serve}")
    env = {**os.environ, **receiver.environment(), "PYTHONPATH": str(ROOT), "TOOLCRIB_TRUST": "1"}
    called = ready.run("-m", "toolcrib", "call", "add", "-a", "a=1", "--session", "s", folder=tmp_path, env=env)
    assert called.returncode == 0, called.stderr
    shown = ready.run("-m", "toolcrib", "sessions", "watch", "s", "--no-follow", folder=tmp_path, env=env)
    assert shown.returncode == 0, shown.stderr
    span = receiver.one("execute_tool default.add")
    assert f"https://traces.example/{span.trace}?call={span.attributes['gen_ai.tool.call.id']}" in shown.stdout

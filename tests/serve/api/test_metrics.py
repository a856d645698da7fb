"""What a server tells of itself to those who watch it: numbers, readiness, spans; and that it sweeps."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.requirements import requirement
from tests.serve.api.place import desk
from tests.serve.tools import TOOLS
from tests.shared import ROOT
from toolcrib import Crib, ToolFailure, tool
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.metrics import REASONS, Metrics
from toolcrib.serve.principal import Principal
from toolcrib.testing import FakeClock

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"\n]*"(,[a-z_]+="[^"\n]*")*\})? [0-9.e+-]+|# (HELP|TYPE) [a-z_]+ .+')

CALLS = "/v1/sessions/{session}/calls"


def numbers(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples of a scrape by name and labels, as Prometheus reads them."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


async def test_calls_streams_and_requests_are_counted() -> None:
    async with desk(Crib(TOOLS)) as served:
        session = await served.open()
        await served.call(session, "add", {"a": 1})
        await served.call(session, "add", {"a": "x"})
        await served.call(session, "no-such-tool")
        await served.post(f"/sessions/{session}/calls", tool="greet", wait=False)
        async with served.stream(f"/sessions/{session}/events"):
            text = (await served.http.get("/metrics")).text
    lines = text.splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    found = numbers(text)
    for name, labels, value in (
        ("toolcrib_calls_total", {"tool": "default.add", "outcome": "succeeded"}, 1),
        ("toolcrib_calls_total", {"tool": "default.add", "outcome": "invalid_arguments"}, 1),
        ("toolcrib_calls_total", {"tool": "none", "outcome": "not_found"}, 1),
        ("toolcrib_call_duration_seconds_count", {"tool": "default.add"}, 1),
        ("toolcrib_call_duration_seconds_bucket", {"tool": "default.add", "le": "+Inf"}, 1),
        ("toolcrib_calls", {"state": "waiting"}, 1),
        ("toolcrib_calls", {"state": "running"}, 0),
        ("toolcrib_streams_open", {}, 1),
        ("toolcrib_http_requests_total", {"route": CALLS, "method": "POST", "status": "200"}, 3),
        ("toolcrib_http_requests_total", {"route": "/v1/sessions", "method": "POST", "status": "201"}, 1),
    ):
        assert found[name, frozenset(labels.items())] == value, (name, labels)
    assert not [name for name, _ in found if name.endswith("_created")]
    assert "no-such-tool" not in text


@pytest.mark.parametrize("store", ["memory:", "sqlite:///{folder}/crib.db"])
async def test_a_scrape_reads_no_calls(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a scrape reads no calls")

    crib = Crib(TOOLS, store=store.format(folder=tmp_path))
    async with desk(crib) as served:
        session = await served.open()
        await served.post(f"/sessions/{session}/calls", tool="greet", wait=False)
        for name in ("calls", "call", "walk", "stories", "read"):
            monkeypatch.setattr(crib.store, name, refuse)
        answer = await served.http.get("/metrics")
        monkeypatch.undo()
    assert numbers(answer.text)["toolcrib_calls", frozenset({("state", "waiting")})] == 1


async def test_numbers_are_for_who_may_see_them() -> None:
    keys = {name: new_key() for name in ("ada", "watch")}
    known = {keys["ada"][1]: Principal("ada"), keys["watch"][1]: Principal("w", scopes=frozenset({"metrics"}))}
    async with desk(Crib(TOOLS), guard=ApiKeys(known)) as served:
        statuses = []
        for key in (None, keys["ada"][0], keys["watch"][0]):
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            statuses.append((await served.http.get("/metrics", headers=headers)).status_code)
    assert statuses == [401, 403, 200]


async def test_no_page_reads_the_numbers_by_a_name_of_its_own() -> None:
    async with desk(Crib(TOOLS)) as served:
        for odd in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            assert (await served.http.get("/metrics", headers=odd)).status_code == 403
            assert (await served.http.get("/healthz", headers=odd)).status_code == 200


async def test_a_server_that_stops_is_alive_and_not_ready() -> None:
    async with desk(Crib(TOOLS)) as served:
        assert (await served.http.get("/readyz")).json() == {"ready": True}
        await served.api.quiet()
        assert (await served.http.get("/healthz")).status_code == 200
        answer = await served.http.get("/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        session = await served.open()
        headers = {"Accept": "text/event-stream"}
        assert await served.refused("GET", f"/sessions/{session}/events", headers=headers) == (503, "unavailable")


@requirement("aomi.sweep.3")
async def test_a_server_sweeps_every_hour() -> None:
    clock = FakeClock()
    crib = Crib(TOOLS, clock=clock, retention=timedelta(hours=3))
    async with desk(crib) as served:
        session = await served.open()
        for _ in range(5):
            await clock.advance(3601)
        assert await served.refused("GET", f"/sessions/{session}") == (404, "not_found")


async def test_who_sends_a_trace_is_served_where_nobody_has_the_library_for_traces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with desk(Crib(TOOLS)) as served:
        monkeypatch.setitem(sys.modules, "opentelemetry", None)
        headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        assert (await served.http.get("/v1/tools", headers=headers)).status_code == 200


@pytest.mark.process
def test_calls_become_spans_of_the_trace_that_asked_for_them() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.serve.api.traced"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    spans = [json.loads(line) for line in done.stdout.splitlines()]
    assert [span["name"] for span in spans] == [f"execute_tool default.{tool}" for tool in ("add", "fails", "greet")]
    assert {(span["trace"], span["parent"]) for span in spans} == {
        ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    }
    added, failed, asks = (span["attributes"] for span in spans)
    assert (added["gen_ai.operation.name"], added["gen_ai.tool.name"]) == ("execute_tool", "default.add")
    assert {"gen_ai.tool.call.id", "gen_ai.conversation.id"} <= added.keys()
    assert failed["error.type"] == "failed"
    assert asks["toolcrib.call.paused"] is True
    assert [span["events"] for span in spans] == [0, 0, 0]
    assert "no paint left" not in done.stdout


async def test_a_tool_whose_last_three_calls_broke_seems_out_of_order_until_one_succeeds() -> None:
    @tool(read_only=True, repeat=None)
    async def shaky(works: bool) -> str:
        """Work, or break."""
        if not works:
            raise RuntimeError("broken")
        return "works"

    crib = Crib([shaky])
    metrics = Metrics(crib)
    crib.pipeline.observers.append(metrics.called)
    async with crib:
        session = await crib.open("s", owner="ada")
        told = []
        for works in (False, False, False, True, False):
            await session.call("shaky", {"works": works})
            told.append("default.shaky" in metrics.out_of_order())
    assert told == [False, False, True, False, False]


async def test_grants_that_mean_nothing_are_told_as_such_and_not_as_a_session_of_another() -> None:
    async with desk(Crib(TOOLS)) as served:
        status, code = await served.refused("POST", "/sessions", {"id": "s-1", "grants": ["no such thing"]})
    assert (status, code) == (400, "invalid_arguments")


@requirement("contract.failure.5")
async def test_own_failure_codes_are_counted_and_bounded() -> None:
    @tool(read_only=True)
    async def pay(reason: str) -> None:
        """Pay."""
        raise ToolFailure(reason, "no")

    async with desk(Crib([pay])) as served:
        session = await served.open()
        for number in range(REASONS + 5):
            answer = await served.call(session, "pay", {"reason": f"NO_{number}"})
        text = (await served.http.get("/metrics")).text
    assert answer["failure"]["reason"] == f"NO_{REASONS + 4}"
    lines = [line for line in text.splitlines() if line.startswith("toolcrib_call_failure_reasons_total{")]
    assert len(lines) == REASONS + 1
    assert any('reason="other"' in line and line.endswith(" 5.0") for line in lines)

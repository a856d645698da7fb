"""There is one path: whatever a tool is made of, its calls pass the same stages and leave the same lines in the log."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.agent.place import text
from tests.definitions.place import Place as Files
from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import Event, Session, ToolFailure, tool
from toolcrib.agent import Agent, Agents, AgentSource, ScriptedModel
from toolcrib.sources.mcp import Mcp
from toolcrib.sources.openapi import OpenApi

pytestmark = pytest.mark.process

POLICY = {"default": "allow", "grants": {"allow": ["net:egress:*", "net:egress:private"]}}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
SOURCES = ("own.add", "sums.add", "adder.add", "shop.add", "agents.add", "client.add")


@tool(namespace="own")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    if a < 0:
        raise ToolFailure("failed", "no negative numbers")
    return a + b


class Sums(BaseHTTPRequestHandler):
    """`/add?a=1&b=2`."""

    def do_GET(self) -> None:
        given = {name: int(value[0]) for name, value in parse_qs(urlsplit(self.path).query).items()}
        said = str(given["a"] + given["b"]).encode()
        self.send_response(200 if given["a"] >= 0 else 422)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: Any) -> None:
        """Quietly."""


@pytest.fixture
def shop() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Sums) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def sources(folder: Path, url: str, agents: Agents) -> list[Any]:
    """The same from everywhere but the client."""
    folder.mkdir()
    files = Files(folder)
    command = {"name": "add", "path": "/add", "query": {"a": "{{a}}", "b": "{{b}}"}, "parameters": SCHEMA}
    files.write("sums", "http", http_specific={"base_url": url}, commands=[command])
    number = {"in": "query", "required": True, "schema": {"type": "integer"}}
    parameters = [{"name": "a", **number}, {"name": "b", **number}]
    get = {"operationId": "add", "parameters": parameters, "responses": {"200": {"description": "ok"}}}
    document = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {"/add": {"get": get}}}
    api = OpenApi(document, base_url=url, namespace="shop", trusted=True)
    server = Mcp(sys.executable, "-m", "tests.agent.adder", name="adder", required=True, start_s=120)
    return [add, files.source(), server, api, AgentSource(agents)]


@asynccontextmanager
async def opened(place: Place, folder: Path, url: str, verdict: str) -> AsyncIterator[Session]:
    script = {"add": [text("5"), {"error": {"code": "denied", "message": "no negative numbers"}}]}
    agents = Agents([Agent(name="add", description="Adds.")], model=ScriptedModel(script))
    policy = {**POLICY, "rules": [{verdict: "*"}]}
    given = sources(folder, url, agents)
    async with asyncio.timeout(280), place.crib(*given, agents=agents, policy=policy) as crib:
        session = await crib.open("s", owner="ada", namespaces=["*"])
        await session.offer([{"name": "add", "description": "Add two numbers.", "input_schema": SCHEMA}])
        yield session


def arguments(source: str, a: Any) -> dict[str, Any]:
    return {"prompt": "" if a == "x" else f"{a} + 3"} if source == "agents.add" else {"a": a, "b": 3}


async def made(session: Session, source: str, a: Any) -> list[Event]:
    """All events of a call that is let go on, and run by its client where it is the client's."""
    call = await session.submit(source, arguments(source, a))
    events: list[Event] = []
    async for event in session.events(call=call.id):
        events.append(event)
        if event.kind != "waiting":
            continue
        question = event.fields["question"]
        if question["kind"] == "confirm":
            await session.answer(question["id"], "accept")
        elif a < 0:
            await session.answer(question["id"], "fail", reason="no negative numbers")
        else:
            await session.answer(question["id"], "accept", a + 3)
    return events


def kinds(events: list[Event]) -> list[str]:
    """The stages. What a client runs starts when it is asked for, and its answer is what it did."""
    asked = [event.fields["question"]["id"] for event in events if _for_client(event)]
    found = ["started" if _for_client(event) else event.kind for event in events]
    return [
        kind
        for kind, event in zip(found, events, strict=True)
        if not (kind == "answered" and event.fields["question"] in asked)
    ]


def _for_client(event: Event) -> bool:
    return event.kind == "waiting" and event.fields["question"]["kind"] == "client"


@requirement("aomi.path.1")
@pytest.mark.parametrize(
    ("verdict", "a", "stages"),
    [
        ("allow", 2, ["accepted", "started", "done"]),
        ("allow", "x", ["accepted", "done"]),
        ("ask", 2, ["accepted", "waiting", "answered", "started", "done"]),
        ("deny", 2, ["accepted", "done"]),
    ],
)
async def test_one_behaviour_of_every_source_leaves_the_same_lines(
    file_place: Place, tmp_path: Path, shop: str, verdict: str, a: Any, stages: list[str]
) -> None:
    async with opened(file_place, tmp_path / "files", shop, verdict) as session:
        found = {source: await made(session, source, a) for source in SOURCES}
    assert {source: kinds(events) for source, events in found.items()} == dict.fromkeys(SOURCES, stages)
    ends = [events[-1].fields for events in found.values()]
    assert {end["ok"] for end in ends} == {verdict != "deny" and a == 2}
    if ends[0]["ok"]:
        assert all("5" in str(end) for end in ends)
    else:
        code = {"deny": "denied"}.get(verdict, "invalid_arguments")
        assert {end["failure"]["code"] for end in ends} == {code}


@requirement("aomi.path.1")
async def test_a_failure_of_every_source_leaves_the_same_lines(file_place: Place, tmp_path: Path, shop: str) -> None:
    async with opened(file_place, tmp_path / "files", shop, "allow") as session:
        await made(session, "agents.add", 2)
        found = {source: await made(session, source, -1) for source in SOURCES}
    assert {tuple(kinds(events)) for events in found.values()} == {("accepted", "started", "done")}
    assert {source: events[-1].fields["ok"] for source, events in found.items()} == dict.fromkeys(SOURCES, False)
    assert all(events[-1].fields["failure"]["message"] for events in found.values())


@requirement("aomi.path.1")
async def test_every_source_says_the_same_in_each_line(file_place: Place, tmp_path: Path, shop: str) -> None:
    async with opened(file_place, tmp_path / "files", shop, "allow") as session:
        found = {source: await made(session, source, 2) for source in SOURCES}
    accepted = [events[0].fields for events in found.values()]
    assert [one["tool"] for one in accepted] == list(SOURCES)
    assert {one["label"] for one in accepted} == {"Add"}
    assert all({"args", "by", "digest", "effect"} <= one.keys() for one in accepted)
    started = [events[1].fields for source, events in found.items() if source != "client.add"]
    assert [(one["attempt"], one["verdict"]["effect"]) for one in started] == [(1, "allow")] * 5

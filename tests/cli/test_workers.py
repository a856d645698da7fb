"""`toolcrib serve --workers N`: several processes behind one port, as if they were one."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.project import Project
from tests.ready import Program
from tests.requirements import requirement
from toolcrib._call.shared_limits import SharedLimits

TOOLS = '''
import asyncio
import os
from pathlib import Path

from toolcrib import Context, tool

FOLDER = Path(__file__).parent


@tool(namespace="shop", read_only=True)
async def process() -> int:
    """Return the process that runs it."""
    return os.getpid()


@tool(namespace="shop", read_only=True)
async def hold(ctx: Context, name: str) -> int:
    """Wait for a file."""
    (FOLDER / f"{name}.{os.getpid()}").touch()
    ctx.progress("holding")
    while not (FOLDER / f"{name}.open").exists():
        await asyncio.sleep(0.02)
    return os.getpid()


@tool(namespace="shop", concurrency=1, idempotent=True)
async def alone(name: str) -> list[str]:
    """Say who else is inside."""
    inside = FOLDER / f"inside-{name}"
    inside.touch()
    await asyncio.sleep(0.05)
    others = [one.name for one in FOLDER.glob("inside-*") if one != inside]
    inside.unlink()
    return others
'''
CONFIG = """\
sources: [shop_tools]
store: sqlite:///shop.db
"""
LONGEST_S = 60


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("shop_tools.py", TOOLS)
    made.write("crib.yaml", CONFIG)
    return made


class Port:
    """A server of several processes, and clients at the process that a test wants."""

    def __init__(self, process: Program, ready: dict[str, Any], stack: ExitStack) -> None:
        self.process = process
        self.url: str = ready["ready"]
        self.headers = {"Authorization": f"Bearer {ready['token']}"}
        self._stack = stack

    def client(self) -> httpx.Client:
        """One connection, to whichever process the kernel chose."""
        client = httpx.Client(base_url=self.url, headers=self.headers, timeout=LONGEST_S)
        return self._stack.enter_context(client)

    def process_of(self, client: httpx.Client) -> int:
        """The process at the other end of a connection."""
        assert client.post("/v1/sessions", json={"id": "who"}).is_success
        done = client.post("/v1/sessions/who/calls", json={"tool": "shop.process", "args": {}}).json()
        assert done["ok"], done
        return int(done["data"])

    def two(self) -> dict[int, httpx.Client]:
        """Connections to two processes."""
        clients: dict[int, httpx.Client] = {}
        for _ in range(200):
            client = self.client()
            clients.setdefault(self.process_of(client), client)
            if len(clients) == 2:
                return clients
        raise AssertionError(f"all connections went to {list(clients)}")


@contextmanager
def serving(project: Project, *words: str) -> Iterator[Port]:
    """Two processes at a port that is free, both of them listening."""
    with ExitStack() as stack:
        process = stack.enter_context(project.start("serve", "--workers", "2", "--port", "0", "--json", *words))
        assert process.stdout is not None
        assert process.stderr is not None
        ready = process.stdout.readline()
        assert ready, process.communicate(timeout=LONGEST_S)
        until(process, "server-2 runs")
        yield Port(process, json.loads(ready), stack)


def until(process: Program, text: str) -> str:
    """Reads what it tells up to a text."""
    assert process.stderr is not None
    lines = ""
    while text not in lines:
        line = process.stderr.readline()
        assert line, lines
        lines += line
    return lines


def waited(path: Path, pattern: str) -> Path:
    """The file of that pattern, when it is there."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        for one in path.glob(pattern):
            return one
        time.sleep(0.01)
    raise AssertionError(f"no {pattern}")


def began(client: httpx.Client, session: str, tool: str, args: dict[str, Any]) -> str:
    """The id of a call that was only begun."""
    assert client.post("/v1/sessions", json={"id": session}).is_success
    made = client.post(f"/v1/sessions/{session}/calls", json={"tool": tool, "args": args, "wait": 0})
    assert made.is_success, made.text
    return str(made.json().get("call") or made.json()["id"])


@requirement("scale.workers.1")
def test_a_call_of_one_process_is_seen_followed_and_cancelled_at_the_other(project: Project) -> None:
    with serving(project) as port:
        (first, here), (_, there) = port.two().items()
        with there.stream("GET", "/v1/live") as live:
            lines = live.iter_lines()
            call = began(here, "s", "shop.hold", {"name": "a"})
            assert waited(project.folder, "a.*").name == f"a.{first}"
            assert any(call in line for line in lines)
        assert there.get(f"/v1/sessions/s/calls/{call}").json()["status"] in ("running", "streaming")
        with there.stream("GET", "/v1/sessions/s/events?follow=1") as stream:
            lines = stream.iter_lines()
            assert any("holding" in line for line in lines)
            assert there.post(f"/v1/sessions/s/calls/{call}/cancel").is_success
            assert any("cancelled" in line for line in lines)
        assert here.get(f"/v1/sessions/s/calls/{call}").json()["status"] == "cancelled"


@requirement("scale.workers.2")
def test_a_process_that_is_killed_is_replaced_and_its_call_runs_again_at_another(project: Project) -> None:
    with serving(project) as port:
        clients = port.two()
        (first, here), (second, there) = clients.items()
        call = began(here, "s", "shop.hold", {"name": "a"})
        assert waited(project.folder, "a.*").name == f"a.{first}"
        os.kill(first, signal.SIGKILL)
        until(port.process, "runs again")
        assert port.process_of(there) == second
        (project.folder / "a.open").touch()
        result = there.get(f"/v1/sessions/s/calls/{call}/result", params={"wait": LONGEST_S}).json()
        assert result["ok"] is True, result
        assert result["data"] != first
        assert first not in port.two()


@requirement("scale.workers.3")
def test_no_request_fails_while_all_processes_are_replaced(project: Project) -> None:
    with serving(project) as port:
        before = set(port.two())
        stop, failed, seen = threading.Event(), list[Any](), set[int]()

        def ask() -> None:
            with httpx.Client(base_url=port.url, headers=port.headers, timeout=LONGEST_S) as client:
                while not stop.is_set():
                    try:
                        seen.add(port.process_of(client))
                    except Exception as error:  # noqa: BLE001 - the test tells it
                        failed.append(error)
                        return

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        os.kill(port.process.pid, signal.SIGHUP)
        until(port.process, "server-2 was replaced")
        after = set(port.two())
        stop.set()
        for thread in threads:
            thread.join(LONGEST_S)
        assert failed == []
        assert after.isdisjoint(before)
        assert seen - before


@requirement("scale.workers.3")
def test_where_the_next_process_cannot_start_the_ones_of_before_go_on(project: Project) -> None:
    with serving(project) as port:
        before = set(port.two())
        project.write("crib.yaml", "sources: [no_such_module]\nstore: sqlite:///shop.db\n")
        os.kill(port.process.pid, signal.SIGHUP)
        assert "no_such_module" in until(port.process, "the processes of before go on")
        assert set(port.two()) == before


@requirement("scale.workers.4")
def test_the_limit_of_a_tool_holds_over_both_processes(project: Project) -> None:
    with serving(project) as port:
        clients = list(port.two().values())
        calls = [
            (client, began(client, f"s{n % 4}", "shop.alone", {"name": f"{n}"}))
            for n, client in enumerate(clients * 10)
        ]
        for n, (client, call) in enumerate(calls):
            result = client.get(f"/v1/sessions/s{n % 4}/calls/{call}/result", params={"wait": LONGEST_S}).json()
            assert (result["ok"], result["data"]) == (True, []), result


@requirement("scale.workers.4")
def test_the_rate_of_a_principal_is_that_of_both_processes_together(project: Project) -> None:
    project.write("crib.yaml", f"{CONFIG}serve: {{limits: {{rate: 20/day}}}}\n")
    with serving(project) as port:
        statuses = [port.client().get("/v1/me").status_code for _ in range(40)]
        assert statuses.count(200) == 20
        assert set(statuses) == {200, 429}


@requirement("scale.workers.5")
def test_a_client_of_an_older_revision_is_served_by_the_process_that_greeted_it(project: Project) -> None:
    with serving(project) as port:
        (first, here), (_, there) = port.two().items()
        params = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        accept = {"Accept": "application/json, text/event-stream"}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        greeted = here.post("/mcp", json=hello, headers=accept)
        headers = {**accept, "Mcp-Session-Id": greeted.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}
        for client in (here, there):
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "process", "arguments": {}}}
            answer = client.post("/mcp", json=body, headers=headers)
            text = answer.text if answer.text.startswith("{") else answer.text.partition("data: {")[2]
            assert str(first) in text, answer.text
        assert there.delete("/mcp", headers=headers).status_code == 204
        gone = here.post("/mcp", json={"jsonrpc": "2.0", "id": 3, "method": "ping"}, headers=headers)
        assert gone.status_code == 404


@requirement("scale.workers.2")
def test_no_process_outlives_the_one_that_started_them(project: Project) -> None:
    with serving(project) as port:
        processes = list(port.two())
        port.process.kill()
        for _ in range(600):
            left = [pid for pid in processes if Path(f"/proc/{pid}").exists()]
            if not left:
                break
            time.sleep(0.1)
        assert left == []


def test_a_stop_stops_all_of_them_and_leaves_no_token(project: Project) -> None:
    with serving(project) as port:
        processes = list(port.two())
        port.process.terminate()
        assert port.process.wait(LONGEST_S) == 0
        assert [pid for pid in processes if Path(f"/proc/{pid}").exists()] == []


@requirement("scale.workers.6")
@pytest.mark.parametrize(
    ("config", "words", "text"),
    [
        ("sources: [shop_tools]\n", ("--workers", "2"), "need a store that they share"),
        (CONFIG, ("--workers", "0"), "--workers 0 is no number of processes"),
        (CONFIG, ("--workers", "many"), "--workers many is no number of processes"),
        (CONFIG, ("--workers", "2", "--reload"), "--reload is for one process"),
        (f"{CONFIG}serve: {{workers: 0}}\n", (), "workers"),
    ],
)
def test_what_cannot_be_served_by_several_says_why(
    project: Project, config: str, words: tuple[str, ...], text: str
) -> None:
    project.write("crib.yaml", config)
    ran = project.run("serve", "--port", "0", *words, code=None)
    assert ran.code != 0
    assert text in ran.err


@requirement("scale.workers.4")
def test_slots_of_a_process_that_died_are_free_again(tmp_path: Path) -> None:
    with (tmp_path / "limits").open("w+b") as file:
        SharedLimits.prepare(file.fileno())
        shared = SharedLimits(file.fileno(), 1, 2)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            theirs = SharedLimits(file.fileno(), 2, 2)
            os.write(write, str(theirs.take("tool x", 1)).encode())
            signal.pause()
        slot = int(os.read(read, 100))
        assert shared.take("tool x", 1) is None
        assert shared.take("tool y", 1) is not None
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert shared.take("tool x", 1) == slot
        assert shared.take("tool x", 1) is None
        shared.free(slot)
        assert shared.take("tool x", 1) == slot
        os.close(read)
        os.close(write)

"""`toolcrib mcp` and `toolcrib serve --mcp`: the crib for MCP clients."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.cli.project import Project, Screen, command, environment, until
from tests.ready import Program
from tests.requirements import requirement
from tests.serve.place import BOTH, META, VERSION
from toolcrib import Crib
from toolcrib.cli.questions import user
from toolcrib.sources.mcp import Mcp

KEY = "k" * 40
NODE, INSPECTOR = "node@22.23.3", "@modelcontextprotocol/inspector@2.12.0"
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
SHELF = '''
from toolcrib.serve.mcp import McpLibrary
library = McpLibrary()

@library.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}"
'''


@contextmanager
def serving(project: Project, *words: str) -> Iterator[tuple[Program, str]]:
    """`toolcrib serve` at a port that is free, and the address that it tells."""
    with project.start("serve", "--mcp", "--port", "0", "--no-token", *words) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told.startswith("MCP at "), process.communicate(timeout=60)
        yield process, told.removeprefix("MCP at ").strip()


def listed(url: str, **headers: str) -> httpx.Response:
    """What a server answers to who asks for its tools."""
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    said = {**BOTH, "MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/list"}
    return httpx.post(url, json=message, headers={**said, **headers}, timeout=60)


def stdio(project: Project, *words: str) -> StdioServerParameters:
    program, *args = command("mcp", *words)
    return StdioServerParameters(command=program, args=args, cwd=project.folder, env=environment())


@requirement("mcp.server.14")
@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_client_of_the_sdk_uses_a_crib_on_pipes(project: Project, mode: str, revision: str) -> None:
    async with Client(stdio_client(stdio(project)), mode=mode) as client:
        assert client.protocol_version == revision
        assert "find" in [tool.name for tool in (await client.list_tools()).tools]
        called = await client.call_tool("find", {"order": "7"})
        assert called.structured_content == {"order": "7", "deep": False}
        assert (await client.call_tool("find", {"order": "0"})).is_error
    owned = [session for session in project.run("sessions", "list", "--json").json if session["owner"] == user()]
    assert owned


@requirement("mcp.server.14")
def test_standard_output_carries_the_protocol_alone(project: Project) -> None:
    project.write("crib.yaml", "sources: [loud]\n")
    project.write("loud.py", "import os\nfrom shop_tools import *\nprint('no protocol')\nos.system('echo nor this')\n")
    ran = project.run("mcp", stdin=PING)
    assert [line["id"] for line in ran.lines] == [1]
    assert "no protocol\nnor this\n" in ran.err


def test_standard_input_and_output_may_be_files(project: Project) -> None:
    asked, told = project.write("asked.jsonl", PING), project.folder / "told.jsonl"
    with asked.open() as stdin, told.open("w") as stdout:
        done = subprocess.run(command("mcp"), cwd=project.folder, stdin=stdin, stdout=stdout, timeout=60, check=False)
    assert done.returncode == 0
    assert json.loads(told.read_text())["id"] == 1


def test_a_person_who_starts_it_is_told_what_it_is(project: Project) -> None:
    with Screen(["mcp"], project.folder) as screen:
        screen.expect("`toolcrib mcp config` prints what to give to one").expect("Ctrl-D ends this")
        screen.press(PING).expect('"id":1,"error"').press("\x04")
        assert screen.ended() == 0


def test_only_the_namespaces_that_are_named_are_open(project: Project) -> None:
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    ran = project.run("mcp", "-n", "mail", stdin=json.dumps(message) + "\n")
    names = {tool["name"] for tool in ran.json["result"]["tools"]}
    assert "sign" in names
    assert "refund" not in names


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_on_pipes(project: Project, number: int) -> None:
    with project.start("mcp", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(PING)
        process.stdin.flush()
        until(process.stdout, '"id":1')
        process.send_signal(number)
        assert process.wait(20) == 0


def test_a_crib_that_does_not_hold_is_told_on_standard_error(project: Project) -> None:
    project.write("crib.yaml", "sorces: []\n")
    ran = project.run("mcp", code=2)
    assert (ran.out, "unknown key 'sorces'" in ran.err) == ("", True)


@requirement("mcp.server.3")
async def test_a_crib_is_served_over_http_to_another_crib(project: Project) -> None:
    with serving(project) as (process, url):
        answer = listed(url)
        assert "find" in [tool["name"] for tool in answer.json()["result"]["tools"]]
        async with Crib([Mcp(url, name="far")], policy={"default": "allow"}) as crib:
            session = await crib.open("s", owner="ada", namespaces=["far"])
            assert (await session.call("far.find", {"order": "7"})).data == {"order": "7", "deep": False}
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert "Stopped listening." in process.communicate()[1]


def test_a_library_among_the_sources_is_served(project: Project) -> None:
    project.write("shelved.py", SHELF)
    project.write("crib.yaml", "sources: [shop_tools, 'shelved:library']\n")
    with serving(project) as (_, url):
        shown = project.run("mcp", "inspect", url, "--json").json
    assert (shown["prompts"], shown["resources"]) == (1, 0)
    assert "greet" not in [tool["name"] for tool in shown["tools"]]


def test_termination_ends_it_too_while_a_client_listens(project: Project) -> None:
    with serving(project) as (process, url):
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        with httpx.Client(headers=BOTH, timeout=60) as http:
            begun = http.post(url, json=message)
            said = {"Mcp-Session-Id": begun.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
            with http.stream("GET", url, headers=said) as stream:
                assert next(stream.iter_lines()).startswith(":")
                process.terminate()
                assert process.wait(20) == 0


@requirement("mcp.server.15")
def test_only_who_has_a_key_is_let_in(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRIB_KEY", KEY)
    with serving(project, "--key-env", "CRIB_KEY") as (_, url):
        assert listed(url).status_code == 401
        assert listed(url, Authorization=f"Bearer {KEY[1:]}").status_code == 401
        assert listed(url, Authorization=f"Bearer {KEY}").status_code == 200
        project.run("mcp", "inspect", url, code=1)
        project.run("mcp", "add", "far", url, "--header", "Authorization=Bearer ${CRIB_KEY}")


@requirement("mcp.server.15")
def test_each_key_of_a_file_is_somebodys(project: Project) -> None:
    digest = hashlib.sha256(b"b" * 40).hexdigest()
    keys = project.write("keys.txt", f"# who may call\nada {KEY}\n\nbob sha256:{digest} # only its digest\n")
    with serving(project, "--key-file", str(keys)) as (_, url):
        for key in (KEY, "b" * 40):
            assert listed(url, Authorization=f"Bearer {key}").status_code == 200
        assert listed(url, Authorization="Bearer c").status_code == 401
        owners = {row["owner"] for row in project.run("sessions", "list", "--json").json}
    assert owners >= {"ada", "bob"}


def test_pages_and_hosts_are_let_in_by_name(project: Project) -> None:
    with serving(project, "--allow-origin", "https://app.example", "--allow-host", "crib.example") as (_, url):
        assert listed(url, Origin="https://evil.example").status_code == 403
        assert listed(url, Origin="https://app.example").status_code == 200
        assert listed(url, Host="evil.example").status_code == 403
        assert listed(url, Host="crib.example").status_code == 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--mcp", "--host", "0.0.0.0"), "there are no keys"),
        (("--mcp", "--host", "::"), "there are no keys"),
        (("--mcp", "--host", "a.invalid"), "there are no keys"),
        (("--mcp", "--host", "a.invalid", "--insecure"), "Cannot listen on a.invalid"),
        (("--mcp", "--key-env", "NO_SUCH_KEY"), "The variable NO_SUCH_KEY is not set"),
        (("--mcp", "--key-file", "none.txt"), "Cannot read none.txt"),
        (("--mcp", "--key-file", "empty.txt"), "empty.txt holds no key"),
        (("--mcp", "--key-file", "short.txt"), "short.txt:1: this key has fewer than 16 characters"),
        (("--mcp", "--key-file", "long.txt"), "long.txt:1: expected NAME KEY"),
    ],
)
def test_what_cannot_be_served_is_refused(project: Project, words: tuple[str, ...], said: str) -> None:
    project.write("empty.txt", "# nobody\n")
    project.write("short.txt", "ada secret\n")
    project.write("long.txt", f"ada {KEY} {KEY}\n")
    assert said in project.run("serve", *words, code=2).err


def test_a_port_that_is_taken_is_told(project: Project) -> None:
    with serving(project) as (_, url):
        port = url.rpartition(":")[2].partition("/")[0]
        assert f"port {port}: Address already in use" in project.run("serve", "--mcp", "--port", port, code=2).err


def test_where_it_listens_is_told_as_json(project: Project) -> None:
    with project.start("serve", "--mcp", "--port", "0", "--json") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (listed(told["ready"]).status_code, told["keys"]) == (401, False)
        assert listed(told["ready"], Authorization=f"Bearer {told['token']}").status_code == 200


def test_other_machines_are_let_in_with_keys(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRIB_KEY", KEY)
    with serving(project, "--host", "0.0.0.0", "--key-env", "CRIB_KEY") as (_, url):
        assert url.startswith("http://127.0.0.1:")  # what listens everywhere is told as an address that works here
        assert listed(url, Host="crib.internal", Authorization=f"Bearer {KEY}").status_code == 200


# The Inspector


@cache
def inspector() -> list[str]:
    """The Inspector's command line, fetched by npm where that is possible."""
    if shutil.which("npx") is None:
        pytest.skip("the MCP Inspector needs Node: npx is not installed")
    words = ["npx", "-y", "--prefer-offline", "-p", NODE, "-p", INSPECTOR, "mcp-inspector", "--cli"]
    done = subprocess.run([*words, "--help"], check=False, input=b"", capture_output=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm cannot fetch {INSPECTOR} here")
    return words


def inspected(folder: Path, *words: str) -> dict[str, Any]:
    """What the Inspector finds."""
    done = subprocess.run(
        [*inspector(), "--format", "json", *words],
        cwd=folder,
        env={**os.environ, "MCP_CATALOG_PATH": str(folder / "catalog.json")},
        input="",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done
    found: dict[str, Any] = json.loads(done.stdout)["result"]
    return found


@requirement("mcp.server.14")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_uses_a_crib_on_pipes(project: Project, era: str) -> None:
    target = ("--protocol-era", era, "--", *command("mcp"))
    assert "find" in [tool["name"] for tool in inspected(project.folder, "--method", "tools/list", *target)["tools"]]
    call = ("--method", "tools/call", "--tool-name", "find", "--tool-args-json", '{"order":"7"}')
    assert inspected(project.folder, *call, *target)["structuredContent"] == {"order": "7", "deep": False}


@requirement("mcp.server.3", "mcp.server.13")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_uses_a_crib_over_http(project: Project, era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRIB_KEY", KEY)
    with serving(project, "--key-env", "CRIB_KEY") as (_, url):
        key = ("--header", f"Authorization: Bearer {KEY}")
        target = ("--protocol-era", era, "--server-url", url, "--transport", "http", *key)
        tools = inspected(project.folder, "--method", "tools/list", *target)["tools"]
        assert "find" in [tool["name"] for tool in tools]
        call = ("--method", "tools/call", "--tool-name", "find", "--tool-args-json", '{"order":"7"}')
        assert inspected(project.folder, *call, *target)["structuredContent"] == {"order": "7", "deep": False}

"""Runs real clients and real servers against Toolcrib and prints a table: `make interop`.

Servers are reached through a crib, clients talk to `toolcrib serve` in front of one of them. Each is installed in a
fixed version by npm or pip into `.venv/interop`; one that cannot be installed is told, and the others go on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.proxy import proxy
from tests.conformance.run import NODE, ROOT, fixture
from toolcrib import Crib
from toolcrib.sources.mcp import Mcp

PLACE = ROOT / ".venv" / "interop"
INSTALL_S = 600
CALL_S = 180
NODE_BIN = PLACE / "node" / "node_modules" / "node" / "bin" / "node"


class Server(NamedTuple):
    """A server: where it comes from, how it is started, and a call with a word of its answer."""

    name: str
    package: str
    command: Callable[[Path, Path], list[str]]
    tool: str
    arguments: Mapping[str, Any]
    answer: str


def _node(package: str, file: str) -> Callable[[Path, Path], list[str]]:
    return lambda home, work: [str(NODE_BIN), str(home / "node_modules" / package / file)]


def _python(module: str, *more: str) -> Callable[[Path, Path], list[str]]:
    return lambda home, work: [str(home / "bin" / "python"), "-m", module, *(one.format(work=work) for one in more)]


_REFERENCE = "@modelcontextprotocol/server-"
SERVERS = (
    Server(
        "everything",
        f"npm:{_REFERENCE}everything@2026.8.31",
        lambda home, work: [*_node(f"{_REFERENCE}everything", "dist/index.js")(home, work), "stdio"],
        "echo",
        {"message": "hello"},
        "hello",
    ),
    Server(
        "filesystem",
        f"npm:{_REFERENCE}filesystem@2026.8.31",
        lambda home, work: [*_node(f"{_REFERENCE}filesystem", "dist/index.js")(home, work), str(work)],
        "list_directory",
        {"path": "."},
        "note.txt",
    ),
    Server(
        "memory",
        f"npm:{_REFERENCE}memory@2026.8.31",
        _node(f"{_REFERENCE}memory", "dist/index.js"),
        "read_graph",
        {},
        "entities",
    ),
    Server("time", "pip:mcp-server-time", _python("mcp_server_time"), "get_current_time", {"timezone": "UTC"}, "UTC"),
    Server(
        "git",
        "pip:mcp-server-git",
        _python("mcp_server_git", "-r", "{work}"),
        "git_status",
        {"repo_path": "."},
        "branch",
    ),
    Server(
        "fetch",
        "pip:mcp-server-fetch",
        _python("mcp_server_fetch", "--ignore-robots-txt"),
        "fetch",
        {"url": "http://127.0.0.1:9/"},
        "Failed to fetch",
    ),
)

_SDK_1 = """
import {Client} from "@modelcontextprotocol/sdk/client/index.js";
import {StreamableHTTPClientTransport} from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const client = new Client({name: "interop", version: "1"});
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const {tools} = await client.listTools();
const result = await client.callTool({name: "test_simple_text", arguments: {}});
const read = await client.readResource({uri: "test://static-text"});
console.log(tools.length, result.content[0].text, read.contents[0].text);
process.exit(0);
"""
_FASTMCP = """
import asyncio, sys
from fastmcp import Client
async def main():
    async with Client(sys.argv[1]) as client:
        tools = await client.list_tools()
        result = await client.call_tool("test_simple_text", {})
        read = await client.read_resource("test://static-text")
        print(len(tools), result.content[0].text, read[0].text)
asyncio.run(main())
"""
_SDK = """
import asyncio, sys
from mcp import Client
async def main():
    async with Client(sys.argv[1]) as client:
        tools = (await client.list_tools()).tools
        result = await client.call_tool("test_simple_text", {})
        read = await client.read_resource("test://static-text")
        print(len(tools), result.content[0].text, read.contents[0].text)
asyncio.run(main())
"""
_LANGCHAIN = """
import asyncio, sys
from langchain_mcp_adapters.client import MultiServerMCPClient
async def main():
    client = MultiServerMCPClient({"crib": {"url": sys.argv[1], "transport": "streamable_http"}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    print(len(tools), await tools["test_simple_text"].ainvoke({}))
asyncio.run(main())
"""


class Client(NamedTuple):
    """A client: where it comes from, and a program or a command that calls `test_simple_text` at an address."""

    name: str
    package: str
    program: str = ""
    command: Callable[[Path, str], list[str]] | None = None


CLIENTS = (
    Client("mcp (Python SDK)", "pip:mcp==2.3.0", _SDK),
    Client("FastMCP", "pip:fastmcp==4.1.2", _FASTMCP),
    Client("langchain-mcp-adapters", "pip:langchain-mcp-adapters", _LANGCHAIN),
    Client("TypeScript SDK 1", "npm:@modelcontextprotocol/sdk@1", _SDK_1),
    Client(
        "inspector",
        "npm:@modelcontextprotocol/inspector",
        command=lambda home, url: [
            str(NODE_BIN),
            str(home / "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js"),
            *("--cli", url, "--transport", "http", "--method", "tools/call", "--tool-name", "test_simple_text"),
        ],
    ),
)


def main() -> int:
    """Prints a row for each; 1 where one that could be installed does not work."""
    options = argparse.ArgumentParser(prog="make interop", description=__doc__)
    options.add_argument("names", nargs="*", help="some of them")
    wanted = options.parse_args().names
    installed("npm:" + NODE)
    failed = 0
    for server in SERVERS:
        if not wanted or server.name in wanted:
            failed += _row(server.name, server.package, partial(_server, server))
    chosen = [client for client in CLIENTS if not wanted or client.name in wanted]
    if chosen:
        with fixture() as direct, proxy(direct) as url:
            for client in chosen:
                failed += _row(client.name, client.package, partial(_client, client, url))
    return 1 if failed else 0


def _row(name: str, package: str, work: Callable[[], str]) -> int:
    try:
        told, bad = work(), 0
    except NotInstalled as reason:
        told, bad = f"not installed: {reason}", 0
    except Exception as error:  # noqa: BLE001 - whatever one does, the others are tried
        told, bad = f"FAILED: {str(error)[:200] or type(error).__name__}", 1
    print(f"| {name} | {package} | {told} |", flush=True)
    return bad


def _server(server: Server) -> str:
    home = installed(server.package)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "note.txt").write_text("hello")
        subprocess.run(["git", "init", "-q", folder], check=True)
        return asyncio.run(_called(server, home, Path(folder)))


async def _called(server: Server, home: Path, work: Path) -> str:
    source = Mcp(*server.command(home, work), name=server.name, cwd=str(work), required=True, start_s=120.0)
    async with asyncio.timeout(CALL_S), Crib([source], policy={"default": "allow"}) as crib:
        about = await source.server.about()
        session = await crib.open(owner="interop", namespaces=[server.name])
        result = await session.call(f"{server.name}.{server.tool}", dict(server.arguments))
        if server.answer not in result.text:
            raise AssertionError(f"{server.tool} gave {result.text[:150]}")
        counts = f"{len(about.tools)} tools, {about.prompts} prompts, {about.resources} resources"
        return f"works, {about.revision}: {counts}; {server.tool} called"


def _client(client: Client, url: str) -> str:
    home = installed(client.package)
    if client.command is not None:
        argv = client.command(home, url)
    else:
        script = home / ("client.mjs" if client.package.startswith("npm:") else "client.py")
        script.write_text(client.program)
        argv = [str(NODE_BIN if script.suffix == ".mjs" else home / "bin" / "python"), str(script), url]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=CALL_S, check=False, cwd=home)
    if done.returncode or "This is a simple text response" not in done.stdout:
        raise AssertionError((done.stderr or done.stdout).strip()[-200:])
    return "works: " + " ".join(done.stdout.split())[:80]


class NotInstalled(Exception):
    """Something cannot be fetched here."""


def installed(package: str) -> Path:
    """The folder where a package of npm or pip is, fetched once.

    Raises:
        NotInstalled: it cannot be fetched.
    """
    kind, _, name = package.partition(":")
    home = PLACE / ("node" if name == NODE else json.dumps(package).strip('"').replace("/", "_").replace(":", "-"))
    stamp = home / ".installed"
    if stamp.exists():
        return home
    home.mkdir(parents=True, exist_ok=True)
    print(f"installing {name}", file=sys.stderr)
    npm = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(home), name]
    pip = [
        str(home / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--no-compile",
        name,
    ]
    commands = [npm] if kind == "npm" else [[sys.executable, "-m", "venv", str(home)], pip]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        if done.returncode:
            raise NotInstalled((done.stderr or done.stdout).strip()[-100:])
    stamp.write_text(name)
    return home


if __name__ == "__main__":
    sys.exit(main())

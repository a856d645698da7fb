"""Runs real clients and real servers against Toolcrib and prints a table: `make interop`.

Servers are reached through a crib, clients talk to `toolcrib serve` in front of the reference server. Each is installed
in a fixed version by npm or pip into `.venv/interop`; one that cannot be installed is told, and the others go on.
`--write-docs` puts the tables into the page about MCP.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from bench import docs
from tests.conformance import client_programs as programs
from tests.conformance.proxy import proxy
from tests.conformance.run import NODE, ROOT, fixture
from toolcrib import Crib
from toolcrib.sources.mcp import Mcp

PLACE = ROOT / ".venv" / "interop"
INSTALL_S = 600
CALL_S = 300
NODE_BIN = PLACE / "node" / "node_modules" / "node" / "bin" / "node"
PAGE = ROOT / "docs" / "reference" / "mcp.md"
MARKERS = ("<!-- interop: begin (written by `make interop ARGS=--write-docs`) -->", "<!-- interop: end -->")


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


def _browser() -> list[str]:
    """The options for a browser of this machine.

    Raises:
        NotInstalled: there is none.
    """
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        raise NotInstalled("no browser is installed")
    return ["--headless", "--isolated", "--no-sandbox", "--executable-path", browser]


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
    Server(
        "time",
        "pip:mcp-server-time==2026.10.19",
        _python("mcp_server_time"),
        "get_current_time",
        {"timezone": "UTC"},
        "UTC",
    ),
    Server(
        "git",
        "pip:mcp-server-git==2026.10.19",
        _python("mcp_server_git", "-r", "{work}"),
        "git_status",
        {"repo_path": "."},
        "branch",
    ),
    Server(
        "fetch",
        "pip:mcp-server-fetch==2026.10.24",
        _python("mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"),
        "fetch",
        {"url": "{site}/note.txt", "raw": True},
        "hello",
    ),
    Server(
        "playwright",
        "npm:@playwright/mcp@0.0.83",
        lambda home, work: [*_node("@playwright/mcp", "cli.js")(home, work), *_browser()],
        "browser_navigate",
        {"url": "data:text/html,<title>A page</title>"},
        "A page",
    ),
)


class Client(NamedTuple):
    """A client: where it comes from, and its program."""

    name: str
    package: str
    program: str


CLIENTS = (
    Client("mcp (Python SDK)", "pip:mcp==2.3.0", programs.SDK),
    Client("FastMCP", "pip:fastmcp==4.1.2", programs.FASTMCP),
    Client("TypeScript SDK 1", "npm:@modelcontextprotocol/sdk@1.32.2", programs.TYPESCRIPT_1),
    Client("TypeScript SDK 2", "npm:@modelcontextprotocol/client@2.4.0", programs.TYPESCRIPT_2),
    Client("inspector", "npm:@modelcontextprotocol/inspector@2.12.0", programs.INSPECTOR),
    Client("mcp-remote", "npm:mcp-remote@0.15.1", programs.SDK),
    Client("Pydantic AI", "pip:pydantic-ai-slim[mcp]==2.66.0", programs.PYDANTIC_AI),
    Client("langchain-mcp-adapters", "pip:langchain-mcp-adapters==0.3.2", programs.LANGCHAIN),
    Client("OpenAI Agents SDK", "pip:openai-agents==0.24.0", programs.OPENAI_AGENTS),
    Client("ADK", "pip:google-adk[mcp]==2.13.0", programs.ADK),
)
EXPECTED = {
    "tools": "",
    "call": "This is a simple text response",
    "resource": "content of the static text resource",
    "prompt": "This is a simple prompt",
}
"""What each cell of a client's row has to hold."""


class Table(NamedTuple):
    """Rows, each with the name of a peer, its version and its cells; `failed` names those that do not work."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    failed: list[str]

    def add(self, name: str, package: str, work: Callable[[], Iterable[str]]) -> None:
        """Tries one; whatever it does, the others are tried."""
        try:
            cells = tuple(work())
        except NotInstalled as reason:
            cells = (f"not installed: {reason}",)
        except Exception as error:  # noqa: BLE001 - whatever one does, the others are tried
            cells = (f"FAILED: {str(error)[:300] or type(error).__name__}",)
            self.failed.append(name)
        version = package.rpartition("==" if package.startswith("pip:") else "@")[2]
        self.rows.append((name, version, *cells, *[""] * (len(self.columns) - 2 - len(cells))))
        print(_line(self.rows[-1]), flush=True)

    def as_markdown(self) -> str:
        """The table for a page."""
        lines = (_line(self.columns), _line("---" for _ in self.columns), *map(_line, self.rows))
        return "\n".join((self.title, "", *lines))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |"


def main() -> int:
    """Prints a row for each; 1 where one that could be installed does not work."""
    options = argparse.ArgumentParser(prog="make interop", description=__doc__)
    options.add_argument("names", nargs="*", help="some of them")
    options.add_argument("--write-docs", action="store_true", help=f"put the tables into {PAGE.relative_to(ROOT)}")
    choice = options.parse_args()
    installed("npm:" + NODE)
    tables = [_servers(choice.names), _clients(choice.names)]
    if choice.write_docs:
        programs_used = f"Python {platform.python_version()} and Node {NODE.rpartition('@')[2]}"
        when = f"Run on {datetime.now(UTC):%Y-%m-%d} with {programs_used}."
        docs.write(PAGE, "\n\n".join((*(table.as_markdown() for table in tables), when)), MARKERS)
    return 1 if any(table.failed for table in tables) else 0


def _servers(names: list[str]) -> Table:
    columns = ("server", "version", "revision", "tools", "prompts", "resources", "called")
    table = Table("Servers, by a crib:", columns, [], [])
    for server in SERVERS:
        if not names or server.name in names:
            table.add(server.name, server.package, partial(_server, server))
    return table


def _clients(names: list[str]) -> Table:
    columns = ("client", "version", "tools listed", "tool called", "resource read", "prompt got")
    table = Table("Clients, by `toolcrib serve` in front of the reference server:", columns, [], [])
    chosen = [client for client in CLIENTS if not names or client.name in names]
    if chosen:
        with fixture() as direct, proxy(direct) as url:
            for client in chosen:
                table.add(client.name, client.package, partial(_client, client, url))
    return table


def _server(server: Server) -> Iterable[str]:
    home = installed(server.package)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "note.txt").write_text("hello")
        subprocess.run(["git", "init", "-q", folder], check=True)
        with _site(folder) as site:
            arguments = {
                name: value.format(site=site) if isinstance(value, str) else value
                for name, value in server.arguments.items()
            }
            return asyncio.run(_called(server._replace(arguments=arguments), home, Path(folder)))


@contextmanager
def _site(folder: str) -> Iterator[str]:
    """The files of a folder at an address of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=folder)) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


async def _called(server: Server, home: Path, work: Path) -> tuple[str, ...]:
    source = Mcp(*server.command(home, work), name=server.name, cwd=str(work), required=True, start_s=120.0)
    async with asyncio.timeout(CALL_S), Crib([source], policy={"default": "allow"}) as crib:
        about = await source.server.about()
        session = await crib.open(owner="interop", namespaces=[server.name])
        result = await session.call(f"{server.name}.{server.tool}", dict(server.arguments))
        if server.answer not in result.text:
            raise AssertionError(f"{server.tool} gave {result.text[:150]}")
        counts = map(str, (len(about.tools), about.prompts, about.resources))
        return about.revision, *counts, f"`{server.tool}`"


def _client(client: Client, url: str) -> Iterable[str]:
    home = installed(client.package)
    where = [url]
    if client.name == "mcp-remote":  # a bridge from pipes to HTTP, which the Python SDK talks to
        bridge = home / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
        where = [str(NODE_BIN), str(bridge), url, "--allow-http", "--transport", "http-only"]
        home = installed(CLIENTS[0].package)
    script = home / ("client.mjs" if client.package.startswith("npm:") and len(where) == 1 else "client.py")
    script.write_text(client.program)
    runner = str(NODE_BIN if script.suffix == ".mjs" else home / "bin" / "python")
    done = subprocess.run(
        [runner, str(script), *where], capture_output=True, text=True, timeout=CALL_S, check=False, cwd=home
    )
    if done.returncode:
        raise AssertionError((done.stderr or done.stdout).strip()[-300:])
    return _cells(json.loads(done.stdout.strip().splitlines()[-1]))


def _cells(answer: Mapping[str, Any]) -> list[str]:
    """What a program printed, as cells; what it did not print, its library has no interface for."""
    wrong = [name for name, text in EXPECTED.items() if name in answer and text not in str(answer[name])]
    if wrong:
        raise AssertionError(f"{wrong[0]} gave {str(answer[wrong[0]])[:200]}")
    others = ["yes" if name in answer else "no interface for it" for name in ("call", "resource", "prompt")]
    return [str(answer["tools"]), *others]


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

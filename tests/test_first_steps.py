"""A stranger's first ten minutes: what the README says, typed line by line with an empty home.

`make first-steps` does it with nothing borrowed: an environment of its own, filled by pip.
"""

import json
import os
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from playwright.async_api import async_playwright

from tests.console.conftest import chromium
from tests.requirements import requirement
from tests.shared import ROOT
from tests.test_distribution import Built, built, installed

__all__ = ["built", "installed"]
REAL = "TOOLCRIB_FIRST_STEPS"
"""Set, an environment is made and filled by pip, as the README says; else one borrows what it needs from this one."""
BORROWED = {} if REAL in os.environ else {"MONTY_BIN": str(Path(sys.executable).with_name("monty"))}
"""A program of a package that looks for it in its own environment."""
PATIENCE_MS = 60_000
OWN_TOOL = '''

@tool(namespace="tasks", destructive=True)
async def send_task(task: int, to: str) -> str:
    """Send a task to somebody."""
    return f"task {task} went to {to}"
'''


class Stranger(NamedTuple):
    """Somebody with a terminal, an empty home and the README."""

    home: Path
    bin: Path

    def env(self) -> dict[str, str]:
        own = ("TOOLCRIB_", "PYTHON", "VIRTUAL_ENV", "XDG_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return kept | {
            "HOME": str(self.home),
            "LOGNAME": "ada",
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin",
            "TOOLCRIB_ALLOW_ROOT": "1",
            "TOOLCRIB_DEMO": str(self.home / "desk"),
            **BORROWED,
        }

    def type(self, line: str, folder: str = ".", code: int = 0) -> str:
        """Type a line that ends by itself; what it shows."""
        argv, place = ["bash", "-c", line], self.home / folder
        done = subprocess.run(
            argv, cwd=place, env=self.env(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    @contextmanager
    def served(self, line: str, folder: str = ".") -> Iterator[str]:
        """Type a line that goes on until Ctrl-C; the address of the console that it prints."""
        argv, place = line.split(), self.home / folder
        with subprocess.Popen(
            argv, cwd=place, env=self.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield next(word for line in process.stdout for word in line.split() if "?token=" in word)
            finally:
                process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait(60) == 0


def lines() -> list[str]:
    """Return the lines of the README that a stranger types first."""
    part = (ROOT / "README.md").read_text("utf-8").partition("## Try it")[2]
    block = part.partition("```sh\n")[2].partition("```")[0]
    return [re.sub(r"\s+#\s.*$", "", line) for line in block.splitlines()]


@pytest.fixture
def stranger(request: pytest.FixtureRequest, tmp_path: Path) -> Stranger:
    home = tmp_path / "home"
    home.mkdir()
    if REAL not in os.environ:
        bin: Path = request.getfixturevalue("installed")
        script = bin / "pytest"
        script.write_text(f"#!{bin}/python\nimport sys, pytest\nsys.exit(pytest.console_main())\n", "utf-8")
        script.chmod(0o755)
        return Stranger(home, bin)
    built_: Built = request.getfixturevalue("built")
    venv.create(home / ".venv", with_pip=True, symlinks=True)
    one = Stranger(home, home / ".venv/bin")
    one.type(lines()[1].replace("path/to/toolcrib", str(built_.wheel)))
    size = sum(path.stat().st_size for path in (home / ".venv/lib").rglob("*") if path.is_file())
    print(f"\n{size / 1e6:.0f} MB installed, with pip and pytest, on Python {sys.version.split()[0]}")
    return one


@requirement("adoption.first.1")
def test_the_readme_begins_with_an_environment_and_one_install_line() -> None:
    assert lines()[0] == "python3 -m venv .venv && . .venv/bin/activate"
    assert lines()[1] == "pip install 'path/to/toolcrib[serve]' pytest"
    assert [line for line in lines()[2:] if not re.match(r"toolcrib |cd |pytest", line)] == []


@requirement("adoption.first.1")
@pytest.mark.browser
async def test_the_first_ten_minutes_succeed(stranger: Stranger) -> None:
    demo, init, cd, test, chat, call, serve, config, install = lines()[2:]
    folder = cd.split()[1]
    with stranger.served(f"{demo} --port 0") as address:
        assert "<title>Toolcrib</title>" in page_at(address)
    assert "toolcrib init" in stranger.type("toolcrib")
    assert "toolcrib chat" in stranger.type(init)
    assert "2 passed" in stranger.type(f"{test} -p no:cacheprovider", folder)
    assert "bye" not in stranger.type(chat, folder)
    assert "Next:  toolcrib answer" in stranger.type(call, folder, code=3)
    with (stranger.home / folder / "tools.py").open("a", encoding="utf-8") as tools:
        tools.write(OWN_TOOL)
    assert "tasks.send_task" in stranger.type("toolcrib tools list", folder)
    assert "Waiting" in stranger.type("toolcrib call send_task -a task=1 -a to=bob", folder, code=3)
    with stranger.served(f"{serve} --port 0", folder) as address:
        await approve(address, "Allow tasks.send_task?")
    assert "tasks.send_task" not in stranger.type("toolcrib approvals list", folder)
    assert "succeeded" in stranger.type("toolcrib audit --tool tasks.send_task", folder)
    await attach(json.loads(stranger.type(config, folder)), folder, stranger)
    assert "mcpServers" in stranger.type(f"{install} --print --no-check", folder)


def page_at(address: str) -> str:
    """Return what a browser gets there first."""
    with urlopen(address, timeout=60) as page:
        return str(page.read(), "utf-8")


async def approve(address: str, question: str) -> None:
    """Answer a question in the inbox of the console."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        page = await browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(address)
        await page.get_by_role("link", name="Inbox").click()
        await page.get_by_text(question).first.click()
        await page.get_by_role("button", name="Approve").click()
        await page.get_by_text("tasks.send_task: accept").wait_for()
        await browser.close()


async def attach(config: dict[str, dict[str, dict[str, object]]], name: str, stranger: Stranger) -> None:
    """Start the crib as an MCP client does that was given the configuration, and use its tools."""
    entry = config["mcpServers"][name]
    parameters = StdioServerParameters.model_validate({**entry, "env": stranger.env()})
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        assert {"send_task", "list_tasks"} <= {tool.name for tool in (await session.list_tools()).tools}
        answer = await session.call_tool("list_tasks", {})
        assert "try toolcrib" in str(answer.content)

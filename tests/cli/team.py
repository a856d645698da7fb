"""A project with agents whose model is a script; commands that need no process of their own run inside the test."""

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from tests.cli.project import Project, Ran, Screen
from toolcrib.cli.app import app

TOOLS = '''
import asyncio
from pathlib import Path

from toolcrib import Context, tool

HERE = Path(__file__).parent


@tool(namespace="door", read_only=True, timeout=600)
async def gate(ctx: Context, name: str) -> str:
    """Wait for a file."""
    ctx.progress(f"at the gate {name}")
    (HERE / f"{name}.seen").touch()
    while not (HERE / name).exists():
        await asyncio.sleep(0.02)
    return f"through {name}"
'''
CONFIG = """\
sources: [shop_tools.py, door_tools.py]
policy: {preset: developer}
store: sqlite:///shop.db
agents:
  files: [team]
  default: support
  models: {"test/*": {scripted: script.yaml}}
"""
SUPPORT = """\
description: First line of help.
model: test/one
instructions: You find out what people need.
exclude: ["mail.*"]
sub_agents: [billing, {agent: clerk, via: call}]
"""
BILLING = """\
---
description: Money.
model: test/one
tools: ["shop.*"]
---
You answer for money.
"""
CLERK = """\
model: test/one
instructions: You file things.
tools: [gate]
"""


class Team(Project):
    """A folder with tools, three agents, and a script of what their models say."""

    def __init__(self, folder: Path, **script: list[dict[str, Any]]) -> None:
        super().__init__(folder)
        for name, text in {
            "door_tools.py": TOOLS,
            "crib.yaml": CONFIG,
            "team/support.yaml": SUPPORT,
            "team/billing.md": BILLING,
            "team/clerk.yaml": CLERK,
        }.items():
            self.write(name, text)
        self.script(**script)

    def script(self, **script: list[dict[str, Any]]) -> None:
        """What the models of the agents say."""
        self.write("script.yaml", yaml.safe_dump(script))

    def inside(self, *words: str, stdin: str = "", code: int | None = 0) -> Ran:
        """The same as `run`, without a process."""
        folder, paths, modules = Path.cwd(), list(sys.path), set(sys.modules)
        handler, logger = signal.getsignal(signal.SIGINT), logging.getLogger("toolcrib")
        logs = (logger.propagate, logger.handlers, logger.level)
        os.chdir(self.folder)
        try:
            result = CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)
        finally:
            os.chdir(folder)
            sys.path[:] = paths
            signal.signal(signal.SIGINT, handler)
            logger.propagate, logger.handlers, level = logs
            logger.setLevel(level)
            for name in {"toolcrib_source_shop_tools", "shop_tools", "door_tools"} & (set(sys.modules) - modules):
                del sys.modules[name]
        ran = Ran(result.exit_code, result.stdout, result.stderr)
        assert code in (None, ran.code), ran
        return ran

    def screen(self, *words: str) -> Screen:
        """The command on a terminal."""
        return Screen(words, self.folder)

    def asked(self) -> str:
        """The id of the question that is open."""
        (question,) = self.inside("approvals", "list", "--json").json
        return str(question["id"])

    def kinds(self, session: str) -> list[str]:
        """The kinds of the events of a session."""
        return [event["kind"] for event in self.inside("sessions", "watch", session, "--no-follow", "--json").lines]


def calls(*named: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    """A turn that calls tools."""
    made: dict[str, Any] = {"calls": [{"tool": tool, "args": args} for tool, args in named]}
    return made | ({"text": text} if text else {})


def says(text: str, **more: Any) -> dict[str, Any]:
    """A turn that answers."""
    return {"text": text, **more}


TO_BILLING = ("transfer_to_agent", {"agent_name": "billing", "reason": "a refund"})
REFUND = ("refund", {"order": "7", "cents": 500})

"""A project with a policy for a coding agent, and hooks that are sent to it as clients send them."""

import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests import ready
from tests.cli.project import environment

CRIB = """\
sources: [spy_tools]
store: sqlite:///guard.db
policy:
  grants:
    allow: ["fs:*:${workspace}/**", "exec:cmd:git", "exec:cmd:ls", "net:egress:example.com"]
    ask: ["exec:cmd:*", "net:egress:*"]
    deny: ["fs:write:${workspace}/.git/**"]
  groups: {leads: [lea]}
  rules:
    - {deny: "shell(git push *)", reason: people push}
    - {ask: "shell(git tag *)", approvers: [leads]}
    - {allow: "client.call_tool(mcp__tickets__*)"}
"""
SPY = """
from pathlib import Path

Path(__file__).with_name("imported").touch()
raise RuntimeError
"""


class Answered(NamedTuple):
    """What a hook said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def decision(self) -> str | None:
        """The decision on a `PreToolUse` of Claude Code, if there is one."""
        said: dict[str, Any] = self.json.get("hookSpecificOutput", {})
        return said.get("permissionDecision")

    @property
    def reason(self) -> str:
        text: str = self.json["hookSpecificOutput"]["permissionDecisionReason"]
        return text


class Guarded:
    """The project, and a runtime folder for the sockets of its resident process."""

    def __init__(self, folder: Path, *, resident: bool = False) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.crib = self.folder / "crib.yaml"
        self.crib.write_text(CRIB)
        (self.folder / "spy_tools.py").write_text(SPY)
        self.sockets = Path(tempfile.mkdtemp())  # the name of a socket has 107 bytes at the most
        weakref.finalize(self, shutil.rmtree, self.sockets, ignore_errors=True)
        self.env = environment() | {
            "TOOLCRIB_GUARD_FOLDER": str(self.sockets),
            "TOOLCRIB_GUARD_RESIDENT": "1" if resident else "0",
            "TOOLCRIB_GUARD_IDLE_S": "60",
            "HOME": str(folder),
        }

    def hook(self, client: str, data: Mapping[str, Any] | str, *words: str, **env: str) -> Answered:
        """Send a hook to the command, as the client does."""
        text = data if isinstance(data, str) else json.dumps(data)
        words = ("guard", client, "--crib", str(self.crib), *words)
        done = ready.run("-m", "toolcrib", *words, folder=self.folder, env=self.env | env, stdin=text)
        return Answered(done.returncode, done.stdout, done.stderr)

    def claude(self, event: str, tool: str, id: str = "toolu_1", /, *words: str, **given: Any) -> Answered:
        """Send a hook of Claude Code."""
        return self.hook("claude-code", self.claude_data(event, tool, id, **given), *words)

    def claude_data(self, event: str, tool: str, id: str = "toolu_1", **given: Any) -> dict[str, Any]:
        """What Claude Code sends."""
        return {
            "session_id": "abc123",
            "transcript_path": "/tmp/abc123.jsonl",
            "cwd": str(self.folder),
            "permission_mode": "default",
            "hook_event_name": event,
            "tool_name": tool,
            "tool_input": given,
            "tool_use_id": id,
        }

    def toolcrib(self, *words: str, code: int = 0) -> Any:
        """Run another command on the store, without the sources."""
        inbox = self.folder.parent / "inbox.yaml"
        inbox.write_text("store: sqlite:///project/guard.db\n")
        words = (*words, "--crib", str(inbox), "--json")
        done = ready.run("-m", "toolcrib", *words, folder=self.folder.parent, env=self.env)
        assert done.returncode == code, done
        return [json.loads(line) for line in done.stdout.splitlines()]

    def socket(self) -> Path | None:
        """The socket of the resident process."""
        return next(self.sockets.glob("*.sock"), None)

"""Definition files for tests of the command line, and projects that have some."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.cli.project import Project
from tests.shared import RECORDINGS, require_recordings

PEER = Path(__file__).parent.parent / "definitions" / "peer.py"
GREET = """\
tool:
  schema_version: 2.0
  id: greet
  type: cli
  name: Greet
  version: 1.0.0
  description: Greets people
  x-team: {lead: Ada, since: 2020}
  cli_specific: {executable: echo}
  commands:
    - name: hello
      description: Says hello
      effect: read
      x-cost: 3
      cli_args: [hello, "{{name}}"]
      input_schema: {type: object, properties: {name: {type: string}}, required: [name]}
    - name: bye
      effect: once
      cli_args: [bye, "{{name}}"]
  executable_knowledge:
    validators:
      - id: validate-hello
        validates: hello
        checks: [{required_fields: [name]}]
      - id: validate-bye
        validates: bye
        checks: [{required_fields: [name]}]
    helpers:
      - id: double
        function: |
          (function() { return args.n * 2; })();
      - id: broken
        function: |
          (function() { throw new Error("no way"); })();
    processors:
      - id: name-it
        applies_to: [bye]
        function: |
          (function() { return args.said.toUpperCase(); })();
  examples:
    hello:
      - {scenario: success, input: {name: Ada}, output: hello Ada}
      - {scenario: failure_empty, input: {name: ""}, error: {code: VALIDATION_ERROR, message: "'name' is missing"}}
"""
BROKEN = "tool: {id: broken, name: Broken, version: 1.0.0, description: It has no type}\n"


def greeting(folder: Path, **files: str) -> Project:
    """A project without a crib whose own definition files are `greet`, one that is invalid, and these."""
    project = Project(folder)
    (folder / "crib.yaml").unlink()
    for name, text in {"greet": GREET, "broken": BROKEN, **files}.items():
        project.write(f".toolcrib/tools/{name}.yaml", text)
    return project


def served(log: Path, id: str, tools: list[dict[str, Any]], more: str = "") -> str:
    """The definition of a server, which is started in earnest."""
    args = json.dumps([str(PEER), str(log), json.dumps(tools)])
    return (
        f"tool:\n  id: {id}\n  type: mcp\n  name: {id}\n  version: 1.0.0\n  description: A server\n"
        f"  mcp_specific: {{server_command: {sys.executable}, server_args: {args}}}\n{more}"
    )


def real_tools() -> Path:
    """The folder of the shared definition files."""
    require_recordings()
    return RECORDINGS / "tools"

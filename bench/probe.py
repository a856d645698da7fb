"""Runs a measurement of our own in a process of its own, so that none disturbs another's memory."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.peers import HERE, ROOT

RESULTS = HERE / "results"


class Failed(Exception):
    """A probe ended early; the text is the last thing it said."""


def probe(name: str, *arguments: object, env: Mapping[str, str] | None = None) -> Any:
    """What `bench.probes.<name>` printed as JSON in its last line; `env` is added to its environment.

    Raises:
        Failed: it did not get that far.
    """
    argv = [sys.executable, "-m", f"bench.probes.{name}", *map(str, arguments)]
    given = {**os.environ, **(env or {})}
    try:
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False, env=given)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{name} was not through after {late.timeout:g} s") from None
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def scratch() -> Path:
    """A folder on the same disk as the project; a temporary folder may be memory, which would flatter a database."""
    RESULTS.mkdir(exist_ok=True)
    return RESULTS

"""aimock, an npm server that speaks the wire formats of several providers: fetched once, and run on loopback."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from toolcrib.testing.services import Watch

VERSION = "1.43.0"
PACKAGE = f"@copilotkit/aimock@{VERSION}"
KEY = "sk-right-1234567890"
"""The one key that it accepts."""


@cache
def installed() -> Path:
    """Its command, in the user's cache; two that install it at a time do not meet."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("models of providers are tested against aimock, which needs Node: npm is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolcrib-tests"
    place = cache / f"aimock-{VERSION}"
    if not place.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="aimock-", dir=cache))
        argv = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(fresh), PACKAGE]
        if subprocess.run(argv, check=False, capture_output=True, timeout=300).returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            pytest.skip(f"npm can not fetch {PACKAGE} here")
        try:
            fresh.rename(place)
        except OSError:  # another one was faster
            shutil.rmtree(fresh, ignore_errors=True)
    return place / "node_modules/@copilotkit/aimock/dist/cli.js"


@contextmanager
def serving(folder: Path, fixtures: list[dict[str, Any]]) -> Iterator[str]:
    """Its address while it answers as the fixtures say."""
    path = folder / "fixtures.json"
    path.write_text(json.dumps({"fixtures": fixtures}), "utf-8")
    argv = ["node", str(installed()), "-p", "0", "-f", str(path), "--chunk-size", "8", "--strict"]
    env = {**os.environ, "AIMOCK_API_KEYS": KEY}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        assert process.stdout is not None
        watch = Watch(process.pid, "TERM")
        said, rest = [], Thread(target=process.stdout.read)
        try:
            for line in process.stdout:
                said.append(line)
                if found := re.search(r"listening on (http://[\d.:]+)", line):
                    rest.start()  # it would stop where nobody reads what it says
                    yield found[1]
                    return
            raise AssertionError(f"aimock did not start:\n{''.join(said)}")
        finally:
            watch.end()
            process.terminate()
            if rest.ident is not None:
                rest.join()

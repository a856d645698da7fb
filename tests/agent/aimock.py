"""aimock, an npm server that speaks the wire formats of several providers: fetched once, and run on loopback."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.npm import fetched
from toolcrib.testing.services import ParentWatch

VERSION = "1.43.0"
PACKAGE = f"@copilotkit/aimock@{VERSION}"
KEY = "sk-right-1234567890"
"""The one key that it accepts."""


def installed() -> Path:
    """Its command."""
    if shutil.which("node") is None:
        pytest.skip("models of providers are tested against aimock, which needs Node")
    return fetched(PACKAGE) / "@copilotkit/aimock/dist/cli.js"


@contextmanager
def serving(folder: Path, fixtures: list[dict[str, Any]]) -> Iterator[str]:
    """Its address while it answers as the fixtures say."""
    path = folder / "fixtures.json"
    path.write_text(json.dumps({"fixtures": fixtures}), "utf-8")
    argv = ["node", str(installed()), "-p", "0", "-f", str(path), "--chunk-size", "8", "--strict"]
    env = {**os.environ, "AIMOCK_API_KEYS": KEY}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        assert process.stdout is not None
        watch = ParentWatch(process.pid, "TERM")
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

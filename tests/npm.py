"""Programs of npm for tests: fetched once into the user's cache, in one version."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

NODE = "node@22.23.3"
PATIENCE_S = 300


@cache
def fetched(*packages: str) -> Path:
    """The folder `node_modules` with these packages in it. Two that fetch them at a time do not meet."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"npm is not installed, which fetches {' '.join(packages)}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolcrib-tests"
    place = cache / f"npm-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:16]}"
    if not place.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="npm-", dir=cache))
        argv = [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(fresh), *packages]
        if subprocess.run(argv, check=False, capture_output=True, timeout=PATIENCE_S).returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            pytest.skip(f"npm cannot fetch {' '.join(packages)} here")
        try:
            fresh.rename(place)
        except OSError:  # another one was faster
            shutil.rmtree(fresh, ignore_errors=True)
    return place / "node_modules"


def node() -> str:
    """A Node that is new enough for the clients, whatever the machine has."""
    return str(fetched(NODE) / ".bin" / "node")

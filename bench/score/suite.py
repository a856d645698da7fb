"""What a suite says: its rows, its failures, and where its files come from."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path


class SuiteUnavailable(Exception):
    """A suite cannot run here; the text says why."""


@dataclass(frozen=True, slots=True)
class Score:
    """One suite: what was counted, beside whom, and what failed."""

    suite: str
    rows: tuple[tuple[str, ...], ...]
    """What is counted, and the count in each further column."""
    failures: tuple[str, ...] = ()
    note: str = ""
    columns: tuple[str, ...] = ("Toolcrib",)
    """Who is counted: Toolcrib, or Toolcrib and its peers with their versions."""


def cache() -> Path:
    """Return the folder in which suites are kept."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "toolcrib-score"


def from_npm(package: str) -> Path:
    """Return the folder of a package of npm, such as `name@1.2.3`.

    Raises:
        SuiteUnavailable: npm is not there, or cannot fetch it.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise SuiteUnavailable("npm is not installed")
    name = package.rpartition("@")[0]
    return _kept(package, [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix"], (package,)) / (
        f"node_modules/{name}"
    )


def from_pypi(requirement: str, *options: str) -> Path:
    """Return the one file of a package of PyPI, its wheel, or with `--no-binary` its sdist.

    Raises:
        SuiteUnavailable: pip cannot fetch it.
    """
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options, "--dest"]
    [file] = _kept(requirement, pip, (requirement,)).iterdir()
    return file


def _kept(what: str, command: list[str], words: tuple[str, ...]) -> Path:
    """Fetch something into a folder of the cache, once."""
    place = cache() / hashlib.sha256(what.encode()).hexdigest()[:16]
    if not place.exists():
        cache().mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=cache()))
        done = subprocess.run([*command, str(fresh), *words], check=False, capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            raise SuiteUnavailable(f"{what} cannot be fetched")
        fresh.rename(place)
    return place

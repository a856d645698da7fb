"""One virtual environment a peer, made once and kept until its pinned requirements change."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from rich.console import Console

from bench.peers import HERE

VENVS = HERE / ".venvs"


class NotInstalled(Exception):
    """A peer could not be installed; the text says why."""


class Installed(Protocol):
    """What has an environment of its own."""

    @property
    def name(self) -> str:
        """The name of its folder."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """What pip installs."""


def ensure(peer: Installed, console: Console) -> Path:
    """The Python of a peer's environment, installed first where it is missing or its pins have changed.

    Raises:
        NotInstalled: pip could not do it.
    """
    home = VENVS / peer.name
    python = home / "bin" / "python"
    stamp = home / ".stamp"
    wanted = "\n".join((*peer.requirements, f"python {sys.version.split()[0]}"))
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    stamp.unlink(missing_ok=True)
    start = time.monotonic()
    _install(peer, home, console)
    stamp.write_text(wanted)
    console.print(f"installed {peer.name} in {time.monotonic() - start:.0f} s", highlight=False, soft_wrap=True)
    return python


def _install(peer: Installed, home: Path, console: Console) -> None:
    console.print(
        f"installing {' '.join(peer.requirements)} into {home.relative_to(HERE.parent)}",
        highlight=False,
        soft_wrap=True,
    )
    with console.status(f"{peer.name}: making the environment") as status:
        _follow([sys.executable, "-m", "venv", "--clear", str(home)])
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        for line in _lines([*pip, *peer.requirements]):
            status.update(f"{peer.name}: {line[:100]}")


def _follow(argv: list[str]) -> None:
    for _ in _lines(argv):
        pass


def _lines(argv: list[str]) -> Iterator[str]:
    said: list[str] = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            said.append(line.strip())
            yield line.strip()
    if process.returncode:
        errors = [line for line in said if line.startswith("ERROR")] or said[-1:] or [f"exit code {process.returncode}"]
        raise NotInstalled(errors[-1])

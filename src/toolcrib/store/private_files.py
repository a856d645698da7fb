"""Files that only their owner may read, whatever the umask: a log tells what people did, and a key opens secrets."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

MODE = 0o600
OTHERS = 0o077


def state_folder() -> Path:
    """Return where the programs of a user keep what they know of each other."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "toolcrib"


def create_private(path: Path) -> BinaryIO:
    """Open a new file for writing, in place of whatever has its name."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE), "wb")


def make_private(path: Path) -> None:
    """Make sure that a file exists and belongs to its owner alone; whoever opens it next says what cannot be done."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE))


def restrict(path: Path) -> None:
    """Take the rights of others from a file that was made before, if it is one and ours."""
    with contextlib.suppress(OSError):
        if path.stat().st_mode & OTHERS:
            path.chmod(MODE)

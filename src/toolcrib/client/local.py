"""Servers of this machine that were started without keys: where they leave their token for the same user's programs."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from toolcrib.store.private_files import state_folder

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def start_token(url: str) -> str | None:
    """The start token of a server on this machine, if the same user started it and it still runs."""
    where = urlsplit(url)
    if where.hostname not in LOOPBACK:
        return None
    try:
        path = _path(where.port or 80)
        if path.stat().st_uid != os.getuid():
            return None
        published = json.loads(path.read_text("utf-8"))
        os.kill(int(published["pid"]), 0)  # the next who listens at this port may be anybody
        token = published["token"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return None
    return token if isinstance(token, str) else None


@contextlib.contextmanager
def published_token(port: int, token: str) -> Iterator[Path | None]:
    """Publish the token of the server at a port for programs of the same user while it runs; None if it cannot."""
    path: Path | None = None
    try:
        path = _path(port)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"pid": os.getpid(), "token": token}, file)
    except (OSError, RuntimeError):  # a machine without a home folder for us
        path = None
    try:
        yield path
    finally:
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()


def _path(port: int) -> Path:
    return state_folder() / f"serve-{port}.json"

"""Which folders a person trusts. A `crib.yaml` names modules and commands, and a folder may be anybody's: at a terminal
a person is asked once before it runs code, again when what it would run has changed, and for nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib import yaml
from toolcrib.cli.terminal import CommandError
from toolcrib.store.private_files import state_folder

TRUST = "TOOLCRIB_TRUST"
"""The variable that answers beforehand: 1 for yes, 0 for no."""

COMPLETES = "_TOOLCRIB_COMPLETE"
"""The variable by which a shell asks for completions: then nothing runs that nobody agreed to."""

KEYS = ("sources", "agents")
"""What of a `crib.yaml` runs code: modules that are imported, servers and commands that are started."""

MOST = 20
"""Answers that are kept of one folder, for branches that one goes back and forth between."""


def check(path: Path) -> None:
    """Return if the code that a `crib.yaml` names may run.

    Raises:
        CommandError: the person at the terminal does not trust it, or there is none and the setting is to refuse.
    """
    setting, asks = os.environ.get(TRUST, ""), _asks()
    if setting != "1":
        listed = list(_runs(path)) if setting == "0" or asks or COMPLETES in os.environ else []
        if not listed or is_trusted(path):
            return
        if not asks or setting == "0" or not _agreed(path, listed):
            advice = f"look at it, then say `toolcrib --trust ...`, or {TRUST}=1"
            raise CommandError(f"{path} is not trusted, and it would run code", advice, exit_code=1, code="denied")
    with contextlib.suppress(OSError, RuntimeError):  # a machine without a home folder for us
        remember(path)


def is_trusted(path: Path) -> bool:
    """True if a person agreed to what a file would run."""
    return _digest(path) in _known().get(_folder(path), [])


def remember(path: Path) -> None:
    """From now on what a file would run is trusted."""
    known, folder, digest = _known(), _folder(path), _digest(path)
    if digest in known.get(folder, []):
        return
    known[folder] = [*known.get(folder, []), digest][-MOST:]
    place = _place()
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=place.parent, prefix="trusted-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(known, file, indent=1)
    Path(made).replace(place)


@contextlib.contextmanager
def kept(path: Path) -> Iterator[None]:
    """Keeps a file trusted that a command of ours changes or makes, if it was or is new."""
    trusted = not path.exists() or is_trusted(path)
    yield
    if trusted and path.exists():
        with contextlib.suppress(OSError, RuntimeError):
            remember(path)


def _asks() -> bool:
    """True if there is a person to ask; a shell that completes a word is none."""
    return COMPLETES not in os.environ and all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)
    )


def _agreed(path: Path, listed: list[str]) -> bool:
    shown = "\n".join(f"  {line}" for line in listed[:MOST])
    print(f"{path.resolve()} was not used before. It would run:\n{shown}", file=sys.stderr)
    print("Run it, now and from now on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _runs(path: Path) -> Iterator[str]:
    """What a file would run, a line for each."""
    for key, value in _parts(path).items():
        for one in value if isinstance(value, list) else [value]:
            text = one if isinstance(one, str) else json.dumps(one, default=str)
            yield f"{key}: {ascii(text)[1:-1][:200]}"


def _parts(path: Path) -> dict[str, Any]:
    try:
        data = yaml.thaw(yaml.parse(yaml.decoded(path.read_bytes())[0]).value)
    except (OSError, UnicodeDecodeError, ValueError):  # whoever loads it says what is wrong
        return {}
    return {key: data[key] for key in KEYS if data.get(key)} if isinstance(data, dict) else {}


def _digest(path: Path) -> str:
    content = json.dumps(_parts(path), sort_keys=True, default=str)
    return hashlib.sha256(f"{path.name}\0{content}".encode()).hexdigest()


def _folder(path: Path) -> str:
    return str(path.resolve().parent)


def _place() -> Path:
    return state_folder() / "trusted.json"


def _known() -> dict[str, list[str]]:
    try:
        known = json.loads(_place().read_text("utf-8"))
    except (OSError, ValueError, RuntimeError):
        return {}
    return known if isinstance(known, dict) else {}

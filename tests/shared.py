"""Where the files lie that tests read, and the recordings that a reader may not have.

The cases written for Toolcrib lie in `tests/data`. Recordings of other people's definition files are not part of this
repository: they lie in `data/yaml-tools` of a folder beside it. Tests that need them are skipped where it is absent.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
RECORDINGS = Path(os.environ.get("TOOLCRIB_SHARED") or ROOT.parent / "shared") / "data" / "yaml-tools"

NO_RECORDINGS = "the recorded definition files are absent; TOOLCRIB_SHARED names the folder that holds data/yaml-tools"


def case_data(name: str) -> Any:
    """Read a file of `tests/data`: JSON, JSON lines as a list, anything else as text."""
    return _read(DATA / name)


def recorded(name: str) -> Any:
    """Read a recorded file, or skip the test where the recordings are absent."""
    require_recordings()
    return _read(RECORDINGS / name)


def require_recordings() -> None:
    """Skip the test where the recordings are absent."""
    if not RECORDINGS.is_dir():
        pytest.skip(NO_RECORDINGS)


def nonempty(values: Iterable[T]) -> list[T]:
    """Return the values as a list, or fail where there are none: a loop over nothing would prove nothing."""
    listed = list(values)
    assert listed, "there is nothing to check"
    return listed


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return nonempty(json.loads(text)) if text.lstrip().startswith("[") else json.loads(text)
    if path.suffix == ".jsonl":
        return nonempty(json.loads(line) for line in text.splitlines() if line.strip())
    return text

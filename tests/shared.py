"""Where the specification and its test data lie: a folder beside the checkout that a reader may not have."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TOOLCRIB_SHARED") or ROOT.parent / "shared")


def shared_data(name: str) -> Any:
    """Load `data/<name>` of the shared folder: JSON, JSON lines as a list, anything else as text; skip without it."""
    path = SHARED / "data" / name
    if not path.is_file():
        pytest.skip(f"shared data {name!r} is not here; point TOOLCRIB_SHARED at the folder that holds data/")
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return text

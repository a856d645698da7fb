"""What a person can do about an error of SQLite."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from toolcrib.errors import StoreError, StoreUnavailable


def explain(error: Exception, path: Path) -> Exception:
    """What a person can do about it, instead of SQLite's words alone."""
    if isinstance(error, sqlite3.Error):
        text = str(error)
        advice = {
            "full": "free some space; nothing was half-written",
            "locked": "another process holds it; try again",
            "malformed": "restore it from a backup",
            "readonly": "check its permissions",
        }
        hint = next((advice[word] for word in advice if word in text), "check the file and its folder")
        return StoreUnavailable(f"The store {path.name} cannot be used now: {text} ({hint})")
    if isinstance(error, (StoreError, msgspec.MsgspecError)):
        return error
    return StoreError(f"The store could not write: {type(error).__name__}: {error}")

"""Files by which an agent could get rid of its guard: to change them asks, whatever is granted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from toolcrib.guard.hook import escaped

HOOKS = (
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/hooks.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".cursor/hooks.json",
    ".github/hooks/**",
    ".copilot/hooks/**",
    ".opencode/plugin/**",
    ".opencode/plugins/**",
    ".config/opencode/plugin/**",
    ".config/opencode/plugins/**",
)
"""Where clients keep their hooks, below a project or a home folder."""


def with_protection(policy: Mapping[str, Any], crib: Path, store: str) -> dict[str, Any]:
    """Return a policy under which changes of the crib's own files, and of the hooks of clients, ask."""
    own = [escaped(str(crib)), escaped(str(crib.with_name(".env")))]
    if store.startswith("sqlite:///"):
        own.append(escaped(unquote(store.removeprefix("sqlite:///").partition("?")[0])) + "*")
    places = [*own, *(f"{folder}/{name}" for folder in ("${workspace}", "${home}") for name in HOOKS)]
    data = dict(policy)
    if "preset" not in data and "grants" not in data:
        data["preset"] = "developer"
    grants = dict(data.get("grants") or {})
    grants["ask"] = [*(grants.get("ask") or ()), *(f"fs:write:{place}" for place in places)]
    return data | {"grants": grants}

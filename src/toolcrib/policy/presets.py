"""Presets: starting points for what is granted, for how long a tool may run, and for how many calls a turn may hold."""

from __future__ import annotations

from typing import NamedTuple

from toolcrib.policy.grants import GrantTexts

_READ = "fs:read:${workspace}/**"
_SAFE = ("cat", "ls", "echo", "grep", "jq", "find", "head", "tail", "sort", "wc")


class Preset(NamedTuple):
    """Grants and limits under one name; None sets no limit of its own."""

    grants: GrantTexts
    max_runtime_s: float | None
    calls_per_turn: int | None


GUARDED = "guarded"
"""The preset that asks by where the values of an agent come from: the one of a policy that names none."""
DEVELOPER = "developer"
"""The same without that: the one of a policy that says by its `default` what happens to calls that no rule names."""

PRESETS: dict[str, Preset] = {
    "default": Preset(
        GrantTexts(allow=(_READ, "fs:write:${workspace}/artifacts/**", "exec:cmd:git"), ask=("payments:initiate",)),
        30,
        256,
    ),
    "anonymous": Preset(GrantTexts(allow=(_READ,), ask=("fs:write:**", "net:egress:*", "secrets:read:*")), 30, 5),
    "free": Preset(
        GrantTexts(
            allow=(_READ, "net:egress:*", *(f"exec:cmd:{name}" for name in _SAFE)),
            ask=("fs:write:**", "secrets:read:*"),
        ),
        30,
        15,
    ),
    "pro": Preset(GrantTexts(allow=("*",)), 60, 50),
    "enterprise": Preset(GrantTexts(allow=("*",)), 120, 200),
    GUARDED: Preset(GrantTexts(allow=(_READ,), ungranted="ask"), None, 64),
    DEVELOPER: Preset(GrantTexts(allow=(_READ,), ungranted="ask"), None, 64),
}

"""What a crib is made with, checked: a mistake is told where it is made, and not by the first call that meets it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

from toolcrib.context import Deps
from toolcrib.errors import BadTool, Refused
from toolcrib.policy import DataOrigin, DefaultPolicy, Policy
from toolcrib.sources.functions import needed_deps
from toolcrib.state import Key, Mode
from toolcrib.tool import Tool
from toolcrib.types import CribLimits

if TYPE_CHECKING:
    from toolcrib.policy.paths import Folders


def check_arguments(sources: Any, **arguments: Any) -> None:
    """Refuse arguments of a crib that are of another kind than they look like.

    Raises:
        TypeError: one of them is, with what to write instead.
    """
    if isinstance(sources, str | bytes) or not isinstance(sources, Iterable):
        shown = repr(sources) if isinstance(sources, str) else getattr(sources, "__name__", repr(sources))
        raise TypeError(f"sources: expected a list, such as Crib([{shown}])")
    limits, policy, retention = arguments["limits"], arguments["policy"], arguments["retention"]
    if limits is not None and not isinstance(limits, CribLimits):
        raise TypeError(f"limits: expected CribLimits(...), got {type(limits).__name__}")
    if policy is not None and not isinstance(policy, Mapping) and not isinstance(policy, Policy):
        hint = f"{{'preset': {policy!r}}}" if isinstance(policy, str) else "a mapping or a Policy"
        raise TypeError(f"policy: expected {hint}, got {type(policy).__name__}")
    if retention is not None and not isinstance(retention, timedelta):
        raise TypeError(f"retention: expected a timedelta, such as timedelta(days=7), got {retention!r}")
    if (archive := arguments["archive"]) is not None and (not isinstance(archive, str) or retention is None):
        wrong = "a retention time beside it: without one, nothing is archived" if isinstance(archive, str) else "a URL"
        raise TypeError(f"archive: expected {wrong}")
    if arguments["deps"] is not None and not isinstance(arguments["deps"], Mapping):
        raise TypeError("deps: expected a mapping, such as {'db': connection}")
    if arguments["agents"] is not None and not hasattr(arguments["agents"], "built_in"):
        raise TypeError("agents: expected Agents([...]) of toolcrib.agent")


def check_texts(**texts: Any) -> None:
    """Refuse a text where a list of texts is meant: its letters would be taken for names.

    Raises:
        TypeError: one of them is a text.
    """
    for name, value in texts.items():
        if isinstance(value, str):
            raise TypeError(f"{name}: expected a list, such as [{value!r}]")


def check_state_keys(keys: Mapping[str, Any]) -> None:
    """Refuse ways to change a key of the state that there are none of.

    Raises:
        TypeError: one of them is.
    """
    for name, key in keys.items():
        mode, lives = (key.mode, key.lives) if isinstance(key, Key) else (key, "session")
        if mode not in get_args(Mode) or lives not in ("session", "run"):
            known = ", ".join(get_args(Mode))
            raise TypeError(f"state_keys.{name}: expected one of {known}, or Key(mode, lives), got {key!r}")


def check_deps(tools: Iterable[Tool], deps: Deps) -> None:
    """Refuse tools that want something which the crib does not have.

    Raises:
        BadTool: a dependency is missing, or its type does not tell which is meant.
    """
    for tool in tools:
        for name, kind in needed_deps(tool).items():
            if name not in deps:
                try:
                    deps[kind]
                except Refused as error:
                    hint = f"{error.message}; write Crib(deps={{{name!r}: ...}}), or deps: of crib.yaml"
                    raise BadTool(tool.name, f"deps.{name}", hint, tool.source) from None


def policy_of(policy: Policy | Mapping[str, Any] | None, folders: Callable[[], Folders], origin: DataOrigin) -> Policy:
    """Return a policy as it was given, or as it is written in a file, or the default."""
    if policy is None:
        return DefaultPolicy(folders)
    if not isinstance(policy, Mapping):
        return policy
    from toolcrib.policy.loader import load

    return load(policy, folders=folders(), place=origin.below("policy"))

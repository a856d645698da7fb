"""Checks of what a crib is made with: a mistake is told where it is made, and not by the first call that meets it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from toolcrib.context import Deps
from toolcrib.errors import BadTool, Refused
from toolcrib.sources.functions import needed_deps
from toolcrib.tool import Tool
from toolcrib.types import CribLimits


def check_arguments(sources: Any, **given: Any) -> None:
    """Refuse arguments of a crib that are of another kind than they look like.

    Raises:
        TypeError: one of them is, with what to write instead.
    """
    if isinstance(sources, str | bytes) or not isinstance(sources, Iterable):
        shown = repr(sources) if isinstance(sources, str) else getattr(sources, "__name__", repr(sources))
        raise TypeError(f"sources: expected a list, such as Crib([{shown}])")
    limits, policy, retention = given["limits"], given["policy"], given["retention"]
    if limits is not None and not isinstance(limits, CribLimits):
        raise TypeError(f"limits: expected CribLimits(...), got {type(limits).__name__}")
    if policy is not None and not isinstance(policy, Mapping) and not hasattr(policy, "decide"):
        hint = f"{{'preset': {policy!r}}}" if isinstance(policy, str) else "a mapping or a Policy"
        raise TypeError(f"policy: expected {hint}, got {type(policy).__name__}")
    if retention is not None and not isinstance(retention, timedelta):
        raise TypeError(f"retention: expected a timedelta, such as timedelta(days=7), got {retention!r}")
    if given["deps"] is not None and not isinstance(given["deps"], Mapping):
        raise TypeError("deps: expected a mapping, such as {'db': connection}")
    if given["agents"] is not None and not hasattr(given["agents"], "built_in"):
        raise TypeError("agents: expected Agents([...]) of toolcrib.agent")


def check_texts(**given: Any) -> None:
    """Refuse a text where a list of texts is meant: its letters would be taken for names.

    Raises:
        TypeError: one of them is a text.
    """
    for name, value in given.items():
        if isinstance(value, str):
            raise TypeError(f"{name}: expected a list, such as [{value!r}]")


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

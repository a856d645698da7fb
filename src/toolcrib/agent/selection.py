"""Which tools an agent has: globs over ids, bare names or namespaces, and what is excluded."""

from __future__ import annotations

from functools import lru_cache

from toolcrib.policy import globs

ELSEWHERE = "conditions on arguments and regular expressions belong in policy rules, not in the selection of tools"


def problem(selector: str) -> str | None:
    """Why a text selects no tools; None where it does."""
    regular = len(selector) > 1 and selector.startswith("/") and selector.endswith("/")
    return f"{selector!r}: {ELSEWHERE}" if "(" in selector or regular else None


def selects(selector: str, tool: str) -> bool:
    """True if a selector means the tool of that id: by the id, by the name alone, or by its whole namespace."""
    fits = globs.text(selector)
    namespace, _, name = tool.partition(".")
    return fits(tool) or fits(name or tool) or (bool(name) and selector.lower() == namespace)


@lru_cache(65536)
def selected(tools: tuple[str, ...], exclude: tuple[str, ...], tool: str) -> bool:
    """True if a tool is among those that an agent has; what is excluded is not, whatever selects it."""
    return any(selects(one, tool) for one in tools) and not any(selects(one, tool) for one in exclude)

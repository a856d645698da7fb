"""`Toolkit`: the tools of one topic, as one source or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolcrib.sources import Fixed
from toolcrib.sources.functions import as_tool
from toolcrib.tool import Tool


class Toolkit(Fixed):
    """Tools that belong together: `Crib([kit])` takes all of them, `[*kit]` and `kit["name"]` give single ones.

    `close` lets go of what they hold, when a crib is stopped; they may be used again afterwards.
    """

    def __init__(self, name: str, tools: Iterable[Tool], close: Callable[[], None] | None = None) -> None:
        super().__init__(name, tools)
        self._close = close

    async def stop(self) -> None:
        """Lets go of what the tools hold."""
        if self._close is not None:
            self._close()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def __getitem__(self, name: str) -> Tool:
        for tool in self.tools:
            if tool.name == name:
                return tool
        raise KeyError(name)


FunctionEntry = tuple[Callable[..., Any], dict[str, Any]]
"""A function, and what is said of the tool that it becomes."""


def kit(namespace: str, functions: Iterable[FunctionEntry], close: Callable[[], None] | None = None) -> Toolkit:
    """The toolkit of a namespace."""
    return Toolkit(
        namespace,
        [as_tool(function, namespace=namespace, source=f"toolkit:{namespace}", **data) for function, data in functions],
        close,
    )

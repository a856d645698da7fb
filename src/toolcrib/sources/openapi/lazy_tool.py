"""`LazyTool`: a tool whose schemas are made when somebody first looks at them. A document may have thousands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import InitVar, dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

from toolcrib.errors import BadTool
from toolcrib.sources.openapi.schemas import without_patterns
from toolcrib.tool import Tool

log = logging.getLogger("toolcrib.openapi")
_LATE = ("input_schema", "output_schema", "parser", "parse", "primary", "fingerprint", "check_output", "hidden")


class ToolSchemas(NamedTuple):
    """What a tool takes and gives."""

    takes: dict[str, Any]
    gives: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class LazyTool(Tool):
    """A tool that is given `shapes` to make its schemas with; a copy of it has them made."""

    shapes: InitVar[Callable[[], ToolSchemas] | None] = None

    def __post_init__(self, shapes: Callable[[], ToolSchemas] | None) -> None:
        if shapes is None:
            super().__post_init__()
            return
        for name in _LATE:
            vars(self).pop(name, None)
        # What does not follow from schemas; whoever makes it says its effect.
        vars(self).update(id=f"{self.namespace}.{self.name}", does=self.effect, warnings=(), _shapes=shapes)

    def _said(self) -> dict[str, Any]:
        return {one.name: vars(self)[one.name] for one in fields(Tool) if one.init and one.name in vars(self)}

    @cached_property
    def whole(self) -> Tool:
        """The same with its schemas. Where a document does not hold there, it takes anything, and its body says why."""
        try:
            return self.made()
        except BadTool as error:
            log.warning("%s cannot be used: %s", self.id, error)
            return Tool(**self._said())

    def made(self) -> Tool:
        """The same with its schemas.

        Raises:
            BadTool: the document does not hold there.
        """
        return _made(self._said(), vars(self)["_shapes"]())


def _made(data: dict[str, Any], shapes: ToolSchemas) -> Tool:
    try:
        made: Tool = Tool(**data, input_schema=shapes.takes, output_schema=shapes.gives)
    except BadTool as error:
        if "regex" not in error.problem and "pattern" not in error.problem:
            raise
        log.info("%s: patterns are left out: %s", data["name"], error)
        gives = None if shapes.gives is None else without_patterns(shapes.gives)
        made = Tool(**data, input_schema=without_patterns(shapes.takes), output_schema=gives)
    return made


def _late(name: str) -> Any:
    made = cached_property(lambda tool: getattr(tool.whole, name))
    made.__set_name__(LazyTool, name)
    return made


for _name in _LATE:  # not in the body of the class, where they would be defaults of fields
    setattr(LazyTool, _name, _late(_name))

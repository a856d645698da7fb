"""Regular expressions of people who write rules: matched whole, in linear time, and checked when they are loaded.

The engine is that of Rust, which pydantic-core carries: it has neither look-around nor back-references, and no
expression can make it search for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from toolcrib.policy.errors import BadRule

_TOKEN = re.compile(r"\\.|\[\^?\]?[^\]]*\]|\{[^}]*\}|\(\?[^:)]*[:)]?|.", re.DOTALL)
_META = frozenset(".^$*+?()|")


@lru_cache(4096)
def whole(expression: str) -> Callable[[str], bool]:
    """Tell of a text whether all of it matches.

    Raises:
        BadRule: the expression is none.
    """
    if not expression:
        raise BadRule(expression, "the expression is empty", position=0)
    _compiled(expression)  # by itself, so that no parenthesis in it can close ours
    matches = _compiled(rf"\A(?:{expression})\z", expression)

    def match(text: str) -> bool:
        return matches(text if text.isascii() else text.encode("utf-8", "replace").decode())

    return match


def literal(expression: str) -> int:
    """How many characters of it stand for themselves."""
    return sum(map(_stands_for_itself, _TOKEN.findall(expression)))


def names_a_dot(expression: str) -> bool:
    """True if it writes a dot out, as one who means ids and not names does."""
    return "\\." in _TOKEN.findall(expression) or "[.]" in expression


def _stands_for_itself(token: str) -> bool:
    if len(token) == 1:
        return token not in _META
    return token[0] == "\\" and not token[1].isalnum()


def _compiled(expression: str, shown: str | None = None) -> Callable[[str], bool]:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        engine = SchemaValidator(core_schema.str_schema(pattern=expression, regex_engine="rust-regex", strict=True))
    except (SchemaError, UnicodeEncodeError) as error:
        lines = str(error).splitlines()
        problem = lines[-1].removeprefix("error: ").removeprefix("  SchemaError: ")
        at = next((line.index("^") - 4 for line in lines if line.strip() and not line.strip().strip("^")), None)
        raise BadRule(shown or expression, problem, position=None if shown or at is None else max(at, 0)) from None
    return engine.isinstance_python

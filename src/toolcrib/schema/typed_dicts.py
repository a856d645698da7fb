"""`typing.TypedDict` for pydantic, which before Python 3.12 reads only the one of typing_extensions."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Iterator
from typing import Any

import typing_extensions

HOOK = "__get_pydantic_core_schema__"


def adopt_typed_dicts(hint: Any, names: dict[str, Any]) -> None:
    """Teach pydantic every `typing.TypedDict` that a type reaches; `names` resolves what is written as text."""
    if sys.version_info >= (3, 12):
        return
    waiting, seen = [hint], set[int]()
    while waiting:
        kind = waiting.pop()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        waiting += _inside(kind, names)
        if typing.is_typeddict(kind) and type(kind).__module__ == "typing" and HOOK not in vars(kind):
            _adopt(kind, names)


def _inside(hint: Any, names: dict[str, Any]) -> Iterator[Any]:
    yield from typing_extensions.get_args(hint)
    is_class = isinstance(hint, type)
    is_tuple = is_class and issubclass(hint, tuple) and hasattr(hint, "_fields")
    if is_class and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or is_tuple):
        yield from _hints(hint, names).values()


def _hints(kind: Any, names: dict[str, Any]) -> dict[str, Any]:
    try:
        return typing_extensions.get_type_hints(kind, localns=names, include_extras=True)
    except (NameError, TypeError):
        return {}  # pydantic tells what is wrong with it


def _adopt(kind: Any, names: dict[str, Any]) -> None:
    make: Any = typing_extensions.TypedDict
    twin = make(kind.__name__, {name: _field(kind, name, hint) for name, hint in _hints(kind, names).items()})
    twin.__module__, twin.__qualname__ = kind.__module__, kind.__qualname__
    twin.__doc__ = kind.__doc__
    if hasattr(kind, "__pydantic_config__"):
        twin.__pydantic_config__ = kind.__pydantic_config__
    # pydantic's own hook for foreign types; values are plain dicts, so nobody can tell the twin from the original.
    setattr(kind, HOOK, classmethod(lambda cls, source, handler: handler.generate_schema(twin)))


def _field(kind: Any, name: str, hint: Any) -> Any:
    if typing_extensions.get_origin(hint) in (typing_extensions.Required, typing_extensions.NotRequired):
        return hint
    return typing_extensions.Required[hint] if name in kind.__required_keys__ else typing_extensions.NotRequired[hint]

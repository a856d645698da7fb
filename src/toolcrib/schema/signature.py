"""Functions: which parameters are arguments, of which types, and what the docstring says."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from pydantic.fields import FieldInfo

from toolcrib.schema.docstrings import read_docstring
from toolcrib.schema.parser import Parser
from toolcrib.schema.problems import SchemaError
from toolcrib.schema.typed_parser import arguments_parser

REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "a tool takes its arguments by name, so *{} cannot be filled",
    inspect.Parameter.VAR_KEYWORD: "a tool takes no unknown arguments, so **{} cannot be filled",
    inspect.Parameter.POSITIONAL_ONLY: "a tool takes its arguments by name, so '{}' cannot be positional-only",
}


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """What a function says about itself as a tool."""

    parser: Parser
    context_param: str | None
    dep_params: Mapping[str, Any]
    description: str


def function_parser(
    fn: Callable[..., Any], *, context_type: type, deps: Collection[str] = frozenset()
) -> FunctionSignature:
    """Read a function: its parameters but the context and `deps` are the arguments.

    Raises:
        SchemaError: a parameter cannot be an argument; the message names it.
    """
    documented = read_docstring(inspect.getdoc(_written(fn)) or inspect.getdoc(fn))
    reading = _SignatureReader(fn, context_type, deps)
    for parameter in reading.parameters():
        reading.take(parameter, documented.parameters.get(parameter.name))
    parser = arguments_parser(reading.fields, reading.names)
    return FunctionSignature(parser, reading.context, reading.deps, documented.description)


class _SignatureReader:
    """One walk over the parameters of a function."""

    def __init__(self, fn: Callable[..., Any], context_type: type, deps: Collection[str]) -> None:
        self.fn = fn
        self.context_type = context_type
        self.dep_names = frozenset(deps)
        self.globals, self.names = _namespaces(_written(fn), context_type)
        self.context: str | None = None
        self.deps: dict[str, Any] = {}
        self.fields: dict[str, Any] = {}

    def parameters(self) -> Iterable[inspect.Parameter]:
        try:
            return inspect.signature(self.fn).parameters.values()
        except (ValueError, TypeError, NameError) as error:
            raise SchemaError(f"the signature cannot be read: {error}") from None

    def take(self, parameter: inspect.Parameter, description: str | None) -> None:
        name = parameter.name
        if parameter.kind in REFUSED:
            raise SchemaError(f"parameter '{name}': {REFUSED[parameter.kind].format(name)}")
        hint = self._hint(parameter)
        if _is_context(hint, self.context_type):
            if self.context is not None:
                raise SchemaError(f"parameter '{name}': '{self.context}' is the context already")
            self.context = name
        elif name in self.dep_names:
            self.deps[name] = hint
        else:
            self.fields[name] = _field(hint, parameter.default, description)

    def _hint(self, parameter: inspect.Parameter) -> Any:
        if parameter.annotation is parameter.empty:
            return Any
        carrier = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        try:
            return typing.get_type_hints(carrier, self.globals, self.names, include_extras=True)[parameter.name]
        except Exception as error:  # noqa: BLE001 - an annotation is code, and may raise anything
            raise SchemaError(f"parameter '{parameter.name}': its annotation cannot be read: {error}") from None


def _written(fn: Any) -> Any:
    """Find the function that was written: behind wrappers, partial application and `__call__`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = inspect.unwrap(fn)
    return fn if hasattr(fn, "__code__") or isinstance(fn, type) else type(fn).__call__


def _namespaces(fn: Any, context_type: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the globals and locals in which the annotations of a function were written."""
    # The context may be imported for type checkers alone.
    names = {context_type.__name__: context_type, **getattr(fn, "__globals__", {})}
    return names, _locals_around(getattr(fn, "__code__", None))


def _locals_around(code: types.CodeType | None) -> dict[str, Any]:
    """Give the local names of the function that is just defining this one, for annotations that are texts."""
    frame: types.FrameType | None = sys._getframe()
    while code is not None and frame is not None:
        if code in frame.f_code.co_consts:
            return dict(frame.f_locals) if frame.f_locals is not frame.f_globals else {}
        frame = frame.f_back
    return {}


def _is_context(hint: Any, context_type: type) -> bool:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _is_context(typing.get_args(hint)[0], context_type)
    if origin in (typing.Union, types.UnionType):
        return any(_is_context(option, context_type) for option in typing.get_args(hint))
    kind = origin or hint
    return isinstance(kind, type) and issubclass(kind, context_type)


def _field(hint: Any, default: Any, description: str | None) -> Any:
    """Write a parameter as one annotated type; what stands later in it wins."""
    base, *metadata = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
    texts = [text for text in map(_as_text, metadata) if text is not None]
    notes: list[Any] = [note for note in metadata if _as_text(note) is None]
    if texts or description:
        notes.insert(0, Field(description="\n".join(texts) or description))
    if isinstance(default, FieldInfo):
        notes.append(default)
    elif default is not inspect.Parameter.empty:
        notes.append(Field(default=default))
    return Annotated[base, *notes] if notes else base


def _as_text(note: Any) -> str | None:
    """Read a bare text, or the `Doc` of PEP 727, as a description."""
    text = note if isinstance(note, str) else getattr(note, "documentation", None)
    return text if isinstance(text, str) else None

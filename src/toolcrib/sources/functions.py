"""Python functions and classes as tools."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack, overload

from toolcrib.context import Context
from toolcrib.errors import BadTool
from toolcrib.keywords import ToolKeywords
from toolcrib.schema import SchemaError, nearest
from toolcrib.tool import Body, Mode, Tool
from toolcrib.types import Annotations, AntiPattern, Example, Knowledge, Limits

_ANNOTATIONS = ("read_only", "destructive", "idempotent", "open_world", "requires_confirmation")
_LIMITS = {"timeout": "timeout_s", "output_bytes": "output_bytes", "concurrency": "concurrency"}
_LIMITS |= {"wait_s": "wait_s", "repeat": "repeat", "idle_timeout": "idle_timeout", "rate": "rate"}


_SHORT = (*_ANNOTATIONS, *_LIMITS, "examples", "anti_patterns", "deps")


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**fields: Unpack[ToolKeywords]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **fields: Any) -> Any:
    """Makes a tool of a function: name and description from it, the schema from its signature.

    Fields are those of `Tool`, and short for its parts: `read_only`, `destructive`, `idempotent`, `open_world`,
    `requires_confirmation`; `timeout`, `output_bytes`, `concurrency`, `wait_s`, `repeat`, `idle_timeout`, `rate`;
    `examples`, `anti_patterns`; `deps`, the names of parameters that the crib fills in.

    Raises:
        BadTool: something about it does not hold, naming tool and field.
    """
    if function is not None:
        return as_tool(function, **fields)
    return functools.partial(as_tool, **fields)


def as_tool(function: Any, **fields: Any) -> Tool:
    """The same, as a plain function."""
    if isinstance(function, Tool):
        return function
    if inspect.isclass(function):
        return _class_tool(function, fields)
    _check_function(function, fields)
    from toolcrib.schema import function_parser  # all of pydantic, which a program without typed tools never loads

    name = fields.pop("name", None) or getattr(function, "__name__", "")
    deps = fields.pop("deps", ())
    if isinstance(deps, str):
        raise BadTool(name, "deps", f"is a list such as [{deps!r}]", _where(function))
    try:
        signature = function_parser(function, context_type=Context, deps=tuple(deps))
    except SchemaError as error:
        raise BadTool(name, "arguments", str(error), _where(function)) from None
    for one in deps:
        if one not in signature.dep_params:
            raise BadTool(name, "deps", _no_parameter(function, str(one)), _where(function))
    mode = _mode(function, fields.get("isolate", False), name)
    if mode == "process" and signature.dep_params:
        raise BadTool(name, "deps", "cannot be handed to a process of its own; make them inside the function")
    options = {
        "name": name,
        "description": signature.description,
        "input_schema": signature.parser.schema,
        "parser": signature.parser,
        "mode": mode,
        "run": _body(function, signature.context_param, signature.dep_params),
        "context": signature.context_param is not None or bool(signature.dep_params) or mode == "process",
        "source": _where(function),
        "target": f"{function.__module__}:{function.__qualname__}",
        "function": function,
    }
    return _made({**options, **fields})


def _check_function(function: Any, fields: Mapping[str, Any]) -> None:
    """Refuses what is no function, or one that nobody could call by its arguments alone."""
    name = str(fields.get("name") or getattr(function, "__name__", "") or type(function).__name__)
    if isinstance(function, functools.partial):
        fixed = ", ".join(f"{key!r}: ..." for key in function.keywords) or "'name': value"
        raise BadTool(name, "function", f"a partial has no name of its own; write tool(...).but(fixed={{{fixed}}})")
    if not callable(function):
        raise BadTool(name, "function", f"{function!r} is no function")
    if not hasattr(function, "__qualname__"):
        raise BadTool(name, "function", f"{type(function).__name__} is no function; give one of its methods")
    if isinstance(function, staticmethod | classmethod):
        raise BadTool(name, "function", "put @tool below @staticmethod, and make tools of bound class methods")
    first = next(iter(getattr(function, "__code__", _NO_CODE).co_varnames[:1]), "")
    inside = function.__qualname__.rpartition(".")[0]
    if first in ("self", "cls") and inside and not inside.endswith("<locals>") and not inspect.ismethod(function):
        owner = inside.rpartition(".")[2]
        raise BadTool(name, "function", f"is a method without its object: write tool({owner}(...).{name})")


def _no_parameter(function: Callable[..., Any], name: str) -> str:
    close = nearest(name, inspect.signature(function).parameters, 1)
    return f"the function has no parameter '{name}'" + (f", did you mean '{close[0]}'?" if close else "")


def _no_code() -> None:
    """A function without parameters."""


_NO_CODE = _no_code.__code__


def _where(function: Callable[..., Any]) -> str:
    return getattr(function, "__module__", None) or "functions"


def _mode(function: Callable[..., Any], isolate: bool, name: str) -> Mode:
    if isolate:
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise BadTool(name, "isolate", "is for plain functions; an async function can be stopped without it")
        if "<locals>" in function.__qualname__:
            raise BadTool(name, "isolate", "needs a function at the top of a module, so that its process can import it")
        return "process"
    if inspect.isasyncgenfunction(function):
        return "stream"
    if inspect.isgeneratorfunction(function):
        return "thread_stream"
    return "async" if inspect.iscoroutinefunction(function) else "thread"


def _body(function: Callable[..., Any], context_param: str | None, deps: Mapping[str, Any]) -> Body:
    """How the pipeline calls it; the plain case stays plain, since it is run most."""
    if deps:

        def with_deps(context: Any, values: Mapping[str, Any]) -> Any:
            filled = {name: context.deps[name if name in context.deps else kind] for name, kind in deps.items()}
            return function(**values, **filled, **({context_param: context} if context_param else {}))

        with_deps.deps = dict(deps)  # type: ignore[attr-defined]  # for whoever has to give them: see `needed_deps`
        return with_deps
    if context_param is None:

        def plain(context: Any, values: Mapping[str, Any]) -> Any:
            return function(**values)

        plain.direct = function  # type: ignore[attr-defined]  # see `Tool.direct`
        return plain
    name: str = context_param
    return lambda context, values: function(**{name: context}, **values)


def _made(data: dict[str, Any]) -> Tool:
    """Takes the short fields together and makes the tool."""
    for name in data:
        if name not in Tool.__dataclass_fields__ and name not in _SHORT:
            close = nearest(name, [*_SHORT, *Tool.__dataclass_fields__], 1)
            raise BadTool(data["name"], name, "unknown field" + (f", did you mean '{close[0]}'?" if close else ""))
    annotations = {name: data.pop(name) for name in _ANNOTATIONS if name in data}
    for flag, effect in (("read_only", "once"), ("destructive", "read")):
        if annotations.get(flag) and data.get("effect") == effect:
            problem = f"{flag} and effect {effect!r} exclude each other"
            raise BadTool(data["name"], "effect", problem, data.get("source"))
    if annotations:
        data["annotations"] = Annotations(**annotations)
    bounds = {full: data.pop(short) for short, full in _LIMITS.items() if short in data}
    if bounds:
        data["limits"] = _limits(data, bounds)
    examples, wrong = data.pop("examples", ()), data.pop("anti_patterns", ())
    if examples or wrong:
        data["knowledge"] = Knowledge(tuple(_examples(examples)), tuple(_anti_patterns(wrong)))
    if not isinstance(data.get("output_schema"), Mapping | None):
        data["output_schema"] = _output_schema(data)
    _take_lists(data)
    check = data.get("validate")
    if check is not None:
        data["validate"] = _check(check, data)
    made: Tool = Tool(**data)
    _check_capabilities(made)
    return made


def _take_lists(data: dict[str, Any]) -> None:
    """Lists as tuples; the letters of a text are none."""
    for name in ("tags", "capabilities"):
        if isinstance(data.get(name), str):
            raise BadTool(data["name"], name, f"is a list such as [{data[name]!r}]", data.get("source"))
        if name in data:
            data[name] = tuple(data[name])


def _check_capabilities(made: Tool) -> None:
    """Refuses what a tool needs where it cannot be read, or names an argument that the tool does not have."""
    if made.capabilities:
        from toolcrib.policy.capabilities import kinds_of
        from toolcrib.policy.errors import BadRule

        try:
            kinds_of(made.capabilities, made.input_schema)
        except BadRule as error:
            raise BadTool(made.name, "capabilities", f"{error.what}: {error.problem}", made.source) from None


def needed_deps(made: Tool) -> Mapping[str, Any]:
    """The dependencies that a tool wants of its crib, each with its type."""
    deps: Mapping[str, Any] = getattr(made.run, "deps", {})
    return deps


def takes_context(made: Tool) -> bool:
    """True if the function of a tool has a parameter for the context, by which it gets at everything."""
    hints = getattr(made.function, "__annotations__", {})
    return any(hint is Context or (isinstance(hint, str) and "Context" in hint) for hint in hints.values())


def _limits(data: Mapping[str, Any], bounds: Mapping[str, Any]) -> Limits:
    try:
        return Limits(**bounds)
    except ValueError as error:
        name, _, problem = str(error).partition(": ")
        raise BadTool(data["name"], name, problem, data.get("source")) from None


def _output_schema(data: Mapping[str, Any]) -> dict[str, Any]:
    from toolcrib.schema import schema_of

    try:
        return schema_of(data["output_schema"], mode="serialization")
    except SchemaError as error:
        raise BadTool(data["name"], "output_schema", str(error), data.get("source")) from None


def _examples(examples: Iterable[Any]) -> Iterable[Example]:
    return (example if isinstance(example, Example) else Example(example) for example in examples)


def _anti_patterns(patterns: Iterable[Any]) -> Iterable[AntiPattern]:
    return (one if isinstance(one, AntiPattern) else AntiPattern(*one) for one in patterns)


def _check(check: Callable[..., Any], data: Mapping[str, Any]) -> Callable[[Any, Mapping[str, Any]], Any]:
    """A business check takes the arguments by name, and the context where it asks for one."""
    if not callable(check):
        raise BadTool(data["name"], "validate", f"{check!r} is no function", data.get("source"))
    parameters = inspect.signature(check).parameters
    context = next(
        (name for name, p in parameters.items() if p.annotation in (Context, "Context") or name == "ctx"), None
    )
    everything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def checked(ctx: Any, values: Mapping[str, Any]) -> Any:
        passed = {name: value for name, value in values.items() if everything or name in parameters}
        return check(**passed, **({context: ctx} if context else {}))

    return checked


def _class_tool(cls: type, fields: dict[str, Any]) -> Tool:
    """A class with `Args`, a `run` method and, if it likes, `validate` and `reconcile` methods."""
    from toolcrib.schema.typed_parser import WHOLE, type_parser

    made = cls()
    name = fields.pop("name", None) or getattr(cls, "name", cls.__name__)
    arguments = getattr(cls, "Args", None)
    run = getattr(made, "run", None)
    if arguments is None or run is None:
        raise BadTool(
            name, "class", "needs a class `Args` (model, dataclass or TypedDict) and a method `run(self, ctx, args)`"
        )
    try:
        parser = type_parser(arguments)
    except SchemaError as error:
        raise BadTool(name, "Args", str(error), _where(cls)) from None
    check, reconcile = getattr(made, "validate", None), getattr(made, "reconcile", None)
    data: dict[str, Any] = {
        "name": name,
        "description": inspect.getdoc(cls) or "",
        "input_schema": parser.schema,
        "parser": parser,
        "mode": _mode(run, fields.get("isolate", False), name),
        "run": lambda context, values: run(context, values[WHOLE]),
        "source": _where(cls),
        "target": f"{cls.__module__}:{cls.__qualname__}",
        "reconcile": reconcile and (lambda context, **values: reconcile(context, values[WHOLE])),
    }
    for field in (*_ANNOTATIONS, *_LIMITS, "namespace", "effect", "capabilities", "output_schema"):
        if hasattr(cls, field):
            data[field] = getattr(cls, field)
    tool = _made({**data, **fields})
    if check is not None:
        object.__setattr__(tool, "validate", lambda context, values: check(context, values[WHOLE]))
    return tool

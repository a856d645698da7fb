"""`Tool`: a frozen description, checked when it is made, and how to run it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal

import msgspec

from toolcrib.errors import BadTool
from toolcrib.origins.labels import problem_of
from toolcrib.origins.roles import ROLES, unknown
from toolcrib.schema import ParsedArguments, Parser, SchemaError, nearest, output_check, schema_parser
from toolcrib.schema.parser import LateParser
from toolcrib.schema.redaction import SecretFields, holds_secrets, may_hold_keys
from toolcrib.schema.validator import plain_schema
from toolcrib.types import Annotations, Effect, Knowledge, Limits, Wake

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
DEEPEST_DEFAULT = 20
EMPTY_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}}

Body = Callable[[Any, Mapping[str, Any]], Any]
"""How a tool runs: `(context, values)` to what its `mode` says."""

Mode = Literal["async", "thread", "process", "stream", "thread_stream"]
"""A body gives an awaitable, a value made in a thread or process, an async generator, or a generator."""


class _Checked(type):
    """Turns an unknown field into an error that names it, as every other bad field does."""

    def __call__(cls, **fields: Any) -> Any:
        for name in fields:
            if name not in cls.__dict__["__dataclass_fields__"]:
                close = nearest(name, list(cls.__dict__["__dataclass_fields__"]), 1)
                raise BadTool(
                    str(fields.get("name", "?")),
                    name,
                    "unknown field" + (f", did you mean '{close[0]}'?" if close else ""),
                    fields.get("source"),
                )
        if "name" not in fields:
            raise BadTool("?", "name", "is required", fields.get("source"))
        return super().__call__(**fields)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(metaclass=_Checked):
    """What a tool is; one without a `run` is run by the client.

    A tool that was made of a function is still that function: `tool(...)` calls it.

    `prepare` shapes the arguments before they are checked, `validate` checks what fits the schema. `renew` gives the
    tool of now, where its source can tell at once. `resumes` says that it does nothing but calls and recorded steps, so
    that it goes on after a crash whatever its effect. `vouched` says that the operator knows what its annotations say,
    `changed` what is new about a tool of a stranger since it was accepted. `upstream` is the server that runs it: calls
    of a session to one server take places of their own. `owners` are those whose sessions alone have it.
    """

    name: str
    description: str = ""
    namespace: str = "default"
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    input_schema: Mapping[str, Any] = field(default_factory=lambda: dict(EMPTY_SCHEMA))
    output_schema: Mapping[str, Any] | None = None
    annotations: Annotations | None = None
    capabilities: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    effect: Effect | None = None
    primary: str | None = None
    limits: Limits = Limits()
    serial: bool = False
    isolate: bool = False
    background: bool = False
    wake: Wake = "next_turn"
    deliver: Literal["final", "all"] = "final"
    knowledge: Knowledge = Knowledge()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    run: Body | None = None
    function: Callable[..., Any] | None = None
    mode: Mode = "async"
    prepare: Callable[[Any, Mapping[str, Any]], Awaitable[Mapping[str, Any]]] | None = None
    validate: Callable[..., Any] | None = None
    renew: Callable[[], Tool | None] | None = None
    resumes: bool = False
    reconcile: Callable[..., Any] | None = None
    on_conflict: Literal["fail", "retry"] = "fail"
    context: bool = True
    target: str | None = None
    upstream: str | None = None
    owners: frozenset[str] | None = None
    source: str = "functions"
    trusted: bool = True
    vouched: bool = False
    changed: tuple[str, ...] = ()
    parser: Parser | None = None

    id: str = field(init=False)
    does: Effect = field(init=False)
    fingerprint: str = field(init=False)
    warnings: tuple[str, ...] = field(init=False, default=())
    parse: Callable[[bytes], Any] = field(init=False)
    exact: Callable[..., dict[str, Any]] | None = field(init=False, default=None)
    check_output: Callable[[Any], str | None] | None = field(init=False, default=None)
    hidden: SecretFields | None = field(init=False, default=None)
    keyed: bool = field(init=False, default=False)
    direct: Callable[..., Any] | None = field(init=False, default=None)
    """The coroutine function behind `run` that takes the arguments alone, where nothing else has to be done."""

    def __post_init__(self) -> None:
        derived = _Derived(self)
        for name in (
            "namespace",
            "id",
            "does",
            "primary",
            "warnings",
            "parser",
            "fingerprint",
            "check_output",
            "hidden",
            "keyed",
            "input_schema",
            "output_schema",
        ):
            object.__setattr__(self, name, getattr(derived, name))
        object.__setattr__(self, "parse", derived.parser.parse)
        object.__setattr__(self, "exact", derived.parser.exact)
        if self.mode == "async" and self.limits.idle_timeout is None:
            object.__setattr__(self, "direct", getattr(self.run, "direct", None))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function that the tool was made of, as if it were no tool: nothing is checked or recorded.

        Raises:
            TypeError: it was made of something else.
        """
        if self.function is None:
            raise TypeError(f"{self.id} is no function: call it by `await session.call({self.id!r}, {{...}})`")
        return self.function(*args, **kwargs)

    def but(self, *, fixed: Mapping[str, Any] | None = None, **changes: Any) -> Tool:
        """The same tool under another name or description, with tighter limits, or with arguments fixed and hidden.

        It is a tool of its own, checked again, and names its original in `metadata`.

        Raises:
            BadTool: something about the new one does not hold.
        """
        if "input_schema" in changes:
            raise BadTool(self.name, "input_schema", "a wrapper keeps it; fix arguments instead", self.source)
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        values["effect"] = self.does
        values["metadata"] = {**self.metadata, **changes.pop("metadata", {}), "original": self.id}
        if fixed:
            values.update(_fixed(self, fixed))
            values["function"] = None if self.function is None else partial(self.function, **fixed)
        made: Tool = Tool(**{**values, **changes})
        object.__setattr__(made, "hidden", self.hidden)  # a fixed secret stays one
        object.__setattr__(made, "keyed", self.keyed)
        return made


def _fixed(tool: Tool, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a tool some of whose arguments nobody gives any more."""
    properties = dict(tool.input_schema.get("properties", {}))
    for name in fixed:
        if name not in properties:
            raise BadTool(tool.name, f"fixed.{name}", "there is no such argument", tool.source)
        del properties[name]
    required = [name for name in tool.input_schema.get("required", ()) if name not in fixed]
    shown = fixed if tool.hidden is None else tool.hidden.part(dict(fixed))[0]
    mark = hashlib.sha256(canonical(shown)).hexdigest()  # other values make another tool: see `fingerprint`
    schema = {**tool.input_schema, "properties": properties, "required": required, "x-toolcrib-fixed": mark}
    assert tool.parser is not None
    primary = None if tool.primary in fixed else tool.primary
    return {"input_schema": schema, "parser": _FixedArguments(schema, fixed, tool.parser), "primary": primary}


class _FixedArguments(Parser):
    """Adds the fixed arguments to a call: what is checked, logged and approved is what runs."""

    __slots__ = ("_fixed", "_inner", "_outer")

    def __init__(self, schema: Mapping[str, Any], fixed: Mapping[str, Any], inner: Parser) -> None:
        self._outer, self._fixed, self._inner = schema_parser(schema), dict(fixed), inner
        super().__init__(self._outer.rules)

    def parse(self, raw: bytes) -> ParsedArguments:
        """Parse the JSON text of a call, with or without what is fixed."""
        arguments = self._outer.parse(self._without_fixed(raw)).values
        return self._inner.parse(msgspec.json.encode({**arguments, **self._fixed}))

    def _without_fixed(self, raw: bytes) -> bytes:
        """An approver and the log show the whole arguments, so those are taken too."""
        try:
            whole = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return raw
        if not isinstance(whole, dict) or not whole.keys() & self._fixed.keys():
            return raw
        return msgspec.json.encode(
            {name: value for name, value in whole.items() if name not in self._fixed or value != self._fixed[name]}
        )

    def normalised(self, parsed: ParsedArguments) -> dict[str, Any]:
        """Give all arguments as plain JSON data, the fixed ones too."""
        return self._inner.normalised(parsed)


class _Derived:
    """Checks the fields of a tool and works out the ones that follow from others."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.warnings: tuple[str, ...] = ()
        self._texts()
        self.namespace = tool.namespace.strip().lower()
        self._names()
        self.id = f"{self.namespace}.{tool.name}"
        self.input_schema = self._schema("input_schema", tool.input_schema)
        self._flow()
        self.output_schema = None if tool.output_schema is None else self._schema("output_schema", tool.output_schema)
        self.parser = self._parser()
        self.check_output = self._output()
        self.does = self._effect()
        self.primary = tool.primary or _primary(tool.input_schema)
        self._check_primary()
        self._check_defaults()
        self.fingerprint = _fingerprint(self.id, tool, self.input_schema, self.output_schema)
        self.hidden = SecretFields(self.input_schema) if holds_secrets(self.input_schema, self.input_schema) else None
        self.keyed = may_hold_keys(self.input_schema, self.input_schema)

    def _bad(self, name: str, problem: str) -> BadTool:
        return BadTool(self.tool.name, name, problem, self.tool.source)

    def _texts(self) -> None:
        for name in ("name", "namespace", "description"):
            if not isinstance(getattr(self.tool, name), str):
                raise self._bad(name, f"{getattr(self.tool, name)!r} is no text")

    def _schema(self, name: str, value: Any) -> dict[str, Any]:
        """A copy of its own, so that nobody changes a tool that was checked."""
        try:
            return plain_schema(value)
        except SchemaError as error:
            raise self._bad(name, str(error)) from None

    def _names(self) -> None:
        tool = self.tool
        if not NAME.fullmatch(tool.name):
            raise self._bad("name", f"{tool.name!r} must match {NAME.pattern}")
        if not NAMESPACE.fullmatch(self.namespace):
            raise self._bad("namespace", f"{tool.namespace!r} must match {NAMESPACE.pattern}")
        if not tool.description.strip():
            raise self._bad("description", "is blank; say in one sentence what the tool does (a docstring will do)")
        if tool.effect not in (None, "read", "idempotent", "once"):
            raise self._bad("effect", f"{tool.effect!r} is not read, idempotent or once")
        if tool.wake not in ("wake", "next_turn", "silent"):
            raise self._bad("wake", f"{tool.wake!r} is not wake, next_turn or silent")
        if tool.deliver not in ("final", "all"):
            raise self._bad("deliver", f"{tool.deliver!r} is not final or all")
        for name, value in (("run", tool.run), ("reconcile", tool.reconcile)):
            if value is not None and not callable(value):
                raise self._bad(name, f"is a function, not {value!r}")
        if not isinstance(tool.limits, Limits):
            raise self._bad("limits", f"is Limits(...), not {type(tool.limits).__name__}")

    def _flow(self) -> None:
        """Labels and roles that nobody knows would let values pass as something that they are not."""
        problem = problem_of(self.tool.labels)
        if problem is not None:
            raise self._bad("labels", problem)
        for role in unknown(self.input_schema):
            raise self._bad("x-toolcrib-role", f"{role!r} is none of {', '.join(ROLES)}")

    def _parser(self) -> Parser:
        if self.tool.parser is not None:
            return self.tool.parser
        try:
            return schema_parser(self.input_schema)
        except SchemaError as error:
            raise self._bad("input_schema", str(error)) from None

    def _check_defaults(self) -> None:
        """A default that its own schema rules out would be refused by whoever gives it, and runs where nobody does."""
        for path, schema in _with_default(self.input_schema):
            problem = _default_problem(schema)
            if problem is not None and self.tool.trusted:
                raise self._bad(f"input_schema.{path}", f"the default {schema['default']!r} {problem}")
            if problem is not None:
                self.warnings += (f"{self.id}: the default of {path} {problem}",)

    def _check_primary(self) -> None:
        """A primary argument that does not exist would make every rule about it hold of nothing."""
        known = self.input_schema.get("properties") or {}
        if self.tool.trusted and self.tool.primary is not None and known and self.tool.primary not in known:
            close = nearest(self.tool.primary, known, 1)
            meant = f", did you mean '{close[0]}'?" if close else ""
            raise self._bad("primary", f"there is no argument {self.tool.primary!r}{meant}")

    def _output(self) -> Callable[[Any], str | None] | None:
        if self.output_schema is None:
            return None
        try:
            return output_check(self.output_schema, late=isinstance(self.parser, LateParser))
        except SchemaError as error:
            raise self._bad("output_schema", str(error)) from None

    def _effect(self) -> Effect:
        annotations = self.tool.annotations or Annotations()
        if annotations.read_only and annotations.destructive:
            if self.tool.trusted:
                raise self._bad("annotations", "read_only and destructive exclude each other")
            self.warnings += (f"{self.id} says read_only and destructive; it is taken as destructive",)
            annotations = replace(annotations, read_only=False)
            object.__setattr__(self.tool, "annotations", annotations)
        if self.tool.effect is not None:
            return self.tool.effect
        return "read" if annotations.read_only else "idempotent" if annotations.idempotent else "once"


_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def _with_default(schema: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each schema with a default and its path: defaults are filled in at any depth."""
    if not isinstance(schema, Mapping) or depth > DEEPEST_DEFAULT:
        return
    if "default" in schema and path:
        yield path, schema
    for key in ("properties", "$defs", "definitions"):
        inner = schema.get(key)
        for name, one in inner.items() if isinstance(inner, Mapping) else ():
            yield from _with_default(one, f"{path}.{name}" if path else str(name), depth + 1)
    for key in ("items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf"):
        inner = schema.get(key)
        for one in inner if isinstance(inner, list | tuple) else (inner,):
            yield from _with_default(one, f"{path}.{key}" if path else key, depth + 1)


def _default_problem(schema: Mapping[str, Any]) -> str | None:
    """Why a default does not fit its schema, or None; what refers to other schemas is not followed."""
    if "$ref" in schema:
        return None
    if "type" in schema or "enum" in schema:
        kinds = schema.get("type", [])
        return _misfit(schema["default"], kinds if isinstance(kinds, list) else [kinds], schema)
    branches = schema.get("anyOf")
    if not isinstance(branches, list) or not branches or any(not _plain(one) for one in branches):
        return None
    problems = [_default_problem({**one, "default": schema["default"]}) for one in branches]
    return None if None in problems else problems[0]


def _plain(schema: Any) -> bool:
    return isinstance(schema, Mapping) and "$ref" not in schema and schema.get("type") is not None


def _misfit(value: Any, kinds: list[Any], schema: Mapping[str, Any]) -> str | None:
    """Why a value is none that a simple schema takes; None where it is, or where that is not simple."""
    known = [_KINDS[kind] for kind in kinds if isinstance(kind, str) and kind in _KINDS]
    flag = isinstance(value, bool)
    fits = any(isinstance(value, kind) and (not flag or kind == (bool,)) for kind in known)
    if known and not fits and not (isinstance(value, float) and value.is_integer() and "integer" in kinds):
        return f"is no {' or '.join(map(str, kinds))}"
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        return f"is none of {', '.join(map(repr, schema['enum']))}"
    least, most = schema.get("minimum"), schema.get("maximum")
    number = isinstance(value, int | float) and not flag
    if number and ((least is not None and value < least) or (most is not None and value > most)):
        return "is out of its range"
    return None


def _primary(schema: Mapping[str, Any]) -> str | None:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = set(schema.get("required", ()))
    for name, what in properties.items():
        if name in required and isinstance(what, Mapping) and what.get("type") == "string":
            return str(name)
    return next(iter(properties)) if len(properties) == 1 else None


def name_of(tool: Any) -> str:
    """The name by which something that is no text is called: that of a `Tool` is its id."""
    return tool.id if isinstance(tool, Tool) else str(tool)


def canonical(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no blanks, UTF-8."""
    return msgspec.json.encode(value, order="deterministic")


def digest_of(value: Any) -> str:
    """A digest that is the same for the same JSON."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _fingerprint(tool_id: str, tool: Tool, takes: Mapping[str, Any], gives: Mapping[str, Any] | None) -> str:
    annotations = tool.annotations or Annotations()
    what = {
        "id": tool_id,
        "description": tool.description,
        "input_schema": takes,
        "output_schema": gives,
        "annotations": {f.name: getattr(annotations, f.name) for f in fields(Annotations)},
        "capabilities": list(tool.capabilities),
    }
    return digest_of(what)

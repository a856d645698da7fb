"""Writes what is generated from the types of events and of the API; `make generate` runs it.

- `docs/reference/events.md`, the reference of all kinds with their fields
- `console/src/events.ts`, the same as types of TypeScript
- `console/src/forms.ts`, what the API takes and gives, as types of TypeScript
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from toolcrib import events
from toolcrib.events.schema import meanings, schemas
from toolcrib.serve.api.openapi import document
from toolcrib.serve.api.routes import ROUTES

ROOT = Path(__file__).parents[2]
FLAT = ("Notice", "ErrorNotice", "UserState")
VALUES = (
    events.CallerRecord,
    events.VerdictRecord,
    events.DemandRecord,
    events.QuestionRecord,
    events.StateRecord,
    events.StepFailure,
    events.CallRequestRecord,
    events.ModelRequestRecord,
    events.PassedHistory,
)


def files() -> dict[Path, str]:
    """All that is generated, by where it belongs."""
    return {
        ROOT / "docs/reference/events.md": reference(),
        ROOT / "console/src/events.ts": typescript(),
        ROOT / "console/src/forms.ts": forms(),
    }


# The reference

HEAD = """\
# Events

Generated from `toolcrib.events` by `make generate`.

`Event(seq, at, call, kind, json)` is one line of a session's log: `seq` counts from 1 within the session without gaps,
`at` is in seconds since 1970, `call` is `None` for what concerns the session. `event.data` is a value of the type that
belongs to its kind, `event.fields` the same as plain JSON, also with fields that this version does not know, and
`event.json` the text as the log holds it:

```python
import asyncio

from toolcrib import Crib, Failure, events, tool


@tool(destructive=True)
def refund(order: str) -> str:
    \"\"\"Refund an order.\"\"\"
    return order


async def main() -> None:
    async with Crib([refund]) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("refund", {"order": "A-7"})
        async for event in session.events(call=call.id):
            match event.data:
                case events.Waiting(question=question):
                    print(question.prompt)
                    await session.answer(question.id, "decline")
                case events.Done(failure=Failure() as failure):
                    print(failure)


asyncio.run(main())
```

An event of a kind that this version does not know has `events.Unknown` as its data. A `?` marks what may be missing.
"""


def reference() -> str:
    """The page of the reference."""
    parts = [HEAD]
    for title, kinds in (
        ("Calls", events.OF_CALLS),
        ("Sessions", events.OF_SESSIONS),
        ("Runs of agents", events.OF_RUNS),
    ):
        parts += [f"\n## {title}\n", *(_kind(one) for one in kinds)]
    parts += ["\n## What they are made of\n", *(_value(one) for one in VALUES)]
    return "".join(parts)


def _kind(type: type[events.EventData]) -> str:
    said, _ = meanings(type)
    return f"\n### `{type.kind}`\n\n`{type.__name__}`: {said}\n\n{_table(type)}"


def _value(type: Any) -> str:
    said, _ = meanings(type)
    return f"\n### `{type.__name__}`\n\n{said}\n\n{_table(type)}"


@functools.cache
def _schemas() -> dict[str, dict[str, Any]]:
    return schemas("{name}")


def _table(type: Any) -> str:
    fields, schema = meanings(type)[1], _schemas()[type.__name__]
    lines = ["| field | type | meaning |", "|---|---|---|"]
    for one in msgspec.structs.fields(type):
        shape = schema.get("properties", {}).get(one.encode_name, {})
        mark = "" if one.required else "?"
        lines.append(f"| `{one.name}{mark}` | {_shape(shape)} | {fields[one.name]} |")
    return "\n".join(lines) + "\n"


def _shape(schema: dict[str, Any]) -> str:
    """The type of a field, in the words of JSON."""
    if "$ref" in schema:
        return f"`{schema['$ref']}`"
    if "anyOf" in schema:
        return " or ".join(_shape(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    if schema.get("type") == "array":
        items = schema.get("items") or {}
        return f"list of {_shape(items)}" if items else "list"
    return str(schema.get("type", "any JSON"))


# TypeScript


def typescript() -> str:
    """The types of the console."""
    known = _schemas()
    kinds = {kind: type.__name__ for kind, type in events.KINDS.items()}
    lines = ["// Generated from toolcrib.events by `make generate`.", ""]
    for name in sorted(known):
        lines += _interface(name, known[name])
    lines += ["/** The data of each kind of event. */", "export interface EventKinds {"]
    lines += [f"  {kind}: {name};" for kind, name in kinds.items()]
    lines += ["}", ""]
    return "\n".join(lines)


def forms() -> str:
    """The types of what the API takes and gives."""
    of_events = _schemas()
    known = document(ROUTES)["components"]["schemas"]
    lines = ["// Generated from the routes of toolcrib.serve.api by `make generate`."]
    body = [line for name in sorted(known.keys() - of_events) for line in _interface(name, known[name])]
    used = sorted(name for name in of_events if any(re.search(rf": .*\b{name}\b", line) for line in body))
    if used:
        lines += ["", f'import type {{ {", ".join(used)} }} from "./events";']
    return "\n".join([*lines, "", *body])


def _interface(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"/** {' '.join(schema.get('description', name).split())} */"
    if "properties" not in schema:
        yield f"export type {name} = Record<string, unknown>;"
        yield ""
        return
    yield f"export interface {name} {{"
    for field, shape in schema["properties"].items():
        if "description" in shape:
            yield f"  /** {shape['description']} */"
        mark = "" if field in schema.get("required", ()) else "?"
        yield f"  {field}{mark}: {_typescript(shape)};"
    if schema.get("additionalProperties") is True:
        yield "  [more: string]: unknown;"
    yield "}"
    yield ""


def _typescript(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_typescript(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join("null" if value is None else f'"{value}"' for value in schema["enum"])
    match schema.get("type"):
        case "array":
            inside = _typescript(schema.get("items") or {})
            return f"({inside})[]" if " " in inside else f"{inside}[]"
        case "object":
            values = schema.get("additionalProperties")
            return f"Record<string, {_typescript(values) if isinstance(values, dict) else 'unknown'}>"
        case "integer" | "number":
            return "number"
        case "string" | "boolean" | "null" as plain:
            return str(plain)
    return "unknown"


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, "utf-8")

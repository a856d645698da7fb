"""The Berkeley Function Calling Leaderboard, v4: its function schemas as tools, and its right answers as calls.

No model takes part. A right answer has to be accepted unchanged; the same without a required argument, or with a value
of a type that nothing could mean, has to be refused at the argument concerned.
"""

import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.score.bfcl_replay import replay
from bench.score.suite import Score, from_pypi

NAME = "Berkeley Function Calling Leaderboard v4"
PACKAGE = "bfcl-eval==2026.3.23"
TYPES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "double": "number",
    "long": "integer",
    "byte": "integer",
}
TYPES |= {
    "short": "integer",
    "char": "string",
    "hashmap": "object",
    "arraylist": "array",
    "list": "array",
    "bool": "boolean",
}
MOST = 20


def run() -> Score:
    """Load, call and break."""
    counts: Counter[str] = Counter()
    failed: list[str] = []
    wheel = from_pypi(PACKAGE)
    with zipfile.ZipFile(wheel) as archive:
        for name, schema in _schemas(archive):
            made = _parser(schema)
            counts["schemas"] += 1
            counts["loaded"] += made is not None
            if made is None:
                failed.append(f"schema of {name}")
        for place, schema, arguments in _answers(archive):
            parser = _parser(schema)
            if parser is not None:
                _call(parser, schema, arguments, place, counts, failed)
        replayed, astray = replay(archive, wheel, _plain)
    rows = (
        ("function schemas that become tools", f"{counts['loaded']:,} of {counts['schemas']:,}"),
        ("right calls accepted unchanged", f"{counts['unchanged']:,} of {counts['calls']:,}"),
        ('right calls read gently (`"5"` for 5)', f"{counts['mended']:,}"),
        ("without a required argument: refused at its path", f"{counts['missing']:,} of {counts['missing tried']:,}"),
        ("an argument of an impossible type: refused at its path", f"{counts['type']:,} of {counts['type tried']:,}"),
        (
            "multi-turn tasks replayed to the same state of their back ends",
            f"{replayed['same']} of {replayed['tasks']}",
        ),
        ("calls of them that tell the same", f"{replayed['alike']:,} of {replayed['calls']:,}"),
    )
    note = (
        f"`{PACKAGE}`; names of types are read as the suite's own handlers read them (`dict`, `float`, `tuple`, ...). "
        "A right call that is refused breaks the schema of the suite itself (an enum, a type, a required field), "
        f"in the first {MOST} of them, which are listed. Multi-turn tasks are the right calls of the suite, made "
        "straight to its back ends and through a crib; where both differ, the schema has another default or "
        "type than the back end."
    )
    return Score(NAME, rows, (*failed[:MOST], *astray), note)


def _call(
    parser: Any, schema: Any, arguments: dict[str, Any], place: str, counts: Counter[str], failed: list[str]
) -> None:
    """Make one right call, and two wrong ones of it."""
    from toolcrib.schema.problems import BadArguments

    counts["calls"] += 1
    try:
        parsed = parser.parse(json.dumps(arguments).encode())
    except BadArguments as error:
        failed.append(f"{place}: {error}")
        return
    counts["unchanged" if {name: parsed.values[name] for name in arguments} == arguments else "mended"] += 1
    required = [name for name in schema.get("required", ()) if name in arguments]
    for kind, name, mutant in _mutants(schema, arguments, required):
        counts[f"{kind} tried"] += 1
        try:
            parser.parse(json.dumps(mutant).encode())
        except BadArguments as error:
            counts[kind] += any(problem.path == name for problem in error.problems)


def _mutants(schema: Any, arguments: dict[str, Any], required: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name in required[:1]:
        if "default" not in schema["properties"].get(name, {}):
            yield "missing", name, {key: value for key, value in arguments.items() if key != name}
    for name, value in arguments.items():
        if schema["properties"].get(name, {}).get("type") in ("integer", "number", "boolean"):
            yield "type", name, {**arguments, name: {"no": [value]}}
            return


def _schemas(archive: zipfile.ZipFile) -> Iterator[tuple[str, Any]]:
    for path in archive.namelist():
        if path.startswith("bfcl_eval/data/BFCL_v4_") and "format_sensitivity" not in path:  # it lists ids alone
            for entry in _lines(archive, path):
                for function in entry.get("function", ()):
                    yield function["name"], _plain(function["parameters"])


def _answers(archive: zipfile.ZipFile) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    for path in archive.namelist():
        answers = path.replace("data/BFCL", "data/possible_answer/BFCL")
        if not path.startswith("bfcl_eval/data/BFCL_v4_") or answers not in archive.namelist():
            continue
        right = {entry["id"]: entry["ground_truth"] for entry in _lines(archive, answers)}
        for entry in _lines(archive, path):
            functions = {one["name"]: _plain(one["parameters"]) for one in entry.get("function", ())}
            for call in right.get(entry["id"], ()):
                if isinstance(call, dict):
                    for name, options in call.items():
                        if name in functions:
                            yield entry["id"], functions[name], _first(options)


def _first(options: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the first of the answers that are right; an empty text says that an argument may be left out."""
    return {name: _value(values[0]) for name, values in options.items() if values and values[0] != ""}


def _value(value: Any) -> Any:
    """Inside of objects and lists of objects the suite lists the right values too."""
    if isinstance(value, dict):
        return {
            name: _value(one[0]) if isinstance(one, list) and one else one for name, one in value.items() if one != [""]
        }
    if isinstance(value, list):
        return [_value(one) for one in value]
    return value


def _lines(archive: zipfile.ZipFile, path: str) -> Iterator[Any]:
    for line in archive.read(path).decode().splitlines():
        if line.strip():
            yield json.loads(line)


def _plain(schema: Any) -> Any:
    """Return a schema with the types of JSON."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _plain(value) for name, value in schema.items()}
    kind = made.get("type")
    if isinstance(kind, str):
        made["type"] = TYPES.get(kind.lower(), kind.lower())
        if made["type"] in ("any", "") or made["type"] not in (
            "object",
            "array",
            "string",
            "integer",
            "number",
            "boolean",
            "null",
        ):
            del made["type"]
    return made


def _parser(schema: Any) -> Any:
    from toolcrib.schema.parser import schema_parser
    from toolcrib.schema.problems import SchemaError

    try:
        return schema_parser(schema)
    except SchemaError:
        return None

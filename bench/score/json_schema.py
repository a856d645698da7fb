"""The JSON Schema Test Suite, draft 2020-12, through the parser that every tool has.

The sdist of `jsonschema` carries the suite. Arguments of a tool are an object, so each case stands in an argument
`value`.
"""

import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.score.suite import Score, from_pypi

NAME = "JSON Schema Test Suite, draft 2020-12"
PACKAGE = "jsonschema==4.26.0"


def run() -> Score:
    """Compare each verdict with the suite's."""
    counts: Counter[str] = Counter()
    failed: list[str] = []
    for place, schema, data, valid in _cases():
        verdict = _verdict(schema, data)
        right = verdict == ("accepted" if valid else "refused")
        counts["right" if right else verdict if verdict in ("mended", "no tool") else "wrong"] += 1
        if verdict not in ("mended", "no tool") and not right:
            failed.append(f"{place}: {verdict}")
    rows = (
        ("cases", f"{counts.total():,}"),
        ("verdicts that equal the suite's", f"{counts['right']:,} of {counts['right'] + counts['wrong']:,}"),
        ('invalid, but read gently to what is meant (`"5"` for 5)', f"{counts['mended']:,}"),
        ("schemas that no tool can have (other documents, boolean roots)", f"{counts['no tool']:,}"),
    )
    return Score(
        NAME,
        rows,
        tuple(failed),
        f"The suite of the sdist of `{PACKAGE}` (npm has drafts 3 and 4 alone), each value as an argument. "
        "A value that holds the text of a reference is changed on the way (`ref: naive replacement`).",
    )


def _cases() -> Iterator[tuple[str, Any, Any, bool]]:
    with tarfile.open(from_pypi(PACKAGE, "--no-binary", "jsonschema")) as archive:
        for member in archive.getmembers():
            folder, _, name = member.name.rpartition("/")
            if not folder.endswith("/json/tests/draft2020-12") or not name.endswith(".json"):
                continue
            file = archive.extractfile(member)
            assert file is not None
            for group in json.load(file):
                for case in group["tests"]:
                    place = f"{name.removesuffix('.json')}: {group['description']}: {case['description']}"
                    yield place, group["schema"], case["data"], case["valid"]


def _verdict(schema: Any, data: Any) -> str:
    """Return what a tool with this schema makes of the value."""
    from toolcrib.schema.parser import schema_parser
    from toolcrib.schema.problems import BadArguments, SchemaError

    try:
        parsed = schema_parser(_within(schema)).parse(json.dumps({"value": data}).encode())
    except BadArguments:
        return "refused"
    except SchemaError:
        return "no tool"
    same = json.dumps(parsed.values["value"], sort_keys=True) == json.dumps(data, sort_keys=True)
    return "accepted" if same or parsed.values["value"] == data else "mended"


def _within(schema: Any) -> dict[str, Any]:
    """Return the schema of arguments with this one for `value`; references to its root are led there."""
    text = json.dumps(schema)
    inner = json.loads(
        text.replace('"#/', '"#/properties/value/').replace('"$ref": "#"', '"$ref": "#/properties/value"')
    )
    return {"type": "object", "properties": {"value": inner}, "required": ["value"]}

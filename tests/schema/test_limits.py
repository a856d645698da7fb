"""Schemas that would keep everybody waiting: measured and refused before anything is compiled of them."""

import random
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest

from tests.requirements import requirement
from tests.schema.parse import lines, object_parser, values
from toolcrib.schema import SchemaError, check_schema, output_check, schema_parser
from toolcrib.schema.limits import SchemaBudget, SchemaSize, longest_text, measure, pattern_states
from toolcrib.schema.match_time import AT_ONCE, MatchTimer
from toolcrib.schema.validator import TOO_LONG

KILOBYTE = 1024


def patterned(*patterns: str) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{n}": {"pattern": pattern} for n, pattern in enumerate(patterns)}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def chained(links: int) -> dict[str, Any]:
    defs = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(links)}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, f"d{links}": {}}}


def anchored(many: int) -> dict[str, Any]:
    properties = {f"p{n}": {"$ref": f"#a{n}"} for n in range(many)}
    return {
        "type": "object",
        "properties": properties,
        "$defs": {f"d{n}": {"$anchor": f"a{n}"} for n in range(many)},
    }


def doubled(steps: int, uses: int) -> dict[str, Any]:
    defs: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(steps)}
    properties = {f"p{n}": {"$ref": "#/$defs/d0"} for n in range(uses)}
    return {"type": "object", "properties": properties, "$defs": {**defs, f"d{steps}": {"type": "integer"}}}


ATTACKS: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "forty classes with counts": (lambda: patterned(*(rf"\p{{L}}{{{60 + n}}}" for n in range(40))), "patterns"),
    "counts in counts": (lambda: patterned(*(f"(a{{100}}){{{100 + n}}}" for n in range(40))), "patterns"),
    "counts after counts": (lambda: patterned("a{100}{100}{100}"), "patterns"),
    "any character, counted": (lambda: patterned(*(f".{{1,{2000 + n}}}" for n in range(40))), "patterns"),
    "a negated class, counted": (lambda: patterned(*(f"[^x]{{{1000 + n}}}" for n in range(40))), "patterns"),
    "classes in a class": (lambda: patterned(r"[\p{L}[a]]{1000}"), "patterns"),
    "a bracket in a class": (lambda: patterned(r"[[]\p{L}{1000}"), "patterns"),
    "look-around before a count": (lambda: patterned(r"(?=a)\p{L}{1000}"), "patterns"),
    "blanks before a count": (lambda: patterned(r"(?x)\p{L} {1000}"), "patterns"),
    "folded letters": (lambda: patterned("(?i)(?:é{100}){100}"), "patterns"),
    "a folded class": (lambda: patterned("(?i)[Ā-￿]{1000}"), "patterns"),
    "patterns of names": (
        lambda: {"type": "object", "patternProperties": {rf"\p{{L}}{{{60 + n}}}": {} for n in range(40)}},
        "patterns",
    ),
    "very many patterns": (lambda: patterned(*(f"a{n}" for n in range(1001))), "1000 patterns"),
    "bytes": (lambda: {"type": "object", "description": "x" * 600 * KILOBYTE}, "512 KB"),
    "values": (lambda: {"type": "object", "properties": {"a": {"enum": [[n] for n in range(30_000)]}}}, "parts"),
    "properties": (lambda: {"type": "object", "properties": {f"p{n}": {} for n in range(30_000)}}, "parts"),
    "levels": (lambda: nested(120), "levels"),
    "a chain of references": (lambda: chained(2000), "references lead too far"),
    "references to anchors": (lambda: anchored(2000), "anchors"),
    "references that double": (lambda: doubled(20, 1), "too many times"),
}


@requirement("security.bounds.1")
@pytest.mark.parametrize("name", ATTACKS)
def test_a_schema_that_would_take_long_is_refused_with_what_is_too_much(name: str) -> None:
    schema, words = ATTACKS[name]
    with pytest.raises(SchemaError, match=words):
        check_schema(schema())


@requirement("security.bounds.1")
def test_an_output_and_a_question_have_the_same_limits() -> None:
    with pytest.raises(SchemaError, match="patterns"):
        output_check(ATTACKS["forty classes with counts"][0]())


@requirement("security.bounds.1")
def test_nothing_is_compiled_of_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(jsonschema_rs, "validator_for", lambda *args, **more: compiled.append(args))
    for name in ("forty classes with counts", "bytes", "levels", "references to anchors", "values"):
        with pytest.raises(SchemaError):
            check_schema(ATTACKS[name][0]())
    assert compiled == []


@requirement("security.bounds.1")
def test_parts_that_many_refer_to_are_worked_out_once() -> None:
    """Each of 300 properties stands for 4,095 schemas: walking them all anew would take minutes."""
    parser = schema_parser(doubled(11, 300))
    assert values(parser, {"p1": "5"}) == {"p1": 5}


@requirement("security.bounds.1")
@pytest.mark.parametrize(
    "pattern",
    [r"^[a-z0-9-]{1,63}$", r"^.{1,2000}$", r"^[\w.+-]+@[\w-]+\.[\w.]{2,}$", r"^\p{L}{1,100}$", r"^(?=.*\d).{8,128}$"],
)
def test_patterns_of_every_day_pass(pattern: str) -> None:
    assert schema_parser(patterned(pattern)).parse(b"{}").values == {}


@requirement("security.bounds.1")
def test_a_text_is_held_against_a_large_pattern_only_as_far_as_that_is_quick() -> None:
    pattern = "[ab]*a[ab]{1000}[cd]"
    most = longest_text(pattern)
    assert most is not None
    assert 1000 < most < 100_000
    parser = object_parser(x={"type": "string", "pattern": pattern})
    assert values(parser, {"x": "a" + "b" * 1000 + "c"})
    assert lines(parser, {"x": "ab" * most}) == [f"x: must have at most {most} characters"]
    assert longest_text("^[a-z]+$") is None


@requirement("security.bounds.1")
def test_no_random_pattern_has_more_states_than_estimated() -> None:
    """The engine says how large a pattern is by refusing it: with 600 bytes for each estimated state it never does."""
    chance = random.Random(20261116)
    atoms = ["a", "é", ".", r"\d", r"\w", r"\S", r"\W", r"\p{L}", r"\P{Lu}", "[a-z]", "[^a-z]", r"[\p{L}\d]", "[é-ü]"]

    def made(depth: int) -> str:
        parts = [chance.choice(atoms) if depth == 0 or chance.random() < 0.6 else f"(?:{made(depth - 1)})"]
        parts += [made(depth - 1)] if depth and chance.random() < 0.4 else []
        return "|".join(part + chance.choice(["", "*", "?", "+", "{3}", "{0,7}", "{2,}"]) for part in parts)

    for _ in range(300):
        pattern = made(3)
        room = jsonschema_rs.RegexOptions(size_limit=4096 + 600 * pattern_states(pattern))
        if pattern_states(pattern) < 10_000:
            checked = jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=room)
            assert checked.is_valid(5), pattern


@requirement("security.bounds.2")
def test_the_schemas_of_one_source_have_a_limit_together() -> None:
    schema = patterned("a{1000}")
    budget = SchemaBudget(SchemaSize(bytes=10_000, nodes=1000, states=2 * measure(schema).states))
    budget.spend(schema)
    budget.spend(schema)
    with pytest.raises(SchemaError, match="patterns of these tools"):
        budget.spend(schema)
    budget.spend({"type": "object"})


SLOW = "^(.{0,500}a){0,20}z"


def listed(pattern: str) -> dict[str, Any]:
    items = {"type": "string", "pattern": pattern}
    return {"type": "object", "properties": {"a": {"type": "array", "items": items}}}


def short_texts(number: int) -> dict[str, Any]:
    chance = random.Random(4)
    return {"a": ["".join(chance.choice("ab") for _ in range(400)) for _ in range(number)]}


@requirement("security.bounds.1")
def test_many_short_texts_are_held_against_a_large_pattern_only_as_long_as_that_is_quick() -> None:
    data = short_texts(300)  # each takes a moment, all together minutes
    assert lines(schema_parser(listed(SLOW)), data) == [TOO_LONG]
    assert output_check(listed(SLOW))(data) == TOO_LONG


@requirement("security.bounds.1")
def test_names_are_counted_as_texts_are() -> None:
    timed = list[list[str]]()
    timer = MatchTimer(AT_ONCE // 10, timed.append)
    assert timer.is_short(10)
    assert not timer.exceeds({"abc": ["de", 5, None]})
    assert timed == []
    assert not timer.exceeds({"abcdef": {"ghijk": "lm"}, "n": [["opqrst"]]})
    assert sorted(text for some in timed for text in some) == ["abcdef", "ghijk", "lm", "n", "opqrst"]


@requirement("security.bounds.1")
def test_what_takes_no_time_is_not_refused_for_its_length() -> None:
    data = {"a": ["Ελλάδα"] * 3000}
    assert values(schema_parser(listed(r"^\p{L}{1,100}$")), data) == data
    wrong = {"a": ["Ελλάδα"] * 3000 + ["4"]}
    assert len(lines(schema_parser(listed(r"^\p{L}{1,100}$")), wrong)) == 1
    example = listed(r"^\p{L}{1,100}$") | {"examples": [{"pattern": "["}]}
    assert values(schema_parser(example), data) == data

import time
from typing import Any

import jsonschema_rs
import pytest

from tests.requirements import requirement
from toolcrib.definitions.argument_checks import ABSENT, ArgumentFinding, BadCheck, at, failed, pattern


def found(check: Any, **args: Any) -> list[tuple[str, str]]:
    return [(finding.path, finding.code) for finding in failed([check], args)]


def message(check: Any, **args: Any) -> str:
    [finding] = failed([check], args)
    return finding.message


@requirement("yaml.check.1")
def test_checks_are_told_in_their_order_by_their_names() -> None:
    checks = [{"enum": {"b": [1]}, "type": {"b": "string"}}, {"required_fields": ["a"]}]
    assert [each.code for each in failed(checks, {"b": 2})] == ["enum", "type", "required"]


@requirement("yaml.check.2")
def test_absent_null_and_empty_text_are_missing_but_zero_false_and_the_empty_list_are_not() -> None:
    assert found({"required_fields": ["a", "b", "c"]}, b=None, c="") == [(name, "required") for name in "abc"]
    assert found({"required_fields": ["n", "f", "l"]}, n=0, f=False, l=[]) == []
    assert message({"required_fields": "a"}) == "Required field 'a' is missing"


@requirement("yaml.check.2")
def test_a_required_field_may_lie_deep_and_have_other_names() -> None:
    check = {"required_fields": ["to.address", ["list_id", "listId"]]}
    assert found(check, to={"address": "x"}, listId="1") == []
    assert found(check, to="nobody") == [("to.address", "required"), ("list_id", "required")]


FORMATS = {
    "email": ("a@b.org", "nobody"),
    "uri": ("urn:x:y", "no uri"),
    "url": ("https://a.org/x?y#z", "ftp://a.org"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    "date": ("2024-02-29", "2023-02-29"),
    "time": ("10:30", "25:00"),
    "date-time": ("2025-01-15T10:00:00Z", "2025-01-15 10:00"),
    "ipv4": ("1.2.3.4", "1.2.3.256"),
    "ipv6": ("::1", "1.2.3.4"),
    "hostname": ("a.example.org", "-a"),
    "json": ('{"a": [1]}', "{a}"),
    "semver": ("1.0.0-rc.1+b", "1.0"),
    "snake_case": ("list_id", "listId"),
    "kebab-case": ("list-id", "list_id"),
    "numeric": ("-12.5", "12a"),
}


@requirement("yaml.check.3")
@pytest.mark.parametrize("name", FORMATS)
def test_a_format_accepts_what_has_it_and_nothing_else(name: str) -> None:
    good, bad = FORMATS[name]
    check = {"format": {"f": name}}
    assert found(check, f=good) == []
    assert found(check, f=bad) == found(check, f=[good]) == found(check, f="\ud800") == [("f", "format")]


@requirement("yaml.check.3")
@pytest.mark.parametrize(
    ("check", "good", "bad", "said"),
    [
        ({"enum": {"f": ["reader", "writer"]}}, "writer", "king", "f must be one of: reader, writer"),
        ({"enum": {"f": [1, None]}}, 1.0, True, "f must be one of: 1, null"),
        ({"range": {"f": {"min": 1, "max": 4}}}, 4, 5, "f must be between 1 and 4"),
        ({"range": {"f": {"min": 1}}}, 1, "2", "f must be a number at least 1"),
        ({"length": {"f": {"max": 2}}}, "ab", [1, 2, 3], "f must have at most 2 items, not 3"),
        ({"length": {"f": {"min": 1}}}, [0], "", "f must have at least 1 characters, not 0"),
        ({"type": {"f": "array"}}, [], {"add": [1]}, "f must be of type array, not object"),
        ({"type": {"f": ["integer", "string"]}}, 5.0, True, "f must be of type integer or string, not boolean"),
        ({"pattern": {"f": r"^\d+$"}}, 12, "12\n", r"f must match the pattern ^\d+$"),
        ({"max_bytes": {"f": 3}}, "äa", "ää", "f must have at most 3 bytes, not 4"),
        ({"max_bytes": {"f": 3}}, [1], [1, 2], "f must have at most 3 bytes, not 5"),
    ],
)
def test_a_check_of_a_value_says_what_it_must_be(check: Any, good: Any, bad: Any, said: str) -> None:
    assert found(check, f=good) == found(check) == found(check, f=None) == []
    assert message(check, f=bad) == said


@requirement("yaml.check.4")
def test_fields_depend_on_each_other() -> None:
    assert found({"any_of": ["a", "b"]}, a="") == [("", "any_of")]
    assert found({"any_of": ["a", "b"]}, b=0) == []
    assert found({"one_of": ["a", "b"]}, a=1, b=1) == found({"one_of": ["a", "b"]}) == [("", "one_of")]
    assert found({"all_or_none": ["a", "b"]}, a=1) == [("", "all_or_none")]
    assert found({"all_or_none": ["a", "b"]}) == found({"all_or_none": ["a", "b"]}, a=1, b=1) == []
    assert found({"requires": {"a": ["b", "c"]}}, a=1, b=1) == [("c", "requires")]
    assert found({"requires": {"a": "b"}}, c=1) == []


@requirement("yaml.check.4")
def test_a_deprecated_field_warns() -> None:
    [finding] = failed([{"deprecated": {"old": "use new"}}], {"old": 1})
    assert finding == ArgumentFinding("old", "deprecated", "use new", "warning")
    assert found({"deprecated": {"old": "use new"}}) == []


@requirement("yaml.check.4")
def test_no_pattern_hangs() -> None:
    began = time.process_time()
    assert found({"pattern": {"f": "^(a+)+$"}}, f="a" * 1_000_000 + "!") == [("f", "pattern")]
    for expression in (r"(?=(a|b)*c)z", r"(\w+)\1$", "(a{1000}){1000}", "((", "\ud800("):
        with pytest.raises(BadCheck, match="linear time"):
            pattern(expression)
    assert time.process_time() - began < 5


@requirement("security.bounds.1")
def test_a_large_pattern_is_refused_before_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonschema_rs, "validator_for", lambda *args, **more: pytest.fail("it was compiled"))
    for expression in (r"\p{L}{1000}", "(?:a{1000}){999}", ".{50000}"):
        with pytest.raises(BadCheck, match="repeats too much"):
            pattern(expression)


@requirement("security.bounds.1")
def test_a_large_pattern_is_not_found_in_a_long_text() -> None:
    assert found({"pattern": {"f": "[ab]*a[ab]{1000}[ab]"}}, f="ab" * 1000) == []
    assert found({"pattern": {"f": "[ab]*a[ab]{1000}[ab]"}}, f="ab" * 100_000) == [("f", "pattern")]


@requirement("yaml.check.6")
@pytest.mark.parametrize(
    "check",
    [
        *("required_fields", None, 5, ["required_fields"], {"requird": ["a"]}, {"format": "email"}, {"format": {}}),
        *({"format": {"f": "emial"}}, {"format": {"f": {}}}, {"enum": {"f": "a"}}, {"range": {"f": 3}}),
        *({"length": {"f": {"min": "a"}}}, {"type": {"f": "text"}}, {"pattern": {"f": "(("}}, {"pattern": {"f": 1}}),
        *({"max_bytes": {"f": "1MB"}}, {"required_fields": []}, {"required_fields": [1]}, {"any_of": [["a"]]}),
        *({"required_fields": {"a": 1}}, {"requires": {"a": 1}}),
    ],
)
def test_a_check_that_checks_nothing_is_a_fault_and_never_passes(check: Any) -> None:
    [finding] = failed([check], {"f": "x", "a": 1})
    assert (finding.code, finding.severity, finding.fault) == ("UNKNOWN_CHECK", "error", True)
    assert finding.message.endswith("; it checks nothing")


def test_a_path_leads_through_mappings_and_lists() -> None:
    data = {"a": {"b": [{"c": 1}]}, "x.y": 2}
    assert at(data, "a.b[0].c") == 1
    assert at(data, "x.y") == 2
    assert at(data, "a.b[1]") is at(data, "a[0]") is at(data, "a.b.c") is at([], "a") is ABSENT

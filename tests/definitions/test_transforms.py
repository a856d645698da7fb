from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.definitions.test_validators import defined, open_sandboxes
from tests.requirements import requirement
from toolcrib.definitions.argument_checks import BadCheck
from toolcrib.definitions.detection import detector, prose
from toolcrib.definitions.transforms import ShapedData, after, before, extract, payload, processors
from toolcrib.definitions.validators import CodeSandboxes
from toolcrib.errors import ToolFailure


@pytest.fixture
async def sandboxes() -> AsyncIterator[CodeSandboxes]:
    async with open_sandboxes() as opened:
        yield opened


HELPERS = [
    {"id": "add-one", "function": "({n: args.n + 1})"},
    {"id": "double", "function": "({n: args.n * 2})"},
    {"id": "only-n", "function": "args.n"},
]


def shaped_by(*given: dict[str, Any], **blocks: Any) -> Any:
    entries = [{"id": f"p{number}", "applies_to": ["c"], **each} for number, each in enumerate(given, 1)]
    return defined({"processors": entries, "helpers": HELPERS}, **blocks)


# Processors


@requirement("yaml.data.1")
def test_a_processor_runs_for_what_it_applies_to_and_where_a_command_names_it() -> None:
    definition = shaped_by(
        {"function": "args"},
        {"function": "args", "applies_to": ["other"]},
        {"function": "args", "applies_to": [], "stage": "before"},
        {"function": "args", "applies_to": []},
        commands=[{"name": "c", "processors": ["p4", "p3", "p1"]}],
    )
    assert [each.id for each in processors(definition, "c", "after")] == ["p1", "p4"]
    assert [each.id for each in processors(definition, "c", "before")] == ["p3"]
    assert [each.id for each in processors(definition, "other", "after")] == ["p2"]


@requirement("yaml.data.1")
async def test_before_changes_arguments_and_after_the_result(sandboxes: CodeSandboxes) -> None:
    definition = shaped_by(
        {"stage": "before", "function": "({...args, limit: 5})"}, {"function": "args.map(row => row.id)"}
    )
    given = {"q": "x"}
    assert await before(definition, "c", given, sandboxes) == {"q": "x", "limit": 5}
    assert given == {"q": "x"}
    assert await after(definition, "c", [{"id": 1}, {"id": 2}], sandboxes) == ShapedData([1, 2])
    assert await after(definition, "other", "as it is", sandboxes) == ShapedData("as it is")


@requirement("yaml.data.1")
async def test_steps_pipe_helpers(sandboxes: CodeSandboxes) -> None:
    definition = shaped_by({"steps": ["add-one", "helpers.double", "only-n"]})
    assert await after(definition, "c", {"n": 1}, sandboxes) == ShapedData(4)


@requirement("yaml.data.1")
@pytest.mark.parametrize(
    ("processor", "code", "said"),
    [
        ({"function": "throw 'boom'"}, "failed", "Processor 'p1' execution failed: boom"),
        ({"function": "[args]"}, "failed", "Processor 'p1' gave no arguments but another kind of value"),
        ({"steps": ["double", "nothing"]}, "failed", "Processor 'p1' execution failed: "),
        (
            {"function": "args", "input_schema": {"required": ["a"]}},
            "invalid_arguments",
            "Processor 'p1': its input does not fit its schema: a: missing",
        ),
        (
            {"steps": ["double"], "output_schema": {"properties": {"n": {"type": "string"}}}},
            "failed",
            "Processor 'p1': its output does not fit its schema: n: expected string, got 4",
        ),
    ],
)
async def test_a_before_that_fails_ends_the_call_and_an_after_keeps_the_raw_result(
    sandboxes: CodeSandboxes, processor: dict[str, Any], code: str, said: str
) -> None:
    with pytest.raises(ToolFailure) as raised:
        await before(shaped_by({**processor, "stage": "before"}), "c", {"n": 2}, sandboxes)
    assert raised.value.code == code
    assert raised.value.message.startswith(said)
    if "no arguments" not in said:
        shaped = await after(shaped_by({"steps": ["add-one"]}, {**processor, "id": "p1b"}), "c", {"n": 1}, sandboxes)
        assert shaped.data == {"n": 1}
        [warning] = shaped.warnings
        assert warning.startswith("The result is raw: Processor 'p1b'")


# Payloads


def detecting(schemas: Any) -> Any:
    return defined(api_complexity={"payload_schemas": schemas})


@requirement("yaml.data.2")
def test_the_first_payload_that_is_detected_counts() -> None:
    definition = detecting(
        [
            {"type": "event", "detect": {"exists": "event"}, "payload_path": "payload"},
            {"type": "list", "detect": {"path": "items", "type": "array"}, "payload_path": "items[0].x"},
            {"type": "whole", "detect": {"path": "kind", "equals": "w"}},
        ]
    )
    assert payload(definition, {"event": 1, "items": [], "payload": 5}) == {"type": "event", "payload": 5}
    assert payload(definition, {"items": [{"x": 7}]}) == {"type": "list", "payload": 7}
    assert payload(definition, {"kind": "w"}) == {"type": "whole", "payload": {"kind": "w"}}
    assert payload(definition, "text") == payload(defined(), {}) == {"type": "unknown", "payload": None}


@requirement("yaml.data.2")
@pytest.mark.parametrize(
    ("detect", "yes", "no"),
    [
        ({"exists": "a.b"}, {"a": {"b": 0}}, {"a": {"b": None}}),
        ({"path": "a", "equals": 1}, {"a": 1}, {"a": True}),
        ({"path": "a", "equals": [1]}, {"a": [1]}, {}),
        ({"path": "a", "matches": "^x+$"}, {"a": "xx"}, {"a": 5}),
        ({"path": "a", "type": "object"}, {"a": {}}, {"a": []}),
        ({"path": "a", "type": "null"}, {"a": None}, {}),
        ({"not": {"exists": "a"}}, {}, {"a": 1}),
        ({"all": [{"exists": "a"}, {"exists": "b"}]}, {"a": 1, "b": 1}, {"a": 1}),
        ({"any": [{"exists": "a"}, {"exists": "b"}]}, {"b": 1}, {"c": 1}),
    ],
)
def test_a_detect_finds_what_it_says(detect: Any, yes: Any, no: Any) -> None:
    definition = detecting([{"type": "t", "detect": detect}])
    assert payload(definition, yes)["type"] == "t"
    assert payload(definition, no)["type"] == "unknown"


@requirement("yaml.data.2")
@pytest.mark.parametrize("detect", ["event", {"exists": 1}, {"path": "a"}, {"path": "a", "matches": "(?=x)"}])
def test_a_detect_that_says_nothing_detects_nothing(detect: Any) -> None:
    with pytest.raises(BadCheck):
        detector(detect)
    assert payload(detecting([{"type": "t", "detect": detect}]), {"a": "x", "event": 1})["type"] == "unknown"


@requirement("yaml.data.3")
@pytest.mark.parametrize(
    ("said", "yes", "no"),
    [
        ("event field exists in root", {"event": ""}, {"event": None}),
        ("webhook_id exists", {"webhook_id": 1}, {}),
        ("items array exists", {"items": []}, {"items": {}}),
        ("data object", {"data": {}}, {"data": "x"}),
        ("a.b", {"a": {"b": 1}}, {"a": {"b": 0}}),
        ("!a", {"a": False}, {"a": 1}),
        ("a && !b", {"a": 1}, {"a": 1, "b": 1}),
        ("a === 'x' && b == \"y\"", {"a": "x", "b": "y"}, {"a": "x", "b": "z"}),
    ],
)
def test_simple_words_detect(said: str, yes: Any, no: Any) -> None:
    definition = detecting({"t": {"path": "p", "detection": said}})
    assert payload(definition, yes) == {"type": "t", "payload": None}
    assert payload(definition, no)["type"] == "unknown"


@requirement("yaml.data.3")
@pytest.mark.parametrize("said", ["", "when the event is there", "a || b", "a !== 'x'", "!a == 'x'", "a &&", "a > 5"])
def test_other_words_detect_nothing(said: str) -> None:
    assert prose(said) is None


@requirement("yaml.data.3")
@pytest.mark.parametrize("path", ["a.b || c[1]", ["a.b", "c[1]"]])
def test_paths_of_a_payload_are_tried_in_order(path: Any) -> None:
    definition = detecting([{"type": "t", "detection": "c", "payload_path": path}])
    assert payload(definition, {"a": {"b": 1}, "c": [2, 3]})["payload"] == 1
    assert payload(definition, {"c": [2, 3]})["payload"] == 3


@requirement("yaml.data.3")
def test_both_forms_of_payload_schemas_are_read() -> None:
    schemas = [{"first": {"path": "x", "detection": "x"}}, {"type": "second", "detection": "y", "payload_path": "y"}]
    assert payload(detecting(schemas), {"x": 1}) == {"type": "first", "payload": 1}
    assert payload(detecting(schemas), {"y": 2}) == {"type": "second", "payload": 2}


# Fields


@requirement("yaml.data.4")
async def test_a_field_is_extracted_by_the_helper_that_its_mapping_names(sandboxes: CodeSandboxes) -> None:
    look = {
        "id": "look",
        "function": "[args.data === undefined, args.response.v, args.fieldName, args.fieldType, args.mapping]",
    }
    points = {"type": "number", "extraction": "helpers.look"}
    fields = {
        "size": {"extraction": "helpers.look"},
        "plain": {"extraction": "by hand"},
        "custom_fields": {"points": points},
    }
    definition = defined({"helpers": [look]}, api_complexity={"field_mappings": fields})
    assert await extract(definition, "points", {"v": 1}, sandboxes) == [False, 1, "points", "number", points]
    assert (await extract(definition, "size", {"v": 2}, sandboxes))[1:4] == [2, "size", None]
    with pytest.raises(ToolFailure, match=r"Field 'plain' has no extraction\. Fields with one: points, size"):
        await extract(definition, "plain", {}, sandboxes)

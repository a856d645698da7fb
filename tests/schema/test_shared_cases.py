"""The cases of the specification: arguments, schemas for a model, labels."""

from typing import Any

from tests.requirements import requirement
from tests.schema.parse import problems, values
from tests.shared import case_data
from toolcrib.schema import llm_schema, schema_parser, title, with_topic


def comparable(schema: Any) -> Any:
    """Write `required` as a set."""
    if isinstance(schema, dict):
        return {
            key: sorted(value) if key == "required" and isinstance(value, list) else comparable(value)
            for key, value in schema.items()
        }
    return [comparable(inner) for inner in schema] if isinstance(schema, list) else schema


def aomi_cases(group: str) -> list[dict[str, Any]]:
    return [case for case in case_data("aomi/cases.jsonl") if case["group"] == group]


@requirement("contract.typed.3", "contract.typed.4", "contract.typed.5", "contract.typed.6")
def test_arguments_are_parsed_as_the_specification_lists() -> None:
    for case in case_data("contract/arguments.json"):
        parser = schema_parser(case["schema"])
        if "parsed" in case:
            assert values(parser, case["given"]) == case["parsed"], case
        else:
            found = [[problem.path, problem.kind] for problem in problems(parser, case["given"])]
            assert found == case["problems"], case


@requirement("contract.schema.1", "contract.schema.2")
def test_schemas_for_a_model_are_those_that_the_specification_lists() -> None:
    for case in case_data("contract/llm_schema.json"):
        assert comparable(llm_schema(case["input"], case["dialect"])) == comparable(case["output"]), case


@requirement("aomi.topic.1")
def test_the_topic_is_added_as_aomi_did_with_its_faults_mended() -> None:
    for case in aomi_cases("with_topic"):
        assert comparable(with_topic(case["input"])) == comparable(case["expect"]), case


@requirement("aomi.topic.4")
def test_titles_are_those_of_aomi() -> None:
    for case in aomi_cases("format_tool_name"):
        assert title(case["input"]) == case["expect"]

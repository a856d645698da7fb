"""What a review of a policy finds: rules, grants and conditions that match nothing, and what was meant."""

from typing import Any

import pytest

from tests.policy.test_rules import FOLDERS
from tests.requirements import requirement
from toolcrib.policy.data_origin import DataOrigin
from toolcrib.policy.loader import load
from toolcrib.tool import Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "host": {"type": "string"},
        "mode": {"enum": ["fast", "slow"]},
        "count": {"type": "integer"},
        "force": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "labels": {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}}}},
        "path": {"type": "string", "x-toolcrib-kind": "path"},
        "url": {"type": "string", "x-toolcrib-kind": "url"},
        "more": {"type": "object"},
    },
}


def tool(name: str, **given: Any) -> Tool:
    namespace, _, short = name.partition(".")
    made: Tool = Tool(name=short, namespace=namespace, description="x", run=lambda *_: None, **given)
    return made


RESTART = tool("ops.restart_host", input_schema=SCHEMA, primary="host", tags=("infra",), category="machines")
TOOLS = [
    RESTART,
    tool("ops.put", input_schema=SCHEMA, capabilities=("fs:write:{path}",)),
    tool("ops.status", input_schema=SCHEMA, capabilities=("net:egress:https://status.example:8443",)),
    tool("ops.get", input_schema=SCHEMA, capabilities=("net:egress:{url}", "payments:refund")),
]


def found(rule: dict[str, Any] | None = None, **more: Any) -> list[tuple[str, str | None]]:
    data = {"rules": [] if rule is None else [rule], "grants": {}, **more}
    return [(one.code, one.nearest) for one in load(data, folders=FOLDERS).check(TOOLS, ["desk", "intern"])]


@requirement("findings.policy.1")
@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_a_rule_of_any_effect_about_a_tool_that_does_not_exist_is_found(effect: str) -> None:
    assert found({effect: "ops.restart_hst(db-*)"}) == [("NO_TOOL", "ops.restart_host")]
    assert found({effect: "opps.*"})[0][0] == "NO_TOOL"
    assert found({effect: "ops.restart_host(db-*)"}) == []


@requirement("findings.policy.3")
@pytest.mark.parametrize("fact", [{"session": "exposed"}, {"owner": "ada"}, {"session": "private", "tag": "infra"}])
def test_a_fact_of_the_session_may_hold(fact: dict[str, str]) -> None:
    assert found({"ask": "ops.*", "when": fact}) == []


@requirement("findings.policy.2")
@pytest.mark.parametrize(
    ("condition", "finding"),
    [
        ('hst = "db"', ("NO_ARGUMENT", "host")),
        ('labels[*].kee = "x"', ("NO_ARGUMENT", "labels")),
        ('mode = "fsat"', ("NO_VALUE", "fast")),
        ('mode != "fsat"', ("NO_VALUE", "fast")),
        ('mode ~ "x*"', ("NO_VALUE", None)),
        ('count = "many"', ("NO_VALUE", None)),
        ('count = "1.5"', ("NO_VALUE", None)),
        ('count ~ "a*"', ("NO_VALUE", None)),
        ('force = "True"', ("NO_VALUE", None)),
        ('path = "docs/**"', ("LITERAL_GLOB", None)),
        ('url = "example.com"', ("NO_VALUE", None)),
        ('host =~ "prod"', ("LITERAL_EXPRESSION", None)),
    ],
)
def test_a_condition_that_no_call_can_meet_is_found(condition: str, finding: tuple[str, str | None]) -> None:
    assert found({"deny": f"restart_host({condition})"}) == [finding]


@requirement("findings.policy.2")
@pytest.mark.parametrize(
    "condition",
    [
        'host = "db"',
        'mode = "fast"',
        'mode ~ "f*"',
        'count = "15"',
        'count ~ "1*"',
        'force = "true"',
        'force = "null"',
        'labels[*].key = "x"',
        'labels[0].key = "x"',
        '*.key = "x"',
        'more.anything.below = "x"',
        'path ~ "docs/**"',
        'url ~ "example.com"',
        'host =~ "prod.*"',
    ],
)
def test_a_condition_that_some_call_meets_is_left_alone(condition: str) -> None:
    assert found({"deny": f"restart_host({condition})"}) == []


@requirement("findings.policy.3")
@pytest.mark.parametrize(
    ("when", "finding"),
    [
        ({"tag": "infr"}, ("NO_FACT", "infra")),
        ({"category": "machine"}, ("NO_FACT", "machines")),
        ({"namespace": "opps"}, ("NO_FACT", "ops")),
        ({"agent": "dsk"}, ("NO_FACT", "desk")),
        ({"effect": "reed"}, ("NO_FACT", None)),
    ],
)
def test_a_fact_that_nothing_has_is_found(when: dict[str, str], finding: tuple[str, str | None]) -> None:
    assert found({"deny": "ops.*", "when": when}) == [finding]


@requirement("findings.policy.3")
def test_facts_that_something_has_and_people_are_left_alone() -> None:
    for when in ({"tag": "infra"}, {"agent": "int*"}, {"owner": "whoever"}, {"effect": "read"}):
        assert found({"deny": "ops.*", "when": when}) == []


@requirement("findings.policy.3")
def test_an_exception_that_fits_none_of_the_tools_of_its_rule_is_found() -> None:
    assert found({"deny": "ops.*", "except": ["ops.statsu"]}) == [("NO_TOOL", "ops.status")]
    assert found({"deny": "ops.*", "except": ['ops.status(hst = "a")']}) == [("NO_ARGUMENT", "host")]
    assert found({"deny": "ops.*", "except": ["ops.status"]}) == []


@requirement("findings.policy.4")
@pytest.mark.parametrize(
    ("grant", "finding"),
    [
        ("fs:wrte:x", ("NO_CAPABILITY", "fs:write")),
        ("ntw:egress:*", ("NO_CAPABILITY", "net:egress")),
        ("net:egress:other.example", None),
        ("fs:write", ("BARE_GRANT", None)),
        ("payments:refund", None),
        ("fs:*:${workspace}/**", None),
        ("*", None),
    ],
)
def test_a_grant_of_what_no_tool_needs_is_found(grant: str, finding: tuple[str, str | None] | None) -> None:
    assert found(grants={"allow": [grant]}) == ([] if finding is None else [finding])
    assert found(grants={"ask": [grant]}) == ([] if finding is None else [finding])


@requirement("findings.policy.4")
def test_a_denial_of_a_family_that_no_tool_needs_is_found_and_one_of_a_whole_family_is_not() -> None:
    assert found(grants={"deny": ["fs:wrte:x"]}) == [("NO_CAPABILITY", "fs:write")]
    assert found(grants={"deny": ["fs:write"]}) == []


@requirement("findings.policy.4")
def test_a_host_without_the_port_that_tools_use_is_found() -> None:
    fixed = [one for one in TOOLS if one.name == "status"]
    policy = load({"grants": {"allow": ["net:egress:status.example"]}}, folders=FOLDERS)
    (finding,) = policy.check(fixed)
    assert (finding.code, finding.nearest) == ("USUAL_PORTS", "net:egress:status.example:8443")
    assert load({"grants": {"allow": ["net:egress:status.example:8443"]}}, folders=FOLDERS).check(fixed) == []
    assert found(grants={"allow": ["net:egress:localhost"]}) == [("USUAL_PORTS", None)]


@requirement("findings.policy.4")
def test_grants_of_a_preset_are_no_mistake_of_whoever_names_it() -> None:
    assert load({"preset": "default"}, folders=FOLDERS).check(TOOLS) == []


@requirement("findings.policy.5")
def test_people_sources_and_folders_that_do_not_exist_are_found() -> None:
    groups = {"finance": ["ann"]}
    rule = {"ask": "ops.*", "approvers": ["finanse", "finance"]}
    assert found(rule, groups=groups) == [("NO_GROUP", "finance")]
    assert found(trust_annotations=["opss"]) == [("NO_SOURCE", "ops")]
    assert found(trusted_folders=["/no/such/folder"]) == [("NO_FOLDER", None)]


@requirement("findings.policy.6")
def test_a_finding_says_file_line_code_and_what_was_meant() -> None:
    origin = DataOrigin("crib.yaml", lambda number: 10 + number, lambda place: 20)
    data = {"rules": [{"deny": "ops.statsu"}], "grants": {"deny": ["fs:wrte:x"]}}
    rule, grant = load(data, folders=FOLDERS, place=origin).check(TOOLS)
    assert str(rule) == (
        "crib.yaml:11: rule-1 (deny ops.statsu) denies a tool that does not exist, did you mean 'ops.status'?"
    )
    assert str(grant).startswith("crib.yaml:20: grants.deny: fs:wrte:x matches nothing")
    assert rule.data() == {
        "code": "NO_TOOL",
        "severity": "warning",
        "message": "rule-1 (deny ops.statsu) denies a tool that does not exist",
        "about": "policy",
        "file": "crib.yaml",
        "line": 11,
        "nearest": "ops.status",
    }


def test_without_any_tools_nothing_can_be_said_of_what_rules_are_about() -> None:
    data = {"rules": [{"deny": "ops.statsu"}], "grants": {"deny": ["fs:wrte:x"]}}
    assert load(data, folders=FOLDERS).check([]) == []

"""policy.preset.1: starting points for grants and limits."""

from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.policy.capabilities import parse
from toolcrib.policy.paths import Folders
from toolcrib.policy.presets import PRESETS

CASES = case_data("policy/presets.json")
AT = Folders("/shop/desk", "/people/ada", str)


@requirement("policy.preset.1")
@pytest.mark.parametrize("case", CASES, ids=[case["preset"] for case in CASES])
def test_presets_are_as_the_shared_cases_say(case: dict[str, Any]) -> None:
    preset = PRESETS[case["preset"]]
    assert (list(preset.grants.allow), list(preset.grants.ask)) == (case["allow"], case["ask"])
    assert (preset.grants.deny, preset.grants.ungranted) == ((), "deny")
    assert (preset.max_runtime_s, preset.calls_per_turn) == (case["max_runtime_s"], case["calls_per_turn"])


@requirement("policy.preset.1")
def test_the_developer_reads_the_workspace_and_is_asked_for_all_else() -> None:
    preset = PRESETS["developer"]
    grants = preset.grants.bound(AT)
    requests = ("fs:read:a.py", "fs:read:/etc/x", "fs:write:a.py", "exec:cmd:ls", "net:egress:a.example", "pay:now")
    assert [grants.judge(parse(text)).effect for text in requests] == ["allow", *["ask"] * 5]
    assert preset.calls_per_turn == 64


@requirement("policy.preset.1")
@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_grants_an_interpreter_by_name(name: str) -> None:
    assert PRESETS[name].grants.bound(AT).warnings == ()


@requirement("policy.preset.1")
def test_further_grants_are_added_to_a_preset() -> None:
    preset = PRESETS["free"].grants
    grants = preset._replace(deny=("exec:cmd:find",), allow=(*preset.allow, "exec:cmd:make")).bound(AT)
    judged = [grants.judge(parse(f"exec:cmd:{name}")).effect for name in ("ls", "find", "make", "python3")]
    assert judged == ["allow", "deny", "allow", "deny"]

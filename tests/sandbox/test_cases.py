"""The recorded cases of real files and those written for the sandbox: values whole, faults by their code."""

import json
import re
from functools import cache, partial
from typing import Any

import pytest
import yaml

from tests.requirements import requirement
from tests.sandbox.conftest import Run, at_some_pace
from tests.shared import NO_RECORDINGS, RECORDINGS, recorded
from toolcrib.sandbox import SandboxError

FILES = (
    "own-sandbox",
    "own-styles",
    "inline-definitions",
    "clickup.helpers",
    "clickup.validators",
    "google-workspace.helpers",
    "google-workspace.validators",
)

FAULTS = {
    r"exceeded \w+ timeout": ("timeout",),
    r"(?:execution failed|Validation error in '[^']*'):": ("threw", "syntax"),
}
VERDICTS = ("returned invalid format", "without saying why", "has no function defined")
"""What is said about a value by those who judge it, which happens elsewhere."""


def _cases() -> list[Any]:
    if not RECORDINGS.is_dir():
        return [pytest.param({}, id="none", marks=pytest.mark.skip(NO_RECORDINGS))]
    found = []
    for name in FILES:
        for number, case in enumerate(recorded(f"cases/{name}.jsonl")):
            if "definitions" not in case and "expect_findings" not in case and not _judged(case):
                found.append(pytest.param(case, id=f"{name}-{number}"))
    return found


def _judged(case: dict[str, Any]) -> bool:
    told = json.dumps([case.get("expect"), case.get("expect_error")])
    return any(verdict in told for verdict in VERDICTS)


def _definition(case: dict[str, Any]) -> dict[str, Any]:
    if "definition" in case:
        return dict(case["definition"])
    parts = _parts(case["tool"])
    if case["kind"] == "helper":
        return dict(next(part for part in parts["helpers"] if part["id"] == case["helper"]))
    return dict(next(part for part in parts["validators"] if part["validates"] == case["command"]))


@cache
def _parts(tool: str) -> Any:
    text = (RECORDINGS / f"tools/mcp/{tool}.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["tool"]["executable_knowledge"]


def _fault(case: dict[str, Any]) -> tuple[tuple[str, ...], str] | None:
    """The codes and the message that a case expects of a fault."""
    if "expect_code" in case:
        return tuple(case["expect_code"]), ""
    expected: Any = case.get("toolcrib_expect", case.get("expect"))
    told = case.get("toolcrib_expect_error", case.get("expect_error"))
    if told is None and case["kind"] == "validator":
        told = "".join(error for error in expected["errors"] if isinstance(error, str))
    for pattern, codes in FAULTS.items():
        if found := re.search(pattern, told or ""):
            return codes, (told or "")[found.end() :].strip(" .") if "threw" in codes else ""
    return None


def _compare(case: dict[str, Any], value: Any) -> None:
    expected: Any = case.get("toolcrib_expect", case.get("expect"))
    if case["kind"] == "validator":
        errors = value.get("errors", [])
        assert bool(value["valid"]) == expected["valid"]
        assert ([errors] if isinstance(errors, str) else errors) == expected["errors"]
        return
    for key in case.get("nondeterministic", ()):
        value.pop(key, None)
        expected.pop(key, None)
    assert value == expected


@requirement("yaml.code.1", "yaml.code.2", "yaml.code.3", "yaml.code.4", "yaml.box.3")
@pytest.mark.parametrize("case", _cases())
async def test_a_case_gives_what_it_should(case: dict[str, Any], js: Run, py: Run) -> None:
    await at_some_pace(partial(_gives, case, js, py))


async def _gives(case: dict[str, Any], js: Run, py: Run, pace: float) -> None:
    definition = _definition(case)
    run = py if definition.get("language") == "python" else js
    name = definition.get("id") or case.get("command") or ""
    limit = (0.5 if case["kind"] == "validator" else 1.0) * pace
    for _ in range(case.get("repeat", 1)):
        try:
            ran = await run(definition["function"], case["args"], name=name, role=case["kind"], timeout_s=limit)
        except SandboxError as fault:
            _expected_fault(case, fault)
        else:
            if "expect_one_of" in case:
                assert {"value": json.loads(ran.value)} in case["expect_one_of"]
            else:
                assert _fault(case) is None
                _compare(case, json.loads(ran.value))


def _expected_fault(case: dict[str, Any], fault: SandboxError) -> None:
    if "expect_one_of" in case:
        assert {"code": fault.code} in case["expect_one_of"]
        return
    expected = _fault(case)
    assert expected is not None, f"{fault.code}: {fault.message}"
    codes, message = expected
    assert fault.code in codes
    assert fault.message.startswith(message)

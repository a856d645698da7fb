"""Awaken's AgentSpec as an agent of ours."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from toolcrib.agent.definition import Agent
from toolcrib.agent.problems import BadAgent, ProblemCollector
from toolcrib.policy.globs import escaped

log = logging.getLogger("toolcrib.agent")

_OTHERS = (
    *("active_hook_filter", "backend", "context_policy", "endpoint", "max_continuation_retries", "plugin_ids"),
    *("reasoning_effort", "registry", "sections"),
)
_KNOWN = (
    *("id", "model_id", "system_prompt", "max_rounds", "stop_conditions", "description", "delegates"),
    *("allowed_tools", "allowed_tool_patterns", "excluded_tools", "excluded_tool_patterns"),
)
BEHAVIORS = ("allow", "ask", "deny")
_NAMES = {"id": "name", "model_id": "model", "system_prompt": "instructions", "max_rounds": "max_turns"}
_NAMES |= {"stop_conditions": "stop", "description": "description"}
_THEIRS = {ours: theirs for theirs, ours in _NAMES.items()}
_THEIRS |= {"tools": "allowed_tool_patterns", "exclude": "excluded_tool_patterns", "sub_agents": "delegates"}
_THEIRS |= {"policy": "sections"}


def to_agent(spec: str | bytes | Mapping[str, Any]) -> Agent:
    """The agent that an AgentSpec, or its JSON text, describes.

    Raises:
        BadAgent: it has a field that nobody knows, misses its id, or does not hold; or its section `permission` says
            more than rules can.
    """
    findings = ProblemCollector()
    fields = _object(spec, findings)
    findings.keys(fields, (*_KNOWN, *_OTHERS), ())
    if "id" not in fields and not findings.problems:
        findings.add("missing", ("id",), "is missing")
    findings.raise_if_any()
    data = {ours: fields[theirs] for theirs, ours in _NAMES.items() if fields.get(theirs) is not None}
    allowed = [key for key in ("allowed_tools", "allowed_tool_patterns") if key in fields]
    if allowed:
        data["tools"] = _tools(fields, *allowed)
    data["exclude"] = _tools(fields, "excluded_tools", "excluded_tool_patterns")
    data["sub_agents"] = [{"agent": name, "via": "call"} for name in fields.get("delegates") or ()]
    if (policy := _permissions(fields)) is not None:
        data["policy"] = policy
    data["metadata"] = {key: fields[key] for key in _OTHERS if key in fields}
    if fields.get("plugin_ids"):
        names = ", ".join(map(str, fields["plugin_ids"]))
        log.warning("Agent '%s': plugins of Awaken do nothing here: %s", fields["id"], names)
    try:
        return Agent(**data)
    except BadAgent as error:
        problems = (
            one._replace(path=(_THEIRS.get(str(one.path[0]), one.path[0]), *one.path[1:])) for one in error.problems
        )
        raise BadAgent(problems) from None


def _permissions(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The rules of the section `permission`: dropped in silence, they would leave the agent more than it may have."""
    sections = fields.get("sections")
    section = sections.get("permission") if isinstance(sections, Mapping) else None
    if section is None:
        return None
    findings, path = ProblemCollector(), ("sections", "permission")
    table: Mapping[str, Any] = section if isinstance(section, Mapping) else {}
    if table is not section:
        findings.add("wrong_type", path, "is no object")
    findings.keys(table, ("default_behavior", "rules"), path)
    default = table.get("default_behavior", "allow")
    if default not in BEHAVIORS:
        findings.add("unknown_value", (*path, "default_behavior"), f"{default!r} is none of {', '.join(BEHAVIORS)}")
    rules = table.get("rules") or []
    if not isinstance(rules, list):
        findings.add("wrong_type", (*path, "rules"), "is no list")
        rules = []
    made = [_rule(rule, (*path, "rules", number), findings) for number, rule in enumerate(rules)]
    findings.raise_if_any()
    return {"default": default, "rules": made}


def _rule(rule: Any, path: tuple[str | int, ...], findings: ProblemCollector) -> dict[str, str]:
    if not isinstance(rule, Mapping) or not isinstance(rule.get("tool"), str) or rule.get("behavior") not in BEHAVIORS:
        findings.add("wrong_value", path, f"{rule!r} is no rule such as {{tool: Bash, behavior: ask}}")
        return {}
    findings.keys(rule, ("tool", "behavior"), path)
    return {str(rule["behavior"]): rule["tool"]}


def _object(spec: Any, findings: ProblemCollector) -> Mapping[str, Any]:
    if isinstance(spec, str | bytes):
        try:
            spec = json.loads(spec)
        except ValueError as error:
            findings.add("wrong_value", (), f"is no JSON: {error}")
            spec = {}
    if not isinstance(spec, Mapping):
        findings.add("wrong_type", (), "is no object")
        return {}
    return spec


def _tools(fields: Mapping[str, Any], *keys: str) -> list[Any]:
    """Names stand for themselves, also where they look like globs; patterns are globs."""
    selectors: list[Any] = []
    for key in keys:
        entries = fields.get(key) or []
        if not isinstance(entries, list) or not all(isinstance(one, str) for one in entries):
            findings = ProblemCollector()
            findings.add("wrong_type", (key,), "is no list of texts")
            raise BadAgent(findings.problems)
        selectors += entries if key.endswith("patterns") else [escaped(one) for one in entries]
    return selectors

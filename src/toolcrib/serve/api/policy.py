"""The rules in force, and how often each decided about a call lately."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from toolcrib._session.statistics import SPANS, StatsFilter, statistics
from toolcrib.policy import rules_of
from toolcrib.policy.rule_policy import Layers, RulePolicy
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route


class RuleForm(Struct, omit_defaults=True):
    """A rule in force. `name` is how verdicts name it, `decided` how many calls of the last week it decided.

    `points` are those step by step; `pattern`, `excepts` and `when` say which calls it speaks of, `approvers` who has
    to agree where it asks, `line` where it stands in the file.
    """

    name: str
    effect: Literal["allow", "ask", "deny"]
    pattern: str
    decided: int
    points: list[int]
    reason: str = ""
    excepts: list[str] = []
    when: dict[str, list[str]] = {}
    approvers: str | None = None
    line: int | None = None


class PolicyForm(Struct, omit_defaults=True):
    """The policy in force: its rules in order, and what becomes of calls that no rule speaks of.

    `others` are rules that decided about calls lately and are not in force, such as those of agents, of sessions and of
    an earlier policy. `custom` says that it is a policy of a program's own making, which has no rules to show.
    """

    default: str
    since: float
    step_s: int
    rules: list[RuleForm]
    others: dict[str, int]
    preset: str | None = None
    file: str | None = None
    custom: bool = False


def _layers(policy: RulePolicy | Layers | None) -> Iterator[RulePolicy]:
    if isinstance(policy, Layers):
        yield from policy.layers
    elif policy is not None:
        yield policy


async def policy(request: ApiRequest) -> ApiReply:
    """The rules in force, with how often each decided in the last week."""
    crib = request.api.crib
    now = crib.pipeline.clock.now()
    counted = await statistics(crib.store, StatsFilter(now - SPANS["week"], now, "rule"), {})
    groups = {group.name: group for group in counted.groups}
    layers = list(_layers(rules_of(crib.pipeline.policy)))
    rules = [
        RuleForm(
            name=rule.shown,
            effect=rule.effect,
            pattern=rule.pattern.text,
            decided=groups[rule.shown].calls if rule.shown in groups else 0,
            points=groups[rule.shown].points if rule.shown in groups else [],
            reason=rule.reason,
            excepts=[one.text for one in rule.excepts],
            when={one.fact: list(one.globs) for one in rule.when},
            approvers=None if rule.demand is None else rule.demand.words(),
            line=rule.line,
        )
        for layer in layers
        for rule in layer.rules
    ]
    known = {rule.name for rule in rules}
    others = {name: group.calls for name, group in groups.items() if name not in known}
    first = layers[0] if layers else None
    return json_reply(
        PolicyForm(
            default="" if first is None else first.default,
            since=counted.since,
            step_s=counted.step_s,
            rules=rules,
            others=others,
            preset=None if first is None else first.preset,
            file=None if first is None or crib.origin.file is None else str(crib.origin.file),
            custom=first is None,
        )
    )


ROUTES = [
    Route(
        "GET",
        "/v1/policy",
        policy,
        "The rules in force, with how often each decided about a call in the last week.",
        "admin",
        gives={200: PolicyForm},
    ),
]

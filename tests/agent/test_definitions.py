"""Definitions of agents: files of every form, all errors at once, tool selection, sub-agents, changed files."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import DATA, case_data
from toolcrib.agent import Agent, AgentRegistry, Agents, BadAgent, ScriptedModel, load
from toolcrib.agent.awaken import to_agent
from toolcrib.agent.files import read_file
from toolcrib.agent.problems import ProblemCollector
from toolcrib.agent.registry import AgentLibrary
from toolcrib.agent.stop_conditions import read_stop
from toolcrib.tool import Tool

GOOD = ("support.yaml", "billing.md", "research.md")


def plain(agent: Agent, key: str) -> Any:
    """A field as a file says it."""
    return {**Agent(name="x", max_turns=1).data(), **agent.data()}.get(key, _default(key))


def _default(key: str) -> Any:
    found = getattr(Agent(name="x"), key)
    return list(found) if isinstance(found, tuple) else found


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


@requirement("agents.def.1", "agents.def.2", "agents.def.3", "agents.def.4")
def test_the_shared_files_load_or_say_everything_that_is_wrong() -> None:
    folder = DATA / "agents" / "definitions"
    for case in case_data("agents/definitions.json"):
        paths = list(dict.fromkeys(folder / name for name in (*GOOD, case["file"])))
        if case["ok"]:
            agent = load(*paths)[case["agent"]["name"]]
            for key, value in case["agent"].items():
                assert (agent.max_turns if key == "max_turns" else plain(agent, key)) == value, (case["file"], key)
        else:
            with pytest.raises(BadAgent) as caught:
                load(*paths)
            assert all(text in str(caught.value) for text in case["error_contains"])


@requirement("agents.def.3")
def test_specs_of_awaken_become_agents() -> None:
    for case in case_data("agents/awaken_specs.json"):
        if case["ok"]:
            agent = to_agent(case["input"])
            for key, value in case["agent"].items():
                found = getattr(agent, key)
                assert (list(found) if isinstance(found, tuple) else found) == value
        else:
            with pytest.raises(BadAgent) as caught:
                to_agent(case["input"])
            assert (caught.value.problems[0].kind, caught.value.problems[0].field) == (case["problem"], case["field"])


@requirement("agents.def.3")
def test_a_spec_of_awaken_keeps_what_only_awaken_knows_and_calls_its_delegates() -> None:
    agent = to_agent({"id": "a", "delegates": ["b"], "plugin_ids": ["p"], "allowed_tools": None})
    assert agent.sub_agent("b", "call") is not None
    assert agent.sub_agent("b", "transfer") is None
    assert agent.metadata == {"plugin_ids": ["p"]}
    assert not agent.has("default.anything")


@requirement("agents.run.7")
def test_stop_conditions_load_or_say_what_is_wrong() -> None:
    for case in case_data("agents/stop_conditions.json"):
        findings = ProblemCollector()
        made = read_stop(json.loads(case["input"]), (), findings)
        assert (made is not None and not findings.problems) == case["ok"], case
        if not case["ok"]:
            assert (findings.problems[0].kind, findings.problems[0].field) == (case["problem"], case["field"])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"type": "content_match", "pattern": "("}, "wrong_value"),
        ({"type": "timeout", "seconds": -1}, "wrong_value"),
        ({"type": "token_budget", "max_total": True}, "wrong_type"),
        ({"type": "stop_on_tool"}, "missing"),
        ({"type": "loop_detection", "window": 1.5}, "wrong_type"),
        ("timeout", "wrong_type"),
    ],
)
@requirement("agents.run.7")
def test_a_bad_stop_condition_is_an_error(given: Any, problem: str) -> None:
    with pytest.raises(BadAgent) as caught:
        Agent(name="a", stop=[given])
    assert caught.value.problems[0].kind == problem


@requirement("agents.def.5")
def test_tools_are_selected_by_globs_and_bare_names() -> None:
    for case in case_data("agents/tool_selection.json"):
        if case.get("error"):
            with pytest.raises(BadAgent, match="policy rules"):
                Agent(name="a", tools=[case["pattern"]])
            continue
        forms = {
            "awaken": lambda case: to_agent(case["spec"]),
            "glob": lambda case: Agent(name="a", tools=[case["pattern"]]),
            "ours": lambda case: Agent(name="a", **case["agent"]),
        }
        assert forms[case["form"]](case).has(case["tool"]) == case["offered"], case


@requirement("agents.transfer.2", "agents.def.4")
def test_sub_agents_are_checked_when_loading_and_when_asked() -> None:
    for case in case_data("agents/sub_agents.json"):
        given = {case["from"]: case["sub_agents"]}
        if "load_error" in case:
            with pytest.raises(BadAgent) as caught:
                AgentRegistry(Agent(name=name, sub_agents=given.get(name, ())) for name in case["agents"])
            assert case["load_error"] in str(caught.value)
            continue
        book = AgentRegistry(Agent(name=name, sub_agents=given.get(name, ())) for name in case["agents"])
        if "load_warning" in case:
            assert case["load_warning"] in book.warnings[0].text
        else:
            assert (case["target"] in book.reached(book[case["from"]], case["via"])) == case["allowed"], case


@requirement("agents.def.4")
def test_all_errors_of_all_files_come_at_once_with_file_and_line(tmp_path: Path) -> None:
    written(tmp_path, "a.yaml", "name: twin\nmodel: m\ninstructions: x\nmax_turns: 0\n")
    written(tmp_path, "b.md", "---\nname: twin\nmodel: m\nstop:\n  - {type: nap}\n---\nHello.\n")
    written(tmp_path, "c.yaml", "model: m\ninstructions: x\nsub_agents:\n  - c\n  - twins\nmax_turn: 3\n")
    with pytest.raises(BadAgent) as caught:
        load(tmp_path)
    said = [line.removeprefix(f"{tmp_path}{os.sep}") for line in caught.value.lines]
    assert [line.partition(": ")[0] for line in said] == [
        "a.yaml:1",
        "a.yaml:4",
        "b.md:2",
        "b.md:5",
        "c.yaml:4",
        "c.yaml:5",
        "c.yaml:6",
    ]
    assert "'c' is the agent itself" in said[4]
    assert "did you mean 'twin'?" in said[5]


@requirement("agents.def.2")
@pytest.mark.parametrize(
    ("text", "instructions"),
    [
        ("---\nmodel: m\n---\n\n\n# Title\n\n---\nafter\n", "# Title\n\n---\nafter\n"),
        ("+++\nmodel = 'm'\n+++\n  indented\n", "  indented\n"),
        ("---\nmodel = 'm'\nmax_iterations = 3\n---\ntext", "text"),
    ],
)
def test_the_body_of_a_markdown_file_is_the_instructions(tmp_path: Path, text: str, instructions: str) -> None:
    agent = load(written(tmp_path, "one.md", text))["one"]
    assert agent.instructions == instructions


@requirement("agents.def.2")
@pytest.mark.parametrize("text", ["no front matter", "---\n- a list\n---\nx", "---\n= =\n---\nx", "\xff"])
def test_a_file_that_cannot_be_read_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "one.md"
    path.write_bytes(text.encode("latin-1"))
    assert read_file(path).agent is None
    assert len(read_file(path).lines) == 1


@requirement("agents.def.7")
def test_an_unknown_name_in_instructions_is_an_error() -> None:
    Agent(name="a", instructions="{{owner}} {{shop}} {{now}}", vars={"shop": "x"})
    with pytest.raises(BadAgent, match=r"\{\{shp\}\}"):
        Agent(name="a", instructions="{{shp}}", vars={"shop": "x"})


@requirement("agents.def.1")
def test_a_definition_survives_being_written_down() -> None:
    given: dict[str, Any] = {
        "name": "a",
        "model": "m",
        "tools": ["x.*"],
        "sub_agents": ["b", {"agent": "c", "via": "call"}],
        "stop": [{"type": "timeout", "seconds": 3}],
        "handover": {"max": 2, "history": {"last": 3}},
        "policy": {"rules": [{"deny": "rm"}]},
    }
    agent = Agent(**given)
    assert agent.data() == given
    assert Agent(**agent.data()).digest() == agent.digest()


@requirement("agents.def.4")
def test_everything_wrong_with_an_agent_of_a_program_comes_at_once() -> None:
    given: dict[str, Any] = {"name": "a b", "tools": "x", "max_turns": "3", "topics": "yes"}
    given |= {"output_schema": {"type": "nope"}, "policy": {"rulez": []}}
    with pytest.raises(BadAgent) as caught:
        Agent(**given)
    assert [problem.path[0] for problem in caught.value.problems] == [
        *("name", "tools", "max_turns", "output_schema", "policy", "topics"),
    ]


@requirement("agents.def.6")
def test_a_changed_file_is_loaded_and_one_with_errors_leaves_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, "a.yaml", "model: m\ninstructions: one\n")
    library = AgentLibrary([tmp_path])
    first = library.registry
    written(tmp_path, "a.yaml", "model: m\ninstructions: two, longer\n")
    assert library.registry["a"].instructions == "two, longer"
    assert first["a"].instructions == "one"
    written(tmp_path, "a.yaml", "model: m\ninstruction: three, with a typo\n")
    assert library.registry["a"].instructions == "two, longer"
    assert f"{path}:2" in library.problems[1]
    assert "instruction" in caplog.text


@requirement("findings.agents.2")
def test_a_namespace_selects_all_its_tools_and_excludes_them() -> None:
    agent = Agent(name="a", tools=["clickup"])
    assert agent.has("clickup.create_task")
    assert not agent.has("click.up")
    assert not Agent(name="a", exclude=["clickup"]).has("clickup.create_task")


@requirement("findings.agents.1")
def test_selectors_and_rules_of_an_agent_that_are_about_nothing_are_found() -> None:
    tool = Tool(name="add", namespace="sums", description="x", run=lambda *_: None)
    rules, model = {"rules": [{"deny": "sums.ad"}]}, ScriptedModel({})
    agents = Agents([Agent(name="a", tools=["sums.*", "sum.*"], exclude=["subtract"], policy=rules)], model=model)
    found = [(one.code, one.about, one.nearest) for one in agents.findings([tool])]
    assert found == [
        ("NO_SELECTION", "agents", "sums.*"),
        ("NO_SELECTION", "agents", None),
        ("NO_TOOL", "agents", "sums.add"),
    ]
    assert Agents([Agent(name="a", tools=["sums", "*"])], model=model).findings([tool]) == []


@requirement("findings.agents.4")
def test_a_model_that_an_agent_does_not_have_is_found() -> None:
    agents = [Agent(name="a"), Agent(name="b", model="gpt-5"), Agent(name="c", model="openai:gpt-5")]
    messages = [one.message for one in Agents(agents).findings([])]
    assert messages == [
        "Agent 'a': model: Agent 'a' has no model (none is named)",
        "Agent 'b': model: 'gpt-5' is no model: name it as provider:model-name",
    ]


@requirement("findings.agents.3")
def test_the_permissions_of_a_spec_of_awaken_become_rules() -> None:
    rules = [{"tool": "Bash", "behavior": "ask"}, {"tool": "rm_*", "behavior": "deny"}]
    agent = to_agent({"id": "a", "sections": {"permission": {"default_behavior": "allow", "rules": rules}}})
    assert agent.policy == {"default": "allow", "rules": [{"ask": "Bash"}, {"deny": "rm_*"}]}
    assert to_agent({"id": "a", "sections": {"other": {}}}).policy is None


@requirement("findings.agents.3")
@pytest.mark.parametrize(
    "section",
    [
        {"rules": [{"tool": "Bash", "behavior": "maybe"}]},
        {"rules": [{"tool": "Bash(", "behavior": "deny"}]},
        {"rules": [{"tool": "Bash", "behavior": "deny", "unless": "x"}]},
        {"default_behavior": "sometimes"},
        {"roles": []},
        [],
    ],
)
def test_permissions_that_cannot_be_held_refuse_the_spec(section: object) -> None:
    with pytest.raises(BadAgent) as caught:
        to_agent({"id": "a", "sections": {"permission": section}})
    assert caught.value.problems[0].field.startswith("sections")

"""`toolcrib agents`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.project import environment
from tests.cli.team import Team, says
from tests.requirements import requirement
from toolcrib.agent import Agents, ScriptedModel
from toolcrib.cli.config.loader import load
from toolcrib.extras import install

WRONG = """\
description: Somebody.
instructions: You help.
model: test/one
sub_agents: [biling, "nobody_*"]
max_turn: 3
"""


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path, support=[says("Hello.")])


def test_agents_are_listed(team: Team) -> None:
    lines = team.inside("agents", "list").out.splitlines()
    assert lines[0].split() == ["Agent", "Model", "Tools", "Sub-agents", "What", "it", "does"]
    assert [line.split()[0] for line in lines[1:]] == ["billing", "clerk", "support"]
    assert "support (default)" in lines[3]
    listed = team.inside("agents", "list", "--json").json
    assert [(one["name"], one["model"], one["default"]) for one in listed] == [
        ("billing", "test/one", False),
        ("clerk", "test/one", False),
        ("support", "test/one", True),
    ]


@requirement("agents.def.5")
async def test_an_agent_is_shown_with_just_what_its_model_sees(team: Team) -> None:
    crib = load(team.folder / "crib.yaml")
    assert isinstance(crib.agents, Agents)
    async with crib:
        session = await crib.open(owner="ada", namespaces=["*"])
        await session.send("hi")
        model = crib.agents.named("test/one")
    assert isinstance(model, ScriptedModel)
    shown = team.run("agents", "show", "support", "--json").json
    assert [tool["name"] for tool in shown["sees"]["tools"]] == [tool.name for tool in model.requests[0].tools]
    assert "mail.send" not in [tool["id"] for tool in shown["sees"]["tools"]]
    assert (shown["sees"]["transfer"], shown["sees"]["call"]) == (["billing"], ["billing", "clerk"])
    assert shown["limits"]["max_turns"] == 16


def test_an_agent_is_shown_in_words(team: Team) -> None:
    out = team.inside("agents", "show", "support").out
    for expected in ("support (default)", "Transfers  billing", "Calls      billing, clerk", "Turns      at most 16"):
        assert expected in out
    assert "  You find out what people need." in out
    assert "shop.refund" in out
    assert "did you mean support?" in team.inside("agents", "show", "suport", code=2).err


def test_an_agent_sees_no_more_than_the_session_has_open(team: Team) -> None:
    shown = team.inside("agents", "show", "billing", "-n", "door", "--json").json
    assert [tool["id"] for tool in shown["sees"]["tools"] if not tool["id"].startswith("builtin.")] == []


@requirement("agents.def.4")
def test_lint_tells_all_that_is_wrong_with_its_place(team: Team) -> None:
    team.write("team/support.yaml", WRONG)
    team.write("team/clerk.yaml", "model: test/one\n")
    ran = team.inside("agents", "lint", code=1)
    assert ran.out.splitlines() == [
        "team/clerk.yaml:1: instructions: instructions missing",
        "team/support.yaml:4: sub_agents: unknown agent 'biling' (did you mean 'billing'?)",
        "team/support.yaml:5: max_turn: unknown key 'max_turn' (did you mean 'max_turns'?)",
        "team/support.yaml:4: sub_agents: 'nobody_*' matches no agent (a warning)",
        "3 agents: 3 errors, 1 warning",
    ]


def test_lint_needs_no_crib_where_paths_are_named(team: Team) -> None:
    (team.folder / "crib.yaml").unlink()
    team.write("team/clerk.yaml", "model: x\ninstructions: y\nsub_agents: ['team_*']\n")
    ran = team.inside("agents", "lint", "team", "--json").json
    assert sorted(ran["agents"]) == ["billing", "clerk", "support"]
    assert [(one["file"], one["line"], one["key"], one["severity"]) for one in ran["problems"]] == [
        ("team/clerk.yaml", 3, "sub_agents", "warning")
    ]
    assert "There is no nowhere" in team.inside("agents", "lint", "nowhere", code=2).err
    assert "There is no crib.yaml" in team.inside("agents", "lint", code=2).err


def test_what_scripts_need_is_told_where_it_is_not_installed(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.write("team/clerk.yaml", "model: test/one\ninstructions: y\ntools: ['*', builtin.run_script]\n")
    assert "nothing is wrong" in team.inside("agents", "lint").out
    assert team.inside("agents", "show", "clerk", "--json").json["warnings"] == []
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    told = f"builtin.run_script is not offered to 'clerk', since nothing can run it here: {install('sandbox')}"
    assert f"team/clerk.yaml:3: tools: {told} (a warning)" in team.inside("agents", "lint").out
    assert told in team.inside("agents", "show", "clerk").out
    shown = team.inside("agents", "show", "clerk", "--json").json
    assert shown["warnings"] == [told]
    assert "run_script" not in [tool["name"] for tool in shown["sees"]["tools"]]


def test_the_graph_is_mermaid_or_dot(team: Team) -> None:
    assert team.inside("agents", "graph").out.splitlines() == [
        "flowchart TD",
        '  a0["billing"]',
        '  a1["clerk"]',
        '  a2(["support"])',
        "  a2 -->|transfer, call| a0",
        "  a2 -.->|call| a1",
    ]
    dot = team.inside("agents", "graph", "--format", "dot").out
    assert dot.startswith("digraph agents {")
    assert '  "support" -> "clerk" [label="call", style=dashed];' in dot
    assert team.inside("agents", "graph", "--json").json["edges"] == [
        {"from": "support", "to": "billing", "via": ["transfer", "call"], "returns": False},
        {"from": "support", "to": "clerk", "via": ["call"], "returns": False},
    ]


def test_on_a_terminal_the_graph_is_a_tree_in_which_circles_end(team: Team) -> None:
    team.write("team/clerk.yaml", "model: x\ninstructions: y\nsub_agents: [{agent: support, returns: true}]\n")
    with team.screen("agents", "graph") as screen:
        screen.expect("support").expect("default").expect("├── billing").expect("└── clerk").expect("└── support")
        screen.expect("transfer, returns, call …")
        assert screen.ended() == 0


def test_a_crib_without_agents_says_where_to_name_them(team: Team) -> None:
    team.write("crib.yaml", "sources: [shop_tools.py]\n")
    for words in (["list"], ["graph"], ["show", "support"]):
        assert "name their files in crib.yaml" in team.inside("agents", *words, code=2).err


def test_a_crib_of_a_program_has_its_own_agents(team: Team) -> None:
    team.write(
        "own.py",
        "from toolcrib import Crib\n"
        "from toolcrib.agent import Agent, Agents, ScriptedModel\n"
        "def crib():\n"
        "    model = ScriptedModel({'solo': [{'text': 'Just me.'}]})\n"
        "    return Crib(agents=Agents([Agent(name='solo', instructions='x')], model=model))\n",
    )
    assert team.run("--crib", "own:crib", "run", "solo", "hi").out == "Just me.\n"
    assert "1 agent: nothing is wrong" in team.run("--crib", "own:crib", "agents", "lint").out


def test_the_shell_completes_names_of_agents(team: Team) -> None:
    words = "toolcrib chat s"
    asked = {"_TOOLCRIB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'toolcrib'; from toolcrib.cli import main; main()"],
        cwd=team.folder,
        env=environment() | asked | {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["support"]


def test_the_log_of_a_run_is_told_in_words(team: Team) -> None:
    team.inside("run", "support", "hi", "-s", "s-1")
    out = team.inside("sessions", "watch", "s-1", "--no-follow").out
    assert "user: hi" in out
    assert "support: Hello." in out
    assert 'support answered: "Hello."' in out

"""`agents` in a `crib.yaml`."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.team import Team, says
from tests.cli.test_config import loaded, problems
from tests.requirements import requirement
from toolcrib.agent import Agents, ModelError, ScriptedModel
from toolcrib.agent.providers import ProviderModel

MODEL = """
from toolcrib.agent.models import Finish, Model, Text

class Echo(Model):
    async def respond(self, request):
        yield Text(request.messages[-1].text)
        yield Finish("stop")

echo = Echo()

def make():
    return Echo()

nothing = 3

def fail():
    raise ValueError("no key")
"""


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    team = Team(tmp_path, support=[says("Hello.")])
    team.write("own_models.py", MODEL)
    folder = Path.cwd()
    os.chdir(tmp_path)
    yield team
    os.chdir(folder)


def agents(team: Team, text: str) -> Agents:
    made = loaded(team.folder, text).agents
    assert isinstance(made, Agents)
    return made


@pytest.mark.parametrize(
    "said", ["team", "[team]", "[team/support.yaml, team/clerk.yaml, team/billing.md]", "{files: team}"]
)
def test_definitions_are_files_and_folders(team: Team, said: str) -> None:
    assert sorted(agents(team, f"agents: {said}\n").registry) == ["billing", "clerk", "support"]


def test_the_first_answers_unless_another_is_the_default(team: Team) -> None:
    assert agents(team, "agents: [team]\n").default == "billing"
    assert agents(team, "agents: {files: team, default: clerk}\n").default == "clerk"


def test_models_are_scripts_objects_and_those_of_providers(team: Team) -> None:
    text = """\
agents:
  files: team
  models:
    fast: openai:gpt-5
    "test/*": {scripted: script.yaml}
    echo: {python: "own_models:echo"}
    made: {python: "own_models:make"}
    kind: {python: "own_models:Echo"}
  providers: {local: {provider: openai-chat, base_url: "http://127.0.0.1:1/v1"}}
"""
    made = agents(team, text)
    assert isinstance(made.named("test/one"), ScriptedModel)
    assert {type(made.named(name)).__name__ for name in ("echo", "made", "kind")} == {"Echo"}
    for name, meant in (("fast", "openai:gpt-5"), ("anthropic:x", "anthropic:x"), ("local:any", "local:any")):
        model = made.named(name)
        assert isinstance(model, ProviderModel)
        assert model.name == meant
    with pytest.raises(ModelError, match="is no model"):
        made.named("unheard-of")


def test_one_script_speaks_for_all_agents_that_name_it(team: Team) -> None:
    made = agents(team, (team.folder / "crib.yaml").read_text())
    assert made.model_of(made.registry["support"]) is made.model_of(made.registry["billing"])


def test_a_model_that_nobody_has_is_told_with_what_to_do(team: Team) -> None:
    team.write("crib.yaml", "agents: team\n")
    team.write("team/support.yaml", "model: unheard-of\ninstructions: x\nsub_agents: [billing]\n")
    ran = team.inside("run", "support", "hi", code=2)
    assert "'unheard-of' is no model" in ran.err
    assert "`models` of `agents` in crib.yaml" in ran.err


@requirement("findings.agents.4")
def test_a_model_that_is_almost_one_of_the_file_is_told_with_that(team: Team) -> None:
    team.write("crib.yaml", "agents: {files: team, models: {fast: openai:gpt-5, '*/*': openai:gpt-5}}\n")
    team.write("team/support.yaml", "model: fsat\ninstructions: x\nsub_agents: [billing]\n")
    told = "team/support.yaml:1: Agent 'support': model: 'fsat' is no model: name it as provider:model-name"
    assert f"{told}, did you mean 'fast'?" in team.inside("agents", "lint").out


def test_paths_start_beside_the_file(team: Team) -> None:
    config = team.write("elsewhere/crib.yaml", "agents: {files: ../team, models: {'*': {scripted: ../script.yaml}}}\n")
    assert team.inside("--crib", str(config), "run", "support", "hi").out == "Hello.\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("agents: 3\n", "1: expected a text, got '3'"),
        ("agents:\n  - team\n  - []\n", "3: expected a text, got '[]'"),
        ("agents: {models: {}}\n", "1: agents: expected files, such as {files: [team/]}"),
        ("agents:\n  files: team\n  modles: {}\n", "3: unknown key 'modles'; did you mean 'models'?"),
        ("agents:\n  - team\n  - nowhere/\n", "3: agents: there is no nowhere"),
        (
            "agents:\n  files: team\n  default: suport\n",
            "3: agents: There is no agent 'suport' (did you mean 'support'?)",
        ),
        (
            "agents:\n  files: team\n  models:\n    a: {scripted: none.json}\n",
            "4: agents.models.a: cannot read none.json: No such file or directory",
        ),
        ("agents:\n  files: team\n  models:\n    a: {}\n", "4: agents.models.a: expected a name such as"),
        (
            "agents:\n  files: team\n  models:\n    a: {scripted: own_models.py}\n",
            "4: agents.models.a: own_models.py is no script",
        ),
        (
            "agents:\n  files: team\n  models:\n    a: {python: 'own_models:mak'}\n",
            "4: agents.models.a: 'own_models' has no 'mak'; did you mean 'make'?",
        ),
        (
            "agents:\n  files: team\n  models:\n    a: {python: 'own_models:nothing'}\n",
            "4: agents.models.a: own_models:nothing is a int, and no Model",
        ),
        (
            "agents:\n  files: team\n  models:\n    a: {python: 'own_models:fail'}\n",
            "4: agents.models.a: own_models:fail failed: ValueError: no key",
        ),
        (
            "agents:\n  files: team\n  providers:\n    a: {api_key: secret}\n",
            "4: agents.providers.a: no key stands in a file: name the variable that holds it, as api_key_env",
        ),
    ],
)
def test_what_is_wrong_is_told_at_its_line(
    team: Team, text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(team.folder)
    monkeypatch.delitem(sys.modules, "own_models", raising=False)
    (line,) = problems(team.folder, text)
    assert line.startswith(expected)
    assert "secret" not in line


def test_an_empty_folder_has_no_agents(team: Team) -> None:
    (team.folder / "empty").mkdir()
    assert problems(team.folder, "agents: empty\n") == ["1: agents: there are no definitions in these files"]


def test_all_problems_of_all_definitions_are_told_with_those_of_the_file(team: Team) -> None:
    team.write("team/clerk.yaml", "model: x\nmax_turn: 1\n")
    found = problems(team.folder, "agents: [team]\nretention: soon\n")
    assert found == [
        "1: agents: team/clerk.yaml:1: instructions: instructions missing",
        "1: agents: team/clerk.yaml:2: max_turn: unknown key 'max_turn' (did you mean 'max_turns'?)",
        "2: retention: expected a time such as 12h, 7d or null, got 'soon'",
    ]

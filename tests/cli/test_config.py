"""`crib.yaml` and `--crib`."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.project import Project
from tests.requirements import requirement
from toolcrib.cli.config.document import BadConfig
from toolcrib.cli.config.loader import load
from toolcrib.cli.crib_choice import chosen
from toolcrib.cli.terminal import Choice
from toolcrib.crib import Crib
from toolcrib.errors import BadSecretKey
from toolcrib.state import Key

BAD = """\
sorces: [shop_tools]
sources:
  - shop_tools:fnd
  - no_such_module
  - no_such_file.py
limits:
  timeout: 5
  per_crib: many
retention: soon
"""


def loaded(folder: Path, text: str) -> Crib:
    path = folder / "crib.yaml"
    path.write_text(text, "utf-8")
    return load(path)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(BadConfig) as caught:
        loaded(folder, text)
    return [f"{problem.line}: {problem.message}" for problem in caught.value.problems]


@requirement("project.file.1")
def test_all_problems_are_told_at_once_with_their_lines(project: Project) -> None:
    project.write("crib.yaml", BAD)
    err = project.run("tools", "list", code=2).err
    for expected in (
        "crib.yaml:1: unknown key 'sorces'; did you mean 'sources'?",
        "crib.yaml:3: 'shop_tools' has no 'fnd'; did you mean 'find'?",
        "crib.yaml:4: there is no module 'no_such_module'",
        "crib.yaml:5: there is no file",
        "crib.yaml:7: limits: unknown key 'timeout'; did you mean 'timeout_s'?",
        "crib.yaml:8: limits.per_crib: expected a whole number, got 'many'",
        "crib.yaml:9: retention: expected a time such as 12h, 7d or null, got 'soon'",
        "Next:  mend this and try again",
    ):
        assert expected in err


def test_broken_yaml_names_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "sources: [a\nstore: memory:\n")
    assert problem.startswith("2: this is no YAML")


def test_a_rule_that_does_not_load_is_told_at_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "policy:\n  rules:\n    - {allow: 'git.*'}\n    - {deny: 'edit(path ~ '}\n")
    assert problem.startswith("4: policy:")


@pytest.mark.parametrize("said", ["soon", "7", "-1d", "99999999999w", "[7d]"])
def test_a_retention_that_is_no_time_is_a_problem(tmp_path: Path, said: str) -> None:
    (problem,) = problems(tmp_path, f"retention: {said}\n")
    assert problem.startswith("1: retention: expected a time such as 12h, 7d or null, got ")


def test_limits_that_are_off_by_default_can_be_set(tmp_path: Path) -> None:
    limits = loaded(tmp_path, "limits: {per_owner: 3, session_rate: 30/min}\n").pipeline.limits
    assert (limits.per_owner, limits.session_rate) == (3, "30/min")


def test_a_rate_that_is_none_is_told_at_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "limits:\n  owner_rate: often\n")
    assert problem.startswith("2: limits.owner_rate: 'often' is no rate")


def test_a_key_that_stands_twice_is_a_problem(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "store: 'memory:'\nstore: 'memory:'\n")
    assert problem == "2: 'store' stands here a second time (first on line 1)"


def test_an_unknown_store_is_told_at_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "retention: 1d\nstore: ftp://x\n")
    assert problem.startswith("2: Unknown store 'ftp://x'")


def test_a_file_that_is_no_mapping_is_a_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, "- shop\n") == ["1: expected a mapping, got \"['shop']\""]


def test_values_arrive_in_the_crib(tmp_path: Path) -> None:
    crib = loaded(tmp_path, "retention: 12h\nlimits: {timeout_s: 5, per_session: 2}\ndefault_namespaces: [a, b]\n")
    assert crib.retention == timedelta(hours=12)
    assert (crib.pipeline.limits.timeout_s, crib.pipeline.limits.per_session) == (5.0, 2)
    assert crib.default_namespaces == ("a", "b")


def test_an_empty_file_is_an_empty_crib(tmp_path: Path) -> None:
    crib = loaded(tmp_path, "# nothing yet\n")
    assert (crib.store.url, crib.retention) == ("memory:", timedelta(days=7))


@pytest.mark.parametrize("name", ["shop.db", "data/50%25 of it.db?sync=full"])
def test_a_relative_store_lies_beside_its_file(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a b#c"
    folder.mkdir()
    url = loaded(folder, f"store: sqlite:///{name}\n").store.url
    assert url.startswith("sqlite:////")
    assert "a%20b%23c/" in url


def test_an_absolute_store_stays_where_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    assert loaded(tmp_path, f"store: {url}\n").store.url == url


def test_another_folder_reads_the_same_project(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    project.write("elsewhere/crib.yaml", "sources: [../shop_tools.py]\nstore: sqlite:///../shop.db\n")
    ran = project.run("--crib", "elsewhere/crib.yaml", "sessions", "list", "--json")
    assert [row["id"] for row in ran.json] == ["s-1"]


def test_sources_are_functions_of_modules_and_files_of_any_name(project: Project) -> None:
    project.write("my-tools.py", "from shop_tools import find\nmine = find.but(name='mine')\n")
    project.write("crib.yaml", "sources: ['shop_tools:refund', my-tools.py]\n")
    ids = [tool["id"] for tool in project.run("tools", "list", "--namespace", "shop", "--json").json["tools"]]
    assert ids == ["shop.find", "shop.mine", "shop.refund"]


def test_a_file_that_a_process_cannot_import_holds_no_isolated_tool(project: Project) -> None:
    project.write("my-tools.py", "from toolcrib import tool\n@tool(isolate=True)\ndef f() -> None:\n    'F.'\n")
    project.write("crib.yaml", "sources: [my-tools.py]\n")
    assert "rename the file" in project.run("tools", "list", code=2).err


def test_a_source_that_does_not_load_names_the_place(project: Project) -> None:
    project.write("faulty.py", "x = 1\ny = x / 0\n")
    project.write("crib.yaml", "sources: [faulty]\n")
    ran = project.run("tools", "list", code=2)
    assert "crib.yaml:1: module 'faulty' does not load: ZeroDivisionError: division by zero" in ran.err
    assert "faulty.py:2" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("text", "place"),
    [("x = 1\ndef f(:\n", "faulty.py:2"), ("from toolcrib import tool\n\n@tool\ndef f(): ...\n", "faulty.py:3")],
    ids=["no Python", "no tool"],
)
def test_what_is_wrong_with_a_source_is_placed_in_its_file(project: Project, text: str, place: str) -> None:
    project.write("faulty.py", text)
    project.write("crib.yaml", "sources: [faulty]\n")
    assert f"{place})" in project.run("tools", "list", code=2).err


def test_two_tools_of_one_name_are_told(project: Project) -> None:
    project.write("crib.yaml", "sources: [shop_tools, 'shop_tools:find']\n")
    ran = project.run("tools", "list", code=2)
    assert "crib.yaml:1: Tool 'find' is already registered in namespace 'shop'" in ran.err


def test_a_folder_without_a_crib_leads_to_the_demo(tmp_path: Path, project: Project) -> None:
    (project.folder / "crib.yaml").unlink()
    ran = project.run("tools", "list", code=2)
    assert "There is no crib.yaml in" in ran.err
    assert "--crib toolcrib.demo:crib" in ran.err


@pytest.mark.parametrize("name", ["made", "make"])
def test_a_crib_is_an_object_or_a_function_that_makes_one(project: Project, name: str) -> None:
    text = "import shop_tools\nfrom toolcrib import Crib\nmade = Crib([shop_tools])\ndef make():\n    return made\n"
    project.write("app.py", text)
    ran = project.run("call", "find", "-a", "order=1", "--crib", f"app:{name}")
    assert ran.json["order"] == "1"


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("nope.yaml", "There is no file nope.yaml"),
        ("nope:crib", "there is no module 'nope'"),
        ("shop_tools:fnd", "did you mean 'find'?"),
        ("shop_tools:PAID", "not a Crib"),
    ],
)
def test_a_choice_that_leads_nowhere_says_what_to_name(project: Project, choice: str, said: str) -> None:
    ran = project.run("--crib", choice, "tools", "list", code=2)
    assert said in ran.err
    assert "Next:" in ran.err


def test_what_is_declared_of_tools_arrives_and_what_is_wrong_is_told_at_its_line(project: Project) -> None:
    text = "sources: [shop_tools]\ndeclare:\n  shop.find: {effect: once, annotations: {open_world: true}}\n"
    (found,) = [tool for tool in loaded(project.folder, text).catalog.view(("shop",)).tools if tool.name == "find"]
    assert (found.does, found.vouched) == ("once", True)
    wrong = "declare:\n  shop.*:\n    effct: read\n  far.*: {kinds: {path: file}}\n"
    assert problems(project.folder, wrong) == [
        "3: declare.shop.*: declare.effct: unknown key, did you mean 'effect'?",
        "4: declare.far.*: kinds.path: 'file' is none of path, glob, url, command, text, secret",
    ]


def test_keys_of_the_state_say_how_they_change_and_how_long_they_live(tmp_path: Path) -> None:
    text = "state_keys:\n  visits: add\n  notes: {mode: append, lives: run}\n  plan: {lives: run}\n"
    assert loaded(tmp_path, text).state_keys == {
        "visits": Key("add"),
        "notes": Key("append", "run"),
        "plan": Key("exclusive", "run"),
    }
    for said in ("{mode: push}", "{lives: ever}", "{mod: add}", "[add]"):
        (line,) = problems(tmp_path, f"state_keys:\n  notes: {said}\n")
        assert "2: state_keys.notes: expected " in line


def test_people_of_a_policy_that_do_not_load_are_told_at_their_line(tmp_path: Path) -> None:
    text = "policy:\n  rules:\n    - {allow: x}\n    - {deny: y, quorum: 2}\n"
    (line,) = problems(tmp_path, text)
    assert "4: policy: 'rules[1].quorum': only a rule that asks has somebody answer" in line


@requirement("security.secret.4")
async def test_the_key_for_secrets_is_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "the.key").write_text("k" * 32)
    monkeypatch.setenv("SHOP_KEY", "k" * 32)
    digests = set()
    for place in ("file:the.key", "env:SHOP_KEY"):
        async with loaded(tmp_path, f"secret_key: {place}\n") as crib:
            digests.add(crib.pipeline.vault.digest("x"))
    assert len(digests) == 1
    monkeypatch.delenv("SHOP_KEY")
    with pytest.raises(BadSecretKey, match="SHOP_KEY is not set"):
        await loaded(tmp_path, "secret_key: env:SHOP_KEY\n").start()
    (problem,) = problems(tmp_path, "secret_key: hunter2\n")
    assert "env:NAME or file:PATH" in problem
    assert "hunter2" not in problem


@requirement("security.secret.4")
def test_a_variable_with_a_key_counts_more_than_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crib.yaml").write_text("secret_key: env:ABSENT\n")
    monkeypatch.setenv("TOOLCRIB_SECRET_KEY", "v" * 32)
    crib = chosen(Choice(str(tmp_path / "crib.yaml")))
    assert crib.pipeline.vault.problem() is None

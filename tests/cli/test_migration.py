"""`toolcrib tools migrate`, `rollback`, `diff` and `new`."""

import shutil
from pathlib import Path

import pytest

from tests.cli.definitions import GREET, greeting, real_tools
from tests.cli.project import Project, Screen
from tests.requirements import requirement

OLD = """\
# A tool of the first days
tool:
  id: old   # never change this
  type: cli
  name: 'Old'
  version: 1.0.0
  description: >
    Folded
    text
  commands: [run]
"""
ROOT = ("--root", ".toolcrib/tools")


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without files of his own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def old(tmp_path: Path) -> Project:
    return greeting(tmp_path, old=OLD)


def text(project: Project) -> str:
    return (project.folder / ".toolcrib/tools/old.yaml").read_text()


@requirement("yaml.mig.1", "yaml.mig.2", "yaml.mig.3")
def test_a_real_file_goes_to_the_second_version_and_back_to_its_first_bytes(tmp_path: Path) -> None:
    project = Project(tmp_path)
    shutil.copytree(real_tools(), tmp_path / "tools")
    file = tmp_path / "tools/mcp/exa.yaml"
    first = file.read_bytes()
    where = ("--root", "tools", "--json")

    def version() -> int:
        found = project.run("tools", "lint", "exa", *where).json["files"][0]["schema_version"]
        assert isinstance(found, int)
        return found

    assert project.run("tools", "migrate", "exa", *where).json["schema_version"] == 2
    assert version() == 2
    added = (
        "\n  # What we learned\n  executable_knowledge:\n    validators:\n      - id: validate-search\n"
        "        validates: web_search_exa\n        checks: [{required_fields: [query]}]\n"
    )
    file.write_bytes(file.read_bytes().rstrip() + added.encode())
    checked = ("tools", "call", "exa.web_search_exa", "--validate-only", "--args")
    project.run(*checked, "{}", *where, code=1)
    done = project.run("tools", "rollback", "exa", *where).json
    assert Path(done["backup"]).is_file()
    assert version() == 1
    project.run(*checked, "{}", *where)
    comments = [line for line in first.decode().splitlines() if line.lstrip().startswith("#")]
    assert [line for line in file.read_text().splitlines() if line in comments] == comments
    project.run("tools", "rollback", "exa", "--restore", *where)
    assert file.read_bytes() == first


@requirement("yaml.mig.1", "yaml.mig.3")
def test_migrate_puts_the_version_first_keeps_a_backup_and_does_it_once(old: Project) -> None:
    done = old.run("tools", "migrate", "old", *ROOT, "--json").json
    assert text(old) == OLD.replace("tool:\n", "tool:\n  schema_version: 2.0\n")
    assert Path(done["backup"]).read_text() == OLD
    assert Path(done["backup"]).parent == old.folder / ".toolcrib/backups"
    again = old.run("tools", "migrate", "old", *ROOT, "--json").json
    assert (again["changed"], again["backup"]) == (False, None)
    assert "nothing is changed" in old.run("tools", "migrate", "old", *ROOT).err


@requirement("yaml.mig.1")
def test_a_scaffold_is_made_of_comments(old: Project) -> None:
    old.run("tools", "migrate", ".toolcrib/tools/old.yaml", "--scaffold")
    added = set(text(old).splitlines()) - set(OLD.splitlines()) - {"  schema_version: 2.0"}
    assert any("executable_knowledge" in line for line in added)
    assert all(line.lstrip().startswith("#") for line in added)


@requirement("yaml.mig.3")
def test_a_dry_run_shows_the_change_and_makes_none(old: Project) -> None:
    out = old.run("tools", "migrate", "old", "--dry-run", *ROOT).out
    assert "\n+  schema_version: 2.0\n" in out
    assert text(old) == OLD
    assert not (old.folder / ".toolcrib/backups").exists()


@requirement("yaml.mig.3")
def test_a_backup_is_named_to_be_restored(old: Project) -> None:
    backup = old.run("tools", "migrate", "old", *ROOT, "--json").json["backup"]
    old.run("tools", "rollback", "old", "--restore", backup, *ROOT)
    assert text(old) == OLD
    assert "say --restore" in old.run("tools", "rollback", "old", backup, *ROOT, code=2).err
    assert "no backup" in old.run("tools", "rollback", "greet", "--restore", *ROOT, code=1).err


@requirement("yaml.mig.2")
def test_rollback_takes_out_what_only_the_second_version_has(old: Project) -> None:
    done = old.run("tools", "rollback", "greet", *ROOT, "--json").json
    assert done["schema_version"] == 1
    left = (old.folder / ".toolcrib/tools/greet.yaml").read_text()
    assert "schema_version: 1.0" in left
    assert "executable_knowledge" not in left
    assert "failure_empty" not in left
    assert "scenario: success" in left


def test_a_file_that_cannot_be_rewritten_says_so(old: Project) -> None:
    old.write("notes.yaml", "just: data\n")
    assert "it holds no tool" in old.run("tools", "migrate", "notes.yaml", code=1).err
    assert "Did you mean 'old'" in old.run("tools", "migrate", "olld", *ROOT, code=1).err


def test_a_file_is_compared_with_what_it_could_be_was_or_is_elsewhere(old: Project) -> None:
    assert "no backup" in old.run("tools", "diff", "old", *ROOT, code=1).err
    assert "+  schema_version: 2.0" in old.run("tools", "diff", "old", "--migrated", *ROOT).out
    assert "-  executable_knowledge:" in old.run("tools", "diff", "greet", "--rolled-back", *ROOT).out
    old.run("tools", "migrate", "old", *ROOT)
    assert "+  schema_version: 2.0" in old.run("tools", "diff", "old", *ROOT).out
    other = old.run("tools", "diff", "old", "greet", *ROOT, "--json").json
    assert other["changed"] is True
    assert "+  id: greet" in other["diff"]
    assert old.run("tools", "diff", "old", "old", *ROOT, "--json").json["changed"] is False
    old.run("tools", "diff", "old", "greet", "--migrated", *ROOT, code=2)


# New ones


@pytest.mark.parametrize("kind", ["cli", "http", "mcp", "local", "meta"])
def test_a_new_file_lints_clean_and_its_examples_pass(tmp_path: Path, kind: str) -> None:
    project = greeting(tmp_path)
    made = project.run("tools", "new", "my-tool", "--type", kind, "--json").json
    assert Path(made["path"]) == tmp_path / ".toolcrib/tools/my-tool.yaml"
    [file] = project.run("tools", "lint", "my-tool", "--json").json["files"]
    assert (file["status"], file["problems"]) == ("ok", [])
    [report] = project.run("tools", "test", "my-tool", "--json").json["tools"]
    assert (report["passed"], report["failed"], report["unchecked"]) == (2, [], 0)


def test_new_tools_really_run(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    for kind in ("cli", "local"):
        project.run("tools", "new", f"my-{kind}", "--type", kind)
    assert project.run("tools", "call", "my-cli.greet", "--args", '{"name": "Ada"}', "-y").out.strip() == "Hello Ada"
    said = project.run("tools", "call", "my-local.shout", "--args", '{"text": "psst"}', "-y", "--json").json
    assert said["data"] == {"text": "PSST"}


def test_the_type_is_asked_for_on_a_terminal(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    assert "say --type" in project.run("tools", "new", "mine", code=2).err
    with Screen(["tools", "new", "mine"], project.folder) as screen:
        screen.expect("How does it run?").press("http\n").expect("Wrote")
        assert screen.ended() == 0
    assert "type: http" in (tmp_path / ".toolcrib/tools/mine.yaml").read_text()


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    assert "is there already" in project.run("tools", "new", "greet", "--type", "cli", code=1).err
    assert (tmp_path / ".toolcrib/tools/greet.yaml").read_text() == GREET
    assert "is no id" in project.run("tools", "new", "../x", "--type", "cli", code=2).err
    project.run("tools", "new", "other", "--type", "cli", "--root", "defs")
    assert (tmp_path / "defs/other.yaml").is_file()


@pytest.mark.parametrize(
    "words", [("rollback", "git"), ("migrate", "git", "--scaffold"), ("rollback", "git", "--restore")]
)
def test_a_file_that_comes_with_the_package_stays_as_it_is(old: Project, words: tuple[str, ...]) -> None:
    ran = old.run("tools", *words, code=1)
    assert "'git' comes with toolcrib and stays as it is" in ran.err
    assert "to .toolcrib/tools of your project" in ran.err


def test_what_would_become_of_a_file_of_the_package_may_be_looked_at(old: Project) -> None:
    assert "+  schema_version: 1.0" in old.run("tools", "rollback", "git", "--dry-run").out


def test_a_backup_is_named_by_its_path_or_its_name_alone(old: Project) -> None:
    first = text(old)
    backup = Path(old.run("tools", "migrate", "old", "--json").json["backup"])
    missing = old.run("tools", "rollback", "old", "nope.yaml", "--restore", code=1).err
    assert "There is no backup nope.yaml" in missing
    assert f"there are {backup.name}" in missing
    old.run("tools", "rollback", "old", backup.name, "--restore")
    assert text(old) == first


def test_files_below_the_working_directory_are_named_from_there(old: Project) -> None:
    assert old.run("tools", "migrate", "old").out == ".toolcrib/tools/old.yaml is now of version 2\n"
    assert old.run("tools", "new", "fresh", "--type", "cli").out == "Wrote .toolcrib/tools/fresh.yaml\n"

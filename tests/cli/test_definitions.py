"""`toolcrib tools list`, `show` and `lint` over definition files, and where these are looked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.definitions import BROKEN, GREET, greeting, real_tools, served
from tests.cli.project import Project, environment
from tests.requirements import requirement

KEYS = ["id", "type", "version", "schema_version", "status", "commands", "path", "shadows", "problems"]


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without files of his own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def pack(project: Project, name: str, text: str) -> None:
    project.write(f"packs/{name}/tools/greet.yaml", text)


# The list


@requirement("yaml.cli.1", "yaml.cli.2")
def test_the_real_files_are_listed_with_the_reason_of_the_one_that_is_invalid(tmp_path: Path) -> None:
    ran = Project(tmp_path).run("tools", "list", "--root", str(real_tools()), "--json")
    found = {tool["id"]: tool for tool in ran.json["tools"]}
    assert [list(tool) for tool in found.values()] == [KEYS] * 8
    usable = {id for id, tool in found.items() if tool["status"] in ("ok", "degraded")}
    assert len(usable) == 7
    [invalid] = [tool for id, tool in found.items() if id not in usable]
    assert invalid["status"] == "invalid"
    first = invalid["problems"][0]
    assert first["message"] == "Tool missing required field: type"
    assert "cli" in first["fix"]
    assert {id for id in usable if found[id]["schema_version"] == 2} == {"clickup", "google-workspace"}


@requirement("yaml.cli.2")
def test_an_invalid_file_fails_a_list_only_when_it_is_strict(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    ran = project.run("tools", "list", "--root", ".toolcrib/tools")
    assert "Tool missing required field: type" in ran.out
    assert "\x1b" not in ran.out
    project.run("tools", "list", "--root", ".toolcrib/tools", "--strict", code=1)


@requirement("yaml.cli.2")
def test_all_shows_what_is_shadowed_and_what_is_no_tool(tmp_path: Path) -> None:
    project = greeting(tmp_path, other="just: data\n")
    pack(project, "club", GREET.replace("1.0.0", "2.0.0"))
    where = ("--pack", "club", "--root", ".toolcrib/tools", "--json")
    few = project.run("tools", "list", *where).json["tools"]
    every = project.run("tools", "list", "--all", *where).json["tools"]
    assert [tool["id"] for tool in few] == ["broken", "greet"]
    assert sorted(tool["status"] for tool in every) == ["invalid", "not_a_tool", "ok", "ok"]
    assert few[1]["shadows"] == [str(tmp_path / ".toolcrib/tools/greet.yaml")]


@requirement("yaml.cli.2")
def test_a_search_finds_files_by_what_they_do_and_by_words_of_a_registry(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    project.write("registry.yaml", "tools: {greet: {keywords: [etiquette]}}\n")
    words = ("tools", "list", "--root", ".toolcrib/tools", "--json", "--search")
    assert [tool["id"] for tool in project.run(*words, "greeting people").json["tools"]] == ["greet"]
    assert project.run(*words, "etiquette").json["tools"] == []
    found = project.run(*words, "etiquette", "--registry", "registry.yaml").json["tools"]
    assert [tool["id"] for tool in found] == ["greet"]


@requirement("yaml.cli.2")
def test_live_asks_servers_and_a_list_alone_starts_none(tmp_path: Path) -> None:
    log = tmp_path / "peer.log"
    text = served(log, "peer", [{"name": "real"}], "  commands: [real, dreamt]\n")
    project = greeting(tmp_path, peer=text)
    words = ("tools", "list", "--root", ".toolcrib/tools", "--search", "peer", "--json")
    assert project.run(*words).json["tools"][0]["commands"] == ["real", "dreamt"]
    assert not log.exists()
    [tool] = project.run(*words, "--live").json["tools"]
    assert tool["commands"] == ["real"]
    assert "COMMAND_NOT_ON_SERVER" in [problem["code"] for problem in tool["problems"]]


@requirement("yaml.use.1")
def test_statistics_tell_how_commands_were_used_and_nothing_of_what_was_said(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    project.write("crib.yaml", "sources: [.toolcrib/tools]\nstore: sqlite:///log.db\n")
    project.run("tools", "call", "greet.hello", "--args", '{"name": "Grace"}', "-y")
    project.run("tools", "call", "greet.hello", "--args", '{"name": ""}', code=1)
    ran = project.run("tools", "list", "--root", ".toolcrib/tools", "--stats", "--json")
    stats = next(tool for tool in ran.json["tools"] if tool["id"] == "greet")["stats"]
    used = stats["commands"]["hello"]
    assert (used["calls"], used["failures"], used["sessions"]) == (2, {"invalid_arguments": 1}, 2)
    assert used["rejections"] == {"validate-hello": 1}
    assert used["median_ms"] is not None
    assert stats["loads"] == 1
    assert "Grace" not in ran.out
    assert "validate-hello 1" in project.run("tools", "list", "--root", ".toolcrib/tools", "--stats").out


# Where files are looked for


@requirement("yaml.find.1")
def test_files_of_the_project_the_user_and_the_package_are_listed_after_the_tools_of_the_crib(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    project.write("config/toolcrib/tools/mine.yaml", GREET.replace("id: greet", "id: mine"))
    project.write("crib.yaml", "sources: [shop_tools]\n")
    tools = project.run("tools", "list", "--json").json["tools"]
    kinds = {tool["id"]: tool["type"] for tool in tools}
    assert (kinds["shop.find"], kinds["mail.sign"], kinds["greet"], kinds["mine"]) == (
        "function",
        "client",
        "cli",
        "cli",
    )
    files = [tool for tool in tools if "path" in tool]
    assert tools[-len(files) :] == files
    assert any(Path(tool["path"]).parent.name == "shipped" for tool in files)


@requirement("yaml.find.1")
def test_relative_roots_start_at_the_configuration_and_never_at_the_working_directory(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("far/defs/greet.yaml", GREET)
    project.write("far/crib.yaml", "sources: [{files: [defs]}]\n")
    project.write("defs/other.yaml", GREET.replace("id: greet", "id: other"))
    listed = project.run("--crib", "far/crib.yaml", "tools", "list", "--json").json["tools"]
    ids = [tool["id"] for tool in listed]
    assert "greet.hello" in ids
    assert "other" not in ids
    found = project.run("--crib", "far/crib.yaml", "tools", "list", "--root", "defs", "--json").json["tools"]
    assert [tool["id"] for tool in found] == ["greet"]
    assert "There is no folder" in project.run("tools", "list", "--root", "nope", code=2).err


def test_the_files_of_a_project_are_listed_where_there_is_no_crib(tmp_path: Path) -> None:
    assert "greet" in [tool["id"] for tool in greeting(tmp_path).run("tools", "list", "--json").json["tools"]]


@requirement("yaml.find.2")
def test_the_file_of_a_pack_replaces_the_tool_whole_and_show_names_what_it_shadows(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    pack(project, "club", GREET.replace("bye", "farewell"))
    shown = project.run("tools", "show", "greet", "--pack", "club", "--json").json["tool"]
    assert [command["name"] for command in shown["commands"]] == ["hello", "farewell"]
    assert shown["shadows"] == [str(tmp_path / ".toolcrib/tools/greet.yaml")]
    assert shown["trusted"] is False
    assert "Replaces" in project.run("tools", "show", "greet", "--pack", "club").out
    assert "similar: club" in project.run("tools", "list", "--pack", "clib", code=1).err


@requirement("yaml.find.2")
def test_a_pack_of_the_configuration_may_be_trusted(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    pack(project, "club", GREET)
    project.write("crib.yaml", "sources: [{files: .toolcrib/tools, pack: club, trusted_packs: [club]}]\n")
    assert project.run("tools", "show", "greet", "--json").json["tool"]["trusted"] is True


@requirement("yaml.check.5")
def test_checks_beside_a_function_reject_unless_their_folder_is_declared_soft(tmp_path: Path) -> None:
    checks = "checks: [{required_fields: [name]}]"
    project = greeting(
        tmp_path, greet=GREET.replace(checks, checks + "\n        function: '({valid: true, errors: []})'")
    )
    call = ("tools", "call", "greet.hello", "--args", '{"name": ""}', "--validate-only")
    assert "Required field 'name' is missing" in project.run(*call, code=1).out
    project.write("crib.yaml", "sources: [{files: .toolcrib/tools, soft_checks: true}]\n")
    assert project.run(*call).code == 0
    assert "SOFT_CHECKS" in project.run("tools", "lint", "greet").out


# One of them


@requirement("yaml.cli.3")
def test_show_gives_back_every_key_of_the_file(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    said = project.run("tools", "show", "greet", "--root", ".toolcrib/tools", "--json").json
    tool = said["tool"]
    assert said["ok"] is True
    assert list(tool["x-team"].items()) == [("lead", "Ada"), ("since", 2020)]
    assert tool["commands"][0]["x-cost"] == 3
    assert tool["executable_knowledge"]["validators"][0]["id"] == "validate-hello"
    shown = project.run("tools", "show", "greet.hello", "--root", ".toolcrib/tools", "--json").json["tool"]
    assert shown["command"]["input_schema"]["required"] == ["name"]


@requirement("yaml.cli.3")
def test_show_says_what_is_known_of_a_command_in_words(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    assert "greet.hello" in project.run("tools", "show", "greet").out
    out = project.run("tools", "show", "greet.hello").out
    assert "Says hello" in out
    assert 'input: {"name":"Ada"}' in out


@requirement("yaml.cli.3")
@pytest.mark.parametrize(
    ("name", "code", "message", "suggested"),
    [
        ("gret", "not_found", "Tool 'gret' not found in search roots: ", "greet"),
        ("greet.helo", "not_found", "Tool 'greet' has no command 'helo'", "greet.hello"),
        ("broken", "invalid", "Tool 'broken' is invalid: Tool missing required field: type", None),
        ("../greet", "not_found", "not found", None),
    ],
)
def test_show_says_why_there_is_nothing_to_show(
    tmp_path: Path, name: str, code: str, message: str, suggested: str | None
) -> None:
    ran = greeting(tmp_path).run("tools", "show", name, "--root", ".toolcrib/tools", "--json", code=1)
    assert ran.json["ok"] is False
    failure = ran.json["failure"]
    assert failure.keys() == {"code", "message", "hint", "suggestions"}
    assert failure["code"] == code
    assert message in failure["message"]
    assert suggested is None or suggested in failure["suggestions"]


# Lint


@requirement("yaml.cli.3")
def test_lint_tells_every_problem_with_its_place_and_what_would_mend_it(tmp_path: Path) -> None:
    ran = greeting(tmp_path).run("tools", "lint", "--root", ".toolcrib/tools", "--json", code=1)
    files = {file["id"]: file for file in ran.json["files"]}
    assert files["broken"].keys() == {"path", "id", "status", "schema_version", "reason", "problems"}
    [problem] = files["broken"]["problems"]
    assert (problem["code"], problem["severity"], problem["line"]) == ("MISSING_REQUIRED_FIELD", "error", 1)
    assert (files["greet"]["status"], files["greet"]["reason"]) == ("ok", "explicit")


@requirement("yaml.cli.3")
def test_lint_takes_files_folders_and_ids(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    project.write("elsewhere/deep/hi.yaml", GREET.replace("id: greet", "id: hi"))
    project.write("notes.yaml", "just: data\n")
    ran = project.run("tools", "lint", "elsewhere", "notes.yaml", "greet", "--json")
    assert [(file["id"], file["status"]) for file in ran.json["files"]] == [
        ("hi", "ok"),
        ("notes", "not_a_tool"),
        ("greet", "ok"),
    ]
    assert "MISSING_REQUIRED_FIELD" in project.run("tools", "lint", "broken", code=1).out
    assert "did you mean greet" in project.run("tools", "lint", "gret", code=1).err
    project.run("tools", "lint", "nothing.yaml", code=2)


@requirement("findings.tools.12")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sources:\n  - {fils: tools}\n", "crib.yaml:2: expected one of files, mcp, openapi, skills, toolkit"),
        ("sources:\n  - {files: tools, pakc: design}\n", "crib.yaml:2: unknown key 'pakc'"),
        ("sources:\n  - {files: nowhere}\n", "crib.yaml:2:"),
        ("sources: [\n", "crib.yaml:"),
    ],
)
def test_lint_fails_where_it_cannot_know_which_files_to_check(text: str, expected: str, tmp_path: Path) -> None:
    project = greeting(tmp_path)
    project.write("crib.yaml", text)
    ran = project.run("tools", "lint", "--json", code=1)
    assert expected in ran.err
    assert "Definition files that these name are not checked" in ran.err
    assert "error" not in [
        one["severity"] for file in ran.json["files"] for one in file["problems"] if file["id"] == "greet"
    ]
    project.run("tools", "lint", "greet", "--json")


@requirement("yaml.cli.3")
def test_lint_reads_code_and_looks_for_the_members_of_a_tool_of_tools(tmp_path: Path) -> None:
    meta = (
        "tool:\n  id: both\n  type: meta\n  name: Both\n  version: 1.0.0\n  description: Two\n"
        "  meta_specific: {aggregates: [greet, nobody]}\n"
    )
    faulty = GREET.replace("id: greet", "id: faulty").replace("return args.n * 2; }", "return args.n *; }")
    ran = greeting(tmp_path, both=meta, faulty=faulty).run(
        "tools", "lint", "both", "faulty", "--root", ".toolcrib/tools", "--json", code=1
    )
    codes = {file["id"]: [problem["code"] for problem in file["problems"]] for file in ran.json["files"]}
    assert codes == {"both": ["DANGLING_REFERENCE"], "faulty": ["INVALID_FUNCTION_SYNTAX"]}


def test_the_shell_completes_ids_of_definition_files(tmp_path: Path) -> None:
    project = greeting(tmp_path)
    for words in ("toolcrib tools lint gre", "toolcrib tools show gre"):
        asked = {"_TOOLCRIB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "3"}
        done = subprocess.run(
            [sys.executable, "-c", "import sys; sys.argv[0] = 'toolcrib'; from toolcrib.cli import main; main()"],
            cwd=project.folder,
            env=environment() | asked,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.split() == ["greet"]


# crib.yaml


def test_a_crib_takes_folders_files_and_servers_as_sources(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("defs/greet.yaml", GREET)
    project.write("one.yaml", GREET.replace("id: greet", "id: one"))
    peer = served(tmp_path / "peer.log", "peer", [{"name": "real"}])
    command = peer.partition("server_command: ")[2].partition(",")[0]
    words = peer.partition("server_args: ")[2].strip().rstrip("}")
    project.write(
        "crib.yaml",
        f"sources:\n  - defs\n  - one.yaml\n  - mcp: [{command}, {words[1:]}\n    name: far\n    trusted: true\n",
    )
    kinds = {tool["id"]: tool["type"] for tool in project.run("tools", "list", "--json").json["tools"]}
    assert {kinds[id] for id in ("greet.hello", "one.hello")} == {"cli"}
    assert kinds["far.real"] == "mcp"


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ("[nope/]", "there is no file or folder"),
        ("[{files: [nope]}]", "there is no file or folder"),
        ("[{files: ., pak: x}]", "unknown key 'pak'; did you mean 'pack'?"),
        ("[{files: ., pack: nope}]", "Pack 'nope' not found"),
        ("[{mcp: 'npx x', trusted: perhaps}]", "trusted: expected true or false"),
        ("[{mcp: 'npx \"x'}]", "this is no command"),
        ("[{mcp: 'npx x', env: {KEY: '${NOBODY_SET_THIS}'}}]", "the variable NOBODY_SET_THIS is not set"),
        ("[{name: x}]", "expected one of files, mcp, openapi, skills, toolkit"),
    ],
)
def test_a_source_that_cannot_be_is_told_with_its_line(tmp_path: Path, sources: str, said: str) -> None:
    project = Project(tmp_path)
    project.write("crib.yaml", f"\nsources: {sources}\n")
    err = project.run("tools", "list", code=2).err
    assert "crib.yaml:2:" in err
    assert said in err


def test_files_are_linted_although_the_crib_does_not_load(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("defs/broken.yaml", BROKEN)
    project.write("crib.yaml", "sources: [nothing_there, defs]\nlimts: 3\n")
    assert "defs/broken.yaml:1:" in project.run("tools", "lint", "broken", code=1).out

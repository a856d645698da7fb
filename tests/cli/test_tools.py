"""`toolcrib tools`, and what holds for every command."""

import json
import subprocess
import sys

from tests.cli.project import Project, environment


def test_the_list_shows_every_namespace_in_plain_columns(project: Project) -> None:
    ran = project.run("tools", "list")
    assert ran.out.splitlines()[0].split() == ["Tool", "Effect", "Says", "What", "it", "does"]
    assert "mail.send" in ran.out
    assert "shop.refund" in ran.out
    assert "\x1b" not in ran.out


def test_the_list_is_narrowed_by_namespace_and_words(project: Project) -> None:
    ran = project.run("tools", "list", "--namespace", "shop", "--search", "PAY money", "--json")
    assert [tool["id"] for tool in ran.json["tools"]] == ["shop.refund"]


def test_nothing_found_is_said_on_the_side(project: Project) -> None:
    ran = project.run("tools", "list", "--search", "qwertz")
    assert ran.out == ""
    assert "Try it without --search" in ran.err


def test_an_unknown_namespace_names_the_known_ones(project: Project) -> None:
    assert "shop" in project.run("tools", "list", "--namespace", "shpo", code=1).err


def test_a_tool_is_shown_in_words(project: Project) -> None:
    shown = " ".join(project.run("tools", "show", "find").out.split())
    assert "Effect read: changes nothing; runs again after a crash" in shown
    assert "order string yes The order's number." in shown
    assert "deep boolean false" in shown
    assert "runs at most 60 s" in shown
    assert """toolcrib call shop.find '{"order":"7"}'""" in shown


def test_a_tool_is_shown_as_json(project: Project) -> None:
    said = project.run("tools", "show", "refund", "--json").json
    tool = said["tool"]
    assert (said["ok"], tool["type"]) == (True, "function")
    assert (tool["id"], tool["effect"], tool["annotations"]["destructive"]) == ("shop.refund", "once", True)
    assert tool["model_name"] == "refund"
    assert tool["limits"]["timeout_s"] == 60


def test_an_unknown_tool_names_the_nearest(project: Project) -> None:
    assert "did you mean refund" in project.run("tools", "show", "refnd", code=1).err


def test_looking_at_tools_makes_no_store(project: Project) -> None:
    project.run("tools", "list")
    assert not (project.folder / "shop.db").exists()


def test_the_version_is_told(project: Project) -> None:
    assert project.run("--version").out.startswith("toolcrib 0.")


def test_an_unknown_command_names_the_nearest(project: Project) -> None:
    assert "Did you mean" in project.run("tool", code=2).err


def test_the_help_loads_nothing_that_only_commands_need(project: Project) -> None:
    listed = "from typer.main import get_command; dict(get_command(app).commands)"
    program = f"import json, sys; from toolcrib.cli.app import app; {listed}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert {"rich", "yaml", "jsonschema_rs"} & set(json.loads(done.stdout)) == set()


def test_the_shell_completes_names_of_tools_and_sessions(project: Project) -> None:
    project.run("call", "find", "-a", "order=1", "--session", "s-1")
    for words, expected in (("toolcrib call shop.re", "shop.refund"), ("toolcrib sessions show s", "s-1")):
        asked = {"_TOOLCRIB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run(
            [sys.executable, "-c", "import sys; sys.argv[0] = 'toolcrib'; from toolcrib.cli import main; main()"],
            cwd=project.folder,
            env=environment() | asked,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert expected in done.stdout.split()

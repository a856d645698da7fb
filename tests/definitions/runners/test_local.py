"""Scripts beside their file, and programs of this machine."""

from pathlib import Path
from typing import Any

import pytest

from tests.definitions.runners.made import PATH, Programs, called, definition, made, tool_of
from tests.requirements import requirement
from tests.shared import recorded
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.reader import read
from toolcrib.definitions.runners import BadTemplate, RunnerSettings

pytestmark = pytest.mark.process

SCRIPT = "import json, sys; print(json.dumps([sys.argv[1:], sys.stdin.read()]))"
SETTINGS = RunnerSettings(environ={"PATH": PATH})


def local(root: Path, text: str) -> ToolDefinition:
    folder = root / "tools"
    folder.mkdir(exist_ok=True)
    return definition("local", text, path=folder / "made.yaml", root=root)


@requirement("yaml.run.local.1")
async def test_a_script_is_given_the_command_and_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    found = local(tmp_path, "local_specific: {entry_point: ../script.py, runtime: python}\ncommands: [count]")
    result = await called(tool_of(found, "count", SETTINGS), {"a": [1, "é"]})
    assert result.data == [["count"], '{"a":[1,"é"]}']
    how = made(found, "count", SETTINGS)
    assert how.argv is not None
    assert how.argv({})[1:] == [str(tmp_path / "script.py"), "count"]
    assert how.capabilities == ("exec:cmd:python",)


@requirement("yaml.run.local.1")
async def test_a_template_replaces_command_and_input(tmp_path: Path) -> None:
    (tmp_path / "script.sh").write_text('printf \'["%s","%s"]\' "$1" "$2"; cat')
    text = 'local_specific: {entry_point: ../script.sh, runtime: sh}\ncommands: [{name: a, cli_args: [x, "{{y}}"]}]'
    tool = tool_of(local(tmp_path, text), "a", SETTINGS)
    assert (await called(tool, {"y": "b c"})).data == ["x", "b c"]
    failure = (await called(tool, {"y": "-c"})).failure
    assert failure is not None
    assert failure.code == "invalid_arguments"


@requirement("yaml.run.local.1")
async def test_a_script_without_runtime_runs_itself(tmp_path: Path) -> None:
    path = Path(Programs(tmp_path / "bin").write("own", SCRIPT))
    found = local(tmp_path, "local_specific: {entry_point: ../bin/own}\ncommands: [a]")
    assert (await called(tool_of(found, "a", SETTINGS))).data == [["a"], "{}"]
    assert made(found, "a").capabilities == (f"exec:cmd:{path}",)


@requirement("yaml.run.local.1")
async def test_a_script_stays_inside_its_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "out.py").write_text(SCRIPT)
    (root / "link.py").symlink_to(tmp_path / "out.py")
    for entry in ("../../out.py", str(tmp_path / "out.py"), "../link.py"):
        found = local(root, f"local_specific: {{entry_point: {entry}, runtime: python}}\ncommands: [a]")
        with pytest.raises(BadTemplate, match="lies outside of the root"):
            made(found, "a")


@requirement("yaml.run.local.1")
async def test_a_script_that_moves_out_later_does_not_run(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "script.py").write_text(SCRIPT)
    found = local(root, "local_specific: {entry_point: ../script.py, runtime: python}\ncommands: [a]")
    tool = tool_of(found, "a", SETTINGS)
    (root / "script.py").rename(tmp_path / "script.py")
    gone = (await called(tool)).failure
    assert gone is not None
    assert (gone.code, gone.message) == ("unavailable", "The script script.py does not exist")
    (root / "script.py").symlink_to(tmp_path / "script.py")
    moved = (await called(tool)).failure
    assert moved is not None
    assert "lies outside of the root" in moved.message


@pytest.mark.parametrize("runtime", ["perl", 7, "python -i"])
def test_an_unknown_runtime_is_refused(tmp_path: Path, runtime: Any) -> None:
    with pytest.raises(BadTemplate, match="is none of node, python, sh"):
        made(local(tmp_path, f"local_specific: {{entry_point: a, runtime: {runtime}}}\ncommands: [a]"), "a")


@requirement("yaml.run.local.2")
async def test_each_executable_of_a_real_file_is_a_command(programs: Programs) -> None:
    found = read(recorded("tools/local/ffmpeg.yaml"))
    programs.write("ffprobe", SCRIPT)
    tool = tool_of(found, "ffprobe", programs.settings())
    assert (await called(tool, {"args": ["-v", "quiet", "a b.mp4"]})).data == [["-v", "quiet", "a b.mp4"], ""]
    assert tool.capabilities == ("exec:cmd:ffprobe",)
    failure = (
        await called(tool_of(found, "ffplay", RunnerSettings(environ={"PATH": str(programs.folder)})), {"args": []})
    ).failure
    assert failure is not None
    assert failure.code == "unavailable"
    assert "apt install ffmpeg" in (failure.hint or "") or "brew install" in (failure.hint or "")


async def test_a_template_runs_the_only_program_of_a_file(programs: Programs) -> None:
    programs.write("press", SCRIPT)
    text = 'local_specific: {executables: [{name: press}]}\ncommands: [{name: juice, cli_args: ["-n", "{{n}}"]}]'
    assert (await called(tool_of(definition("local", text), "juice", programs.settings()), {"n": 3})).data == [
        ["-n", "3"],
        "",
    ]


async def test_variables_are_declared_as_lists_or_mappings(programs: Programs) -> None:
    programs.write("press", "import os; print(os.environ.get('A'), os.environ.get('B'), os.environ.get('C'))")
    text = """
environment_variables: {A: {required: true, description: First}, "B C": no name}
local_specific: {executables: [press], environment_variables: {B: Second}}
"""
    found = definition("local", text)
    result = await called(tool_of(found, "press", programs.settings(A="1", B="2", C="3")), {"args": []})
    assert result.data == "1 2 None\n"
    failure = (await called(tool_of(found, "press", programs.settings(A="")), {"args": []})).failure
    assert failure is not None
    assert (failure.message, failure.hint) == ("A is not set", "First")

"""What `toolcrib tools show` gives back of a file whose keys are words of ours too."""

import json
from pathlib import Path

from tests.cli.project import Project
from tests.requirements import requirement

TOOL = {
    "id": "odd",
    "type": "api",
    "name": "Odd",
    "version": "1.0.0",
    "description": "Has keys of its own",
    "status": "beta",
    "path": {"deep": [1, {"x": None}]},
    "problems": ["none yet"],
    "x-last": True,
}


@requirement("yaml.file.4")
def test_no_key_of_a_file_is_lost_because_we_have_a_word_like_it(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("tools/odd.yaml", json.dumps({"tool": TOOL}))
    shown = project.run("tools", "show", "odd", "--root", "tools", "--json").json["tool"]
    assert (shown["status"], shown["type"]) == ("ok", "http")
    assert {**{key: shown[key] for key in TOOL}, **shown["written"]} == TOOL


@requirement("yaml.find.4")
def test_what_is_no_id_is_named_as_it_was_given(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("tools/odd.yaml", json.dumps({"tool": TOOL}))
    said = project.run("tools", "show", "../odd", "--root", "tools", "--json", code=1).json
    assert said["failure"]["message"].startswith("Tool '../odd' not found in search roots: ")

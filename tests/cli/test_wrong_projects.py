"""Projects with mistakes: the commands that check one find each of them, at its line, and nothing else."""

import json
import os
import re
import shutil
from pathlib import Path
from unittest import mock

import pytest

from tests.cli.team import Team
from tests.requirements import requirement
from tests.shared import nonempty

PROJECTS = Path(__file__).parents[1] / "data" / "wrong-projects"
NAMES = sorted(path.name for path in PROJECTS.iterdir() if path.is_dir())


class WrongProject(Team):
    """A copy of one of the projects."""

    def __init__(self, folder: Path, name: str) -> None:
        shutil.copytree(PROJECTS / name, folder, dirs_exist_ok=True)
        shutil.copy(PROJECTS / "ops_tools.py", folder)
        self.folder = folder

    def findings(self) -> list[str]:
        """What the three commands find: the command, where it is, and its code; or what makes a command give up."""
        found = set()
        for group, command in (("policy", "check"), ("tools", "lint"), ("agents", "lint")):
            with mock.patch.dict(os.environ):  # a project may have a `.env`
                ran = self.inside(group, command, "--json", code=None)
            if ran.code == 2:
                found |= {f"error {line}" for line in self._told(ran.err)}
            else:
                found |= {f"{group} {one}" for one in self._listed(group, json.loads(ran.out))}
        return sorted(found)

    def _told(self, text: str) -> list[str]:
        return re.findall(r"crib\.yaml:\d+", text)

    def _listed(self, group: str, data: dict[str, list[dict[str, object]]]) -> list[str]:
        if group != "tools":
            told = [one for one in data["findings"] if one["severity"] != "info"]
            return [f"{one.get('file', '-')}:{one.get('line', '-')} {one['code']}" for one in told]
        return [
            f"{Path(str(file['path'])).relative_to(self.folder.resolve())}:{problem['line']} {problem['code']}"
            for file in data["files"]
            for problem in file["problems"]  # type: ignore[attr-defined]
            if problem["severity"] != "info"
        ]


@requirement("findings.projects.1", "findings.config.2", "findings.config.3", "findings.config.4")
@requirement("findings.policy.7", "findings.agents.4", "findings.tools.10", "findings.tools.11")
@requirement("findings.config.6", "findings.config.7", "findings.config.8", "findings.config.9", "findings.policy.8")
@requirement("findings.config.10", "findings.schema.1")
@pytest.mark.parametrize("name", nonempty(NAMES))
def test_every_mistake_of_a_wrong_project_is_found(name: str, tmp_path: Path) -> None:
    expected = (PROJECTS / name / "expected").read_text("utf-8").split("\n")
    assert WrongProject(tmp_path, name).findings() == sorted(line for line in expected if line)


def test_there_are_more_than_twenty_of_them() -> None:
    assert len(NAMES) > 20


@requirement("findings.config.7")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "sources:\n  - {mcp: python -c pass, limits: {timeout: 5}}\n",
            "crib.yaml:2: limits: unknown key 'timeout'; did you mean 'timeout_s'?",
        ),
        ("sources: [ops_tools.py]\nstore: sqlite://shop.db\n", "crib.yaml:2: 'sqlite://shop.db' names no file"),
    ],
)
def test_a_mistake_is_told_with_its_own_line_and_the_keys_of_its_own_section(
    text: str, told: str, tmp_path: Path
) -> None:
    project = WrongProject(tmp_path, "rule-of-no-tool")
    project.write("crib.yaml", text)
    assert told in project.inside("policy", "check", code=2).err

"""Projects with mistakes: the commands that check one find each of them, at its line, and nothing else."""

import json
import re
import shutil
from pathlib import Path

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
            return [f"{one.get('file', '-')}:{one.get('line', '-')} {one['code']}" for one in data["findings"]]
        return [
            f"{Path(str(file['path'])).relative_to(self.folder.resolve())}:{problem['line']} {problem['code']}"
            for file in data["files"]
            for problem in file["problems"]  # type: ignore[attr-defined]
            if problem["severity"] != "info"
        ]


@requirement("findings.projects.1", "findings.config.2")
@pytest.mark.parametrize("name", nonempty(NAMES))
def test_every_mistake_of_a_wrong_project_is_found(name: str, tmp_path: Path) -> None:
    expected = (PROJECTS / name / "expected").read_text("utf-8").split("\n")
    assert WrongProject(tmp_path, name).findings() == sorted(line for line in expected if line)


def test_there_are_more_than_twenty_of_them() -> None:
    assert len(NAMES) > 20

"""What the guide to agents says of the command line can be typed, and happens."""

import re
import shlex
import shutil
from pathlib import Path

from tests.cli.project import Ran
from tests.cli.team import Team
from tests.shared import ROOT

GUIDE = (ROOT / "docs/howto/run-agents.md").read_text("utf-8")
CONSOLE = re.compile(r"<!-- runs in (\S+) -->\n```console\n(.*?)```", re.DOTALL)
EXCERPT = re.compile(r"<!-- from (\S+/command_line/\S+) -->\n```yaml\n(.*?)```", re.DOTALL)
EXAMPLE = "docs_src/howto/agents/command_line"


class Example(Team):
    """The project of the guide, beside the agents that it names."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree((ROOT / EXAMPLE).parent, folder / "agents")
        self.folder = folder / "agents/command_line"


def both(ran: Ran) -> set[str]:
    """The lines of both streams, without how long something took."""
    return {re.sub(r" \(\d+ ms\)", "", line.rstrip()) for line in (ran.out + ran.err).splitlines()}


def test_the_file_that_the_guide_shows_is_the_one_beside_the_example() -> None:
    ((name, text),) = EXCERPT.findall(GUIDE)
    assert (ROOT / name).read_text("utf-8") == text


def test_the_guide_can_be_followed_by_typing(tmp_path: Path) -> None:
    example = Example(tmp_path)
    ((folder, block),) = CONSOLE.findall(GUIDE)
    assert folder == EXAMPLE
    told = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    assert len(told) == 3
    for part in told:
        line, _, expected = part.partition("\n")
        assert both(example.inside(*shlex.split(line)[1:])) == set(expected.splitlines()), line
    example.inside("run", "billing", "I want my money back", "--session", "s-1", code=3)
    assert example.inside("answer", example.asked(), "accept").out in GUIDE
    for line in both(example.inside("run", "--resume", "s-1")):
        assert line in GUIDE

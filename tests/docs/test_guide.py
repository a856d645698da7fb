"""The guide for people who write tools keeps its parts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.shared import ROOT

DOCS = ROOT / "docs"
GUIDE = (DOCS / "howto/write-a-tool.md").read_text("utf-8")
PRINTS = re.compile(r"<!-- prints (\S+) -->\n```text\n(.*?)```", re.DOTALL)
EXCERPT = re.compile(r"<!-- from (\S+) -->\n```python\n(.*?)```", re.DOTALL)


def section(page: str, heading: str) -> str:
    """One section of a page, without its heading."""
    return re.split(r"^## ", page.split(f"\n## {heading}\n", maxsplit=1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def example(page: str, heading: str) -> str:
    """The program that a section shows; it is a file of its own, which `test_project` runs."""
    name, code = EXCERPT.findall(section(page, heading))[0]
    assert (ROOT / name).is_file()
    return str(code)


def printed(command: list[str], folder: Path) -> str:
    """What a program prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@requirement("aomi.guide.1")
@pytest.mark.process
def test_a_first_tool_takes_three_steps_and_at_most_ten_lines(tmp_path: Path) -> None:
    steps = section(GUIDE, "Three steps")
    assert re.findall(r"^\d\. \*\*(\w+)\*\*", steps, re.MULTILINE) == ["Define", "Register", "Call"]
    code = example(GUIDE, "Three steps")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    assert not re.search(r"^class |schema|@|Tool\(", code, re.MULTILINE)
    assert printed([sys.executable, "-W", "error", "-c", code], tmp_path) == PRINTS.findall(steps)[0][1]


@requirement("aomi.guide.2")
def test_the_guide_has_every_kind_of_tool_and_a_test() -> None:
    one = example(GUIDE, "A tool with one result")
    assert "return" in one
    assert "yield" not in one
    stream = example(GUIDE, "A streaming tool")
    assert re.findall(r'yield \{"status": "(\w+)"', stream) == ["started", "progress", "completed"]
    assert "background=True" in example(GUIDE, "A background tool")
    assert "await ctx.ask(" in example(GUIDE, "A tool that asks")
    tested = example(GUIDE, "A test")
    assert "testing.run(" in tested
    assert "async def test_" in tested


@requirement("aomi.guide.3")
def test_the_guide_has_the_namespaces_and_a_checklist() -> None:
    table = re.findall(r"^\| (`.+?) \|", section(GUIDE, "Namespaces"), re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`(\w+)`", cell)}
    assert named >= {"time", "ethereum", "account", "forge", "cast", "search", "default"}
    assert named >= {"wallet", "files", "shell", "http", "sql"}
    points = re.findall(r"^- \[ \] \*\*(.+?)\*\*", section(GUIDE, "Checklist"), re.MULTILINE)
    assert [point.lower() for point in points] == [
        "name",
        "namespace",
        "description",
        "argument docs",
        "effect",
        "limits",
        "failure codes",
        "test",
    ]


@requirement("aomi.guide.4")
@pytest.mark.parametrize(
    "word",
    ["NAME", "NAMESPACE", "Args", "Output", "Error", "support_async", "run_sync", "run_async", "topic", "handler"],
)
def test_the_page_for_people_from_aomi_maps_every_part(word: str) -> None:
    page = (DOCS / "howto/from-aomi.md").read_text("utf-8")
    mapped = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| ")]
    assert any(re.search(rf"\b{word}\b", left) and right.strip() for left, right in mapped)

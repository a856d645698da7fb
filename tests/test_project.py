"""What holds for the project as a whole: its files, its documentation and the weight of its import."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared import ROOT

EXAMPLES = sorted((ROOT / "docs_src").rglob("*.py"))
CLUSTER = [example for example in EXAMPLES if example.parent.name == "cluster"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HEAVY = ["asyncpg", "httpx", "jsonschema_rs", "nats", "rich", "typer", "yaml"]

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home)/")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")
EXCERPT = re.compile(r"<!-- from (\S+) -->\n```python\n(.*?)```", re.DOTALL)
PRINTS = re.compile(r"<!-- prints (\S+) -->\n```text\n(.*?)```", re.DOTALL)
PRINTED = {(ROOT / name, text) for page in PAGES for name, text in PRINTS.findall(page.read_text("utf-8"))}


def own_files() -> list[Path]:
    """List the files that belong to the project: those that git knows or would add."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout, so what belongs to the project is not known")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def lines_with_machine_paths(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), start=1):
        if MACHINE_PATH.search(line):
            yield f"{path.relative_to(ROOT)}:{number}"


def run_python(*arguments: str, cwd: Path, **env: str) -> str:
    """Run a fresh interpreter with warnings as errors and give back what it printed."""
    command = [sys.executable, "-W", "error", *arguments]
    given = os.environ | env
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False, env=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def paragraphs(code: str) -> list[str]:
    """Split code at blank lines and drop indentation, since an excerpt may stand deeper in its file."""
    lines = "\n".join(line.strip() for line in code.strip().splitlines())
    return re.split(r"\n{2,}", lines)


def test_no_file_names_a_path_of_one_machine() -> None:
    assert [place for path in own_files() for place in lines_with_machine_paths(path)] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 130


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text("utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_on_a_page_is_the_code_of_its_example(page: Path) -> None:
    for name, code in EXCERPT.findall(page.read_text("utf-8")):
        source = "\n\n".join(paragraphs((ROOT / name).read_text("utf-8")))
        assert [part for part in paragraphs(code) if part not in source] == []


def test_what_a_page_says_is_printed_by_an_example_that_runs() -> None:
    assert [name for name, _ in PRINTED if name not in EXAMPLES or name in CLUSTER] == []


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if e not in CLUSTER], ids=lambda example: str(example.relative_to(ROOT))
)
def test_an_example_of_the_documentation_runs_again_and_again(example: Path, tmp_path: Path) -> None:
    said = run_python(str(example), cwd=tmp_path)
    assert [text for name, text in PRINTED if name == example and text != said] == [], said
    if any(tmp_path.iterdir()):  # what it left there must not stand in its way
        assert run_python(str(example), cwd=tmp_path) == said


@pytest.mark.parametrize("example", CLUSTER, ids=lambda example: str(example.relative_to(ROOT)))
def test_an_example_of_a_cluster_runs(example: Path, tmp_path: Path, postgres_url: str, nats_url: str) -> None:
    said = run_python(str(example), cwd=tmp_path, TOOLCRIB_STORE=postgres_url, TOOLCRIB_ENGINE=nats_url)
    assert "A-7" in said


def test_importing_toolcrib_loads_nothing_heavy(tmp_path: Path) -> None:
    program = "import json, sys; from toolcrib import Context, Crib, tool; print(json.dumps(sorted(sys.modules)))"
    loaded = run_python("-c", program, cwd=tmp_path)
    assert sorted(set(HEAVY) & set(json.loads(loaded))) == []

"""What holds for the project as a whole: its files, its documentation and the weight of its import."""

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import ready
from tests.assertions import Suite, against_the_clock, never_read, without_assertion, without_data
from tests.shared import ROOT

EXAMPLES = [path for path in sorted((ROOT / "docs_src").rglob("*.py")) if path.parent.name != "frameworks"]
CLUSTER = [example for example in EXAMPLES if example.parent.name == "cluster"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
Check = Callable[[Suite], list[str]]
HEAVY = ["asyncpg", "httpx", "jsonschema_rs", "nats", "rich", "typer", "yaml"]

VAGUE = {"said", "given", "found", "asked", "told"}
VAGUE_LEFT = {
    "events": 6,  # fields of recorded events
}
"""How many variables and parameters of each part still have a name that fits any value; it only goes down."""

MOST_LINES = 500
LONG_MODULES = {
    "_call/admission.py": 520,
    "_call/lifecycle.py": 502,
    "_call/live_call.py": 503,
    "_call/pipeline.py": 506,
    "agent/loop.py": 511,
    "cli/config/model.py": 564,
    "crib.py": 544,
    "policy/shell/grammar.py": 509,
    "session.py": 785,
    "store/__init__.py": 572,
    "store/memory.py": 687,
    "store/postgres/group_commit.py": 510,
    "store/postgres/store.py": 649,
    "store/sqlite/store.py": 522,
    "store/sqlite/writer.py": 511,
}
"""How many lines the modules have that are longer than a module should be; it only gets shorter."""

MOST_LINES_OF_FUNCTION = 50

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


def run_example(example: Path, cwd: Path, **env: str) -> str:
    """Run an example, and return what it printed."""
    done = ready.run(str(example), folder=cwd, env=os.environ | env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def paragraphs(code: str) -> list[str]:
    """Split code at blank lines and drop indentation, since an excerpt may stand deeper in its file."""
    lines = "\n".join(line.strip() for line in code.strip().splitlines())
    return re.split(r"\n{2,}", lines)


@pytest.mark.process
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
    excerpts = EXCERPT.findall(page.read_text("utf-8"))
    sources = {name: "\n\n".join(paragraphs((ROOT / name).read_text("utf-8"))) for name, _ in excerpts}
    assert [part for name, code in excerpts for part in paragraphs(code) if part not in sources[name]] == []


@pytest.mark.process
def test_the_program_of_the_readme_runs_as_it_is_printed(tmp_path: Path) -> None:
    [program, *_] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "refund.py").write_text(program, "utf-8")
    assert run_python("refund.py", cwd=tmp_path) == "True {'receipt': 'A-7: 500 cents back'} None\n"


def test_what_a_page_says_is_printed_by_an_example_that_runs() -> None:
    assert [name for name, _ in PRINTED if name not in EXAMPLES or name in CLUSTER] == []


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if e not in CLUSTER], ids=lambda example: str(example.relative_to(ROOT))
)
@pytest.mark.process
def test_an_example_of_the_documentation_runs_again_and_again(example: Path, tmp_path: Path) -> None:
    said = run_example(example, tmp_path)
    assert [text for name, text in PRINTED if name == example and text != said] == [], said
    if any(tmp_path.iterdir()):  # what it left there must not stand in its way
        assert run_example(example, tmp_path) == said


@pytest.mark.parametrize("example", CLUSTER, ids=lambda example: str(example.relative_to(ROOT)))
def test_an_example_of_a_cluster_runs(example: Path, tmp_path: Path, postgres_url: str, nats_url: str) -> None:
    said = run_example(example, tmp_path, TOOLCRIB_STORE=postgres_url, TOOLCRIB_ENGINE=nats_url)
    assert "A-7" in said


@pytest.fixture(scope="module")
def suite() -> Suite:
    return Suite.read(ROOT / "tests")


def sample(test: str) -> Suite:
    """A suite of one module."""
    return Suite({"tests.test_sample": ast.parse(test)})


@pytest.mark.parametrize("fault", [without_assertion, without_data, never_read, against_the_clock])
def test_every_test_can_fail_and_none_is_a_race_against_the_clock(suite: Suite, fault: Check) -> None:
    assert fault(suite) == []


@pytest.mark.parametrize(
    ("fault", "body"),
    [
        (without_assertion, "run()"),
        (without_assertion, "for case in case_data('x.json'): run(case)"),
        (without_data, "for case in cases(): assert case"),
        (without_data, "for case in (1, 2):\n  for step in case.steps: assert step"),
        (without_data, "while more(): assert True"),
        (never_read, "ran, other = list[int](), 1\n ran.append(1)\n assert other"),
        (against_the_clock, "began = time.monotonic()\n assert time.monotonic() - began < 5"),
        (against_the_clock, "began = perf_counter()\n took = perf_counter() - began\n assert took < 5"),
    ],
)
def test_a_test_that_proves_nothing_is_noticed(fault: Check, body: str) -> None:
    assert len(fault(sample(f"def test_it():\n {body}\n"))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "for case in case_data('x.json'): assert case",
        "for name in ('a', 'b'):\n  for n in range(3): assert name * n",
        "wrong = [1]\n for one in wrong:\n  with pytest.raises(ValueError): run(one)",
        "check(1)",
        "ran = []\n ran.append(1)\n assert ran == [1]",
        "at = time.time() + 60\n assert key.expires_at == at",
    ],
)
def test_a_test_that_proves_something_is_let_through(body: str) -> None:
    whole = sample(f"def check(n):\n assert n\ndef test_it():\n {body}\n")
    assert [fault(whole) for fault in (without_assertion, without_data, never_read, against_the_clock)] == [[]] * 4


@pytest.mark.process
def test_importing_toolcrib_loads_nothing_heavy(tmp_path: Path) -> None:
    program = "import json, sys; from toolcrib import Context, Crib, tool; print(json.dumps(sorted(sys.modules)))"
    loaded = run_python("-c", program, cwd=tmp_path)
    assert sorted(set(HEAVY) & set(json.loads(loaded))) == []


def modules() -> list[Path]:
    return sorted((ROOT / "src/toolcrib").rglob("*.py"))


def test_no_module_is_named_by_a_gerund() -> None:
    names = [path.stem for path in modules()]
    assert "session" in names
    assert [name for name in names if name.endswith("ing") and name != "keyring"] == []


def test_no_module_is_too_long_to_be_read_at_once() -> None:
    counts = {
        str(path.relative_to(ROOT / "src/toolcrib")): len(path.read_text("utf-8").splitlines()) for path in modules()
    }
    assert "session.py" in counts
    assert {name: count for name, count in counts.items() if count > LONG_MODULES.get(name, MOST_LINES)} == {}


def test_no_function_is_too_long_to_be_read_at_once() -> None:
    functions = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert functions
    assert [name for name, lines in functions.items() if lines > MOST_LINES_OF_FUNCTION] == []


def vague_names(path: Path) -> int:
    """Count the places where a variable or parameter gets a name that fits any value."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    variables = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    parameters = [node.arg for node in nodes if isinstance(node, ast.arg)]
    return sum(name in VAGUE for name in variables + parameters)


def test_a_name_says_what_its_value_is() -> None:
    counts: Counter[str] = Counter()
    for path in modules():
        counts[path.relative_to(ROOT / "src/toolcrib").parts[0]] += vague_names(path)
    assert "serve" in counts
    assert {part: count for part, count in counts.items() if count > VAGUE_LEFT.get(part, 0)} == {}


def test_what_a_part_can_do_stands_in_its_class() -> None:
    asking = re.compile(r"\b(?:getattr|hasattr)\((?:\w+\.)*_?(?:store|guard|policy|source|session|agents)(?:\(\))?, ")
    assert asking.search('hasattr(self._store(), "nodes")')
    assert [str(path.relative_to(ROOT)) for path in modules() if asking.search(path.read_text("utf-8"))] == []


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert "Session" in places
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_nothing_says_can_not() -> None:
    texts = {path: path.read_text("utf-8") for path in (*modules(), *PAGES)}
    assert texts
    assert [str(path.relative_to(ROOT)) for path, text in texts.items() if re.search(r"\bcan not\b", text)] == []

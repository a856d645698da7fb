"""Which test runs which line: a pytest plugin that writes it down, and the map that is made of it.

In this process coverage.py counts, with the test as its context. A process that a test starts may be killed at any
moment, so it appends the name of each function when it first enters it.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

FOLDER = "TOOLCRIB_TOUCHED"
"""The variable that names the folder for what is written down."""

HOOK = (
    "if 'TOOLCRIB_TOUCHED' in __import__('os').environ: __import__('runpy').run_path("
    "str(__import__('pathlib').Path(__file__).parents[2] / 'tests/mutants/touched.py'))['follow']()"
)
"""The line that a copy of the package begins with, so that processes that tests start are followed too. It finds this
file by its place: a process may have been given a path of its own for imports.
"""

_OWNER = "TOOLCRIB_TOUCHED_BY"
_PACKAGE = Path(__file__).parents[2] / "src" / "toolcrib"


def follow() -> None:
    """Append each function of the package to a file when this started process first enters it."""
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if test is None or os.environ.get(_OWNER) == str(os.getpid()):
        return
    package, seen = f"{_PACKAGE}{os.sep}", set[Any]()
    name = f"process-{os.getpid()}-{os.urandom(4).hex()}.jsonl"
    out = os.open(Path(os.environ[FOLDER]) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def enter(frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        if code not in seen:
            seen.add(code)
            if code.co_filename.startswith(package):
                line = [test.rpartition(" ")[0], code.co_filename.removeprefix(package), code.co_firstlineno]
                os.write(out, f"{json.dumps(line)}\n".encode())

    sys.settrace(enter)
    threading.settrace(enter)


class Recorder:
    """Counts the lines of each test, and how long it took."""

    def __init__(self, folder: Path) -> None:
        import coverage

        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        os.environ[_OWNER] = str(os.getpid())
        self.times = (folder / f"times-{name}.jsonl").open("a")
        self.coverage = coverage.Coverage(
            data_file=str(folder / f"lines-{name}"), source=[str(_PACKAGE)], config_file=False, messages=False
        )
        self.coverage.set_option("run:disable_warnings", ["no-data-collected", "trace-changed"])
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Count for this test from here on, also where the one before it has ended the count for one of its own."""
        if sys.gettrace() is None:
            self.coverage.stop()
            self.coverage.start()
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down how long a part of the test took."""
        self.times.write(json.dumps([report.nodeid, report.outcome, report.duration]) + "\n")

    def pytest_sessionfinish(self) -> None:
        """Keep what was counted."""
        self.times.close()
        self.coverage.stop()
        self.coverage.save()


def pytest_configure(config: pytest.Config) -> None:
    """Record wherever tests run: in the workers, where there are some."""
    if FOLDER in os.environ and (hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None)):
        config.pluginmanager.register(Recorder(Path(os.environ[FOLDER])))


# The map

Site = tuple[str, str, str]
"""A file of the package, a function in it, and the text of a line; without text, the function as a whole."""


class Touched:
    """How long each test takes and what it runs, by the text of lines, so that the map outlives changes elsewhere."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.tests: defaultdict[Site, set[str]] = defaultdict(set)

    def add(self, folder: Path, package: Path) -> None:
        """Add what was recorded over that package; tests that were recorded before are replaced."""
        seconds: defaultdict[str, float] = defaultdict(float)
        failed = set()
        for file in folder.glob("times-*.jsonl"):
            for test, outcome, duration in map(json.loads, file.read_text().splitlines()):
                seconds[test] += duration
                failed |= {test} if outcome != "passed" else set()
        for tests in self.tests.values():
            tests.difference_update(seconds)
        passed = {test: took for test, took in seconds.items() if test not in failed}
        self.seconds = {test: took for test, took in self.seconds.items() if test not in seconds} | passed
        for test, site in (*_lines(folder, package), *_functions(folder, package)):
            if test in passed:
                self.tests[site].add(test)
                self.tests[(*site[:2], "")].add(test)

    def save(self, file: Path) -> None:
        """Keep it in a file."""
        names = list(self.seconds)
        numbers = {test: number for number, test in enumerate(names)}
        sites = [[*site, sorted(numbers[test] for test in tests)] for site, tests in self.tests.items() if tests]
        whole = file.with_suffix(".new")
        with gzip.open(whole, "wt", compresslevel=3) as out:
            json.dump({"tests": list(self.seconds.items()), "sites": sites}, out)
        whole.replace(file)

    @classmethod
    def load(cls, file: Path) -> Touched:
        """The map of a file."""
        made = cls()
        with gzip.open(file, "rt") as text:
            kept = json.load(text)
        made.seconds = dict(kept["tests"])
        names = list(made.seconds)
        for path, function, line, numbers in kept["sites"]:
            made.tests[path, function, line] = {names[number] for number in numbers}
        return made


class Source:
    """The functions of a file by their lines."""

    def __init__(self, file: Path) -> None:
        text = file.read_text()
        self.lines = text.splitlines()
        self.functions: dict[int, str] = {}
        self.starts: dict[int, str] = {}
        self._name(ast.parse(text), ())

    def _name(self, node: ast.AST, names: tuple[str, ...]) -> None:
        for part in ast.iter_child_nodes(node):
            inner = names
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*names, part.name)
                first = min([part.lineno, *(one.lineno for one in part.decorator_list)])
                self.starts[first] = ".".join(inner)
                for line in range(part.lineno, (part.end_lineno or 0) + 1):
                    self.functions[line] = ".".join(inner)
            self._name(part, inner)


def _lines(folder: Path, package: Path) -> Iterator[tuple[str, Site]]:
    """Which test ran which line in the process of the tests."""
    import coverage

    for kept in folder.glob("lines-*"):
        data = coverage.CoverageData(str(kept))
        data.read()
        for path in data.measured_files():
            file = Path(path)
            if not file.exists() or package not in file.parents:
                continue
            source, name = Source(file), str(file.relative_to(package))
            for line, tests in data.contexts_by_lineno(path).items():
                if (function := source.functions.get(line)) is not None:
                    text = source.lines[line - 1].strip()
                    yield from ((test, (name, function, text)) for test in tests if test)


def _functions(folder: Path, package: Path) -> Iterator[tuple[str, Site]]:
    """Which test entered which function in another process."""
    sources: dict[str, Source] = {}
    found = set()
    for kept in folder.glob("process-*.jsonl"):
        for line in kept.read_text().splitlines():
            try:
                found.add(tuple(json.loads(line)))
            except ValueError:  # its process was killed in the middle of a line
                continue
    for test, name, first in found:
        source = sources.get(name) or sources.setdefault(name, Source(package / name))
        if (function := source.starts.get(first)) is not None:
            yield test, (name, function, "")

"""The tool that puts faults into copies of the source: which faults there are, and that a test notices one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT, Copy, chosen, judge, listed, spread, unmatched
from tests.mutants.faults import Fault, faults
from tests.mutants.limit import HUNG, LIMIT
from tests.mutants.touched import FOLDER, HOOK, Touched
from tests.requirements import requirement

SOURCE = b'''
"""A file with 1 docstring and a number."""
import logging

if TYPE_CHECKING:
    from x import y

LIMIT = 2**31 - 1
log = logging.getLogger("x")


class Shelf:
    """What is on it."""

    __slots__ = ("count",)
    size: int = 1

    def __repr__(self) -> str:
        return f"{self.count + 1}"

    async def take(self, number: int = 1) -> bool:
        """Take some, at most 2."""
        assert number > 0
        if not self.open or number >= self.count:
            log.warning("there are %s", 1)
            raise ValueError("too many")
        self.count -= number
        await self.tell()
        return True
'''


def made(kind: str) -> list[str]:
    return [fault.text for fault in faults("shelf.py", SOURCE) if fault.kind == kind]


@requirement("reliability.proof.19")
def test_each_part_of_a_guard_is_changed_and_left_out() -> None:
    assert made("negate") == ["not (not self.open or number >= self.count)"]
    assert made("guard") == ["(number >= self.count)", "(not self.open)"]
    assert made("and/or") == ["(not self.open and number >= self.count)"]
    assert made("compare") == ["(number > self.count)"]
    assert made("not") == ["(self.open)"]


@requirement("reliability.proof.19")
def test_statements_are_dropped_and_flags_turned() -> None:
    assert made("raise") == ["pass"]
    assert made("drop") == ["pass", "pass"]
    assert made("flag") == ["False"]


@requirement("reliability.proof.19")
def test_texts_types_logs_and_constants_are_left_alone() -> None:
    found = list(faults("shelf.py", SOURCE))
    assert {fault.function for fault in found} == {"Shelf.take"}
    assert not any(b"log" in SOURCE[fault.start : fault.end] for fault in found)
    (compare,) = (fault for fault in found if fault.kind == "compare")
    assert compare.diff(SOURCE).splitlines()[1].endswith("if not self.open or (number > self.count):")
    assert compare.key(SOURCE) == "shelf.py Shelf.take: number >= self.count => (number > self.count)"


ALIVE = "tests/store/test_sqlite.py::test_a_worker_is_alive_until_its_process_is_killed"
ELSE = "tests/store/test_sqlite.py::test_a_url_without_a_file_is_refused"


AT_IMPORT = "limits.py _check_rates: rate is not None => not (rate is not None)"


def alive() -> Fault:
    """A worker that is dead is taken for alive."""
    path = ROOT / "src/toolcrib/store/sqlite/workers.py"
    own = [fault for fault in faults("store/sqlite/workers.py", path.read_bytes()) if fault.function == "Workers.alive"]
    return [fault for fault in own if fault.kind == "flag" and fault.text == "True"][-1]


@requirement("reliability.proof.19")
@pytest.mark.process
def test_a_fault_is_noticed_by_a_test_that_runs_its_line_and_by_no_other(tmp_path: Path) -> None:
    fault, copy = alive(), Copy(tmp_path)
    copy.load([ALIVE], "")
    try:
        noticed, not_noticed = judge(copy, fault, [ALIVE]), judge(copy, fault, [ELSE])
    finally:
        copy.stop()
    assert (noticed.noticed, noticed.by) == (True, ALIVE)
    assert (not_noticed.noticed, not_noticed.by) == (False, "1 tests passed")


@requirement("reliability.proof.19")
@pytest.mark.process
def test_a_fault_of_what_runs_when_a_module_is_imported_is_noticed_too(tmp_path: Path) -> None:
    path = ROOT / "src/toolcrib/limits.py"
    (fault,) = (one for one in faults("limits.py", path.read_bytes()) if one.key(path.read_bytes()) == AT_IMPORT)
    copy = Copy(tmp_path)
    copy.load([ELSE], "")
    try:
        assert judge(copy, fault, [ELSE]).noticed
    finally:
        copy.stop()


@requirement("reliability.proof.19")
def test_the_nearest_and_fastest_tests_come_first_and_the_map_can_be_kept(tmp_path: Path) -> None:
    fault, touched = alive(), Touched()
    line = (ROOT / "src/toolcrib" / fault.file).read_text().splitlines()[fault.line - 1].strip()
    tests = {"tests/store/a": 3.0, "tests/store/b": 1.0, "tests/agent/c": 0.1, "tests/store/d": 0.1}
    touched.seconds = tests
    touched.tests[fault.file, fault.function, line] = {*tests} - {"tests/store/d"}
    touched.tests[fault.file, fault.function, ""] = {*tests}
    touched.save(tmp_path / "map")
    order, seconds = chosen(fault, "store", Touched.load(tmp_path / "map"))
    assert order == ["tests/store/b", "tests/store/a", "tests/store/d", "tests/agent/c"]
    assert round(seconds, 3) == 4.2


@requirement("reliability.proof.19")
def test_the_fastest_test_comes_first_and_a_further_case_of_one_counts_as_slower() -> None:
    seconds = {"a[1]": 0.1, "a[2]": 0.2, "a[3]": 0.3, "b": 0.5, "c[1]": 2.0, "c[2]": 1.0}
    assert spread([*seconds], seconds) == ["a[1]", "a[2]", "b", "a[3]", "c[2]", "c[1]"]


@requirement("reliability.proof.19")
@pytest.mark.process
def test_a_test_that_hangs_ends_the_run_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_slow.py").write_text("import time\n\ndef test_waits(): time.sleep(600)\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.limit", "--rootdir", tmp_path, tmp_path],
        env={**os.environ, LIMIT: "0.2", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip().splitlines()[-1]) == (HUNG, "HUNG test_slow.py::test_waits")


@requirement("reliability.proof.19")
def test_a_fault_that_is_said_to_change_nothing_is_in_the_source(tmp_path: Path) -> None:
    equivalent = tmp_path / "equivalent.txt"
    there = alive().key((ROOT / "src/toolcrib" / alive().file).read_bytes())
    equivalent.write_text(f"# why\n\n{there}\n{alive().file} Workers.gone: 0 => 1\nstore/gone.py f: 0 => 1\n")
    assert unmatched(listed(equivalent)) == ["store/gone.py f: 0 => 1", f"{alive().file} Workers.gone: 0 => 1"]
    assert listed()
    assert unmatched(listed()) == []


@requirement("reliability.proof.19")
@pytest.mark.process
def test_what_a_test_runs_is_recorded_though_the_one_before_it_ended_the_trace(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "test_two.py").write_text(
        "import sys\nfrom toolcrib.store import open_store\n\n"
        "def test_one(): sys.settrace(None)\n\ndef test_two(): open_store('memory:')\n"
    )
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.touched", "--rootdir", tmp_path, tmp_path],
        env={**os.environ, FOLDER: str(data), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        check=True,
    )
    touched = Touched()
    touched.add(data, ROOT / "src" / "toolcrib")
    assert touched.tests["store/__init__.py", "open_store", ""] == {"test_two.py::test_two"}


@pytest.mark.process
def test_a_process_with_a_path_of_its_own_for_imports_is_followed_too(tmp_path: Path) -> None:
    package, plugin, data = tmp_path / "src" / "toolcrib", tmp_path / "tests" / "mutants", tmp_path / "data"
    for folder in (package, plugin, data):
        folder.mkdir(parents=True)
    (plugin / "touched.py").write_bytes((ROOT / "tests" / "mutants" / "touched.py").read_bytes())
    (package / "__init__.py").write_text(f"{HOOK}\nfrom toolcrib.shop import pay\n")
    (package / "shop.py").write_text("def pay():\n    return 1\n\n\ndef hide():\n    return 2\n")
    own = {"PYTHONPATH": str(package.parent), FOLDER: str(data), "PYTEST_CURRENT_TEST": "tests/a.py::one (call)"}
    code = "import toolcrib; toolcrib.pay()"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, **own}, timeout=60, check=True)
    (data / "times-main.jsonl").write_text('["tests/a.py::one", "passed", 0.5]\n')
    recorded = Touched()
    recorded.add(data, package)
    assert recorded.tests["shop.py", "pay", ""] == {"tests/a.py::one"}
    assert recorded.tests["shop.py", "hide", ""] == set()

"""Put faults into copies of the source, one at a time, and see whether the tests notice.

Each fault is run against the tests that are known to run its line, the fastest of the nearest first, up to the first
that fails. Which test runs which line is recorded once (`--record`, as long as the suite takes), and again for some
tests where they changed (`--record tests/engine`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.mutants.faults import Fault, faults
from tests.mutants.fork_server import COLD, PASSED, ForkServer
from tests.mutants.limit import HUNG, LIMIT
from tests.mutants.touched import FOLDER, HOOK, Touched
from tests.services import SHORT_LIVED, postgres_in_memory

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "toolcrib"
KEPT = ROOT / ".mutants"
MAP = KEPT / "touched.json.gz"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
PACKAGES: dict[str, tuple[str, ...]] = {
    "calls": ("_call/*.py", "_session/*.py", "session.py", "crib.py", "state.py"),
    "engine": ("engine/*.py",),
    "store": ("store/*.py", "store/*/*.py"),
    "serve": (
        "serve/*.py",
        "serve/api/app.py",
        "serve/api/session_cache.py",
        "serve/api/limits.py",
        "serve/api/errors.py",
        "serve/mcp/http.py",
        "serve/mcp/sse.py",
        "serve/mcp/signed_state.py",
    ),
}
NEAR: dict[str, tuple[str, ...]] = {
    "calls": ("tests/contract", "tests/session", "tests/_call", "tests/durability", "tests/engine"),
    "engine": ("tests/engine", "tests/cluster", "tests/policy/test_approvers_in_a_cluster.py"),
    "store": ("tests/store", "tests/session", "tests/durability"),
    "serve": ("tests/serve",),
}
"""Where the tests of a package are looked for first."""

RECORDED = [
    *(
        f"tests/{folder}"
        for folder in ("agent", "_call", "cli", "client", "cluster", "contract", "durability", "engine")
    ),
    *(f"tests/{folder}" for folder in ("sources/mcp", "policy", "serve", "session", "store")),
    *(f"tests/test_{file}.py" for file in ("bad_input", "children", "property", "testing")),
]
TESTS = 500
"""How many tests of a fault are run."""

POSTGRES = "TOOLCRIB_TEST_POSTGRES"
HANGS_S = 120.0
"""A test that takes longer hangs: the slowest that are chosen take a few seconds, on a busy machine some more."""


class Outcome(NamedTuple):
    """What came of a fault, and the test that failed or hung, or how many passed."""

    fault: Fault
    noticed: bool
    by: str
    seconds: float


class Copy:
    """A copy of the tree in which faults are put and tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        self._tick = int(time.time())
        self._right: set[str] = set()
        self._sources: dict[str, bytes] = {}
        self._own = {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", LIMIT: str(HANGS_S)}
        self._server: ForkServer | None = None

    def load(self, tests: Iterable[str], postgres: str) -> None:
        """Have all tests loaded before the first fault is put in, and a database server that they share."""
        self._own[POSTGRES] = postgres
        files = sorted({test.partition("::")[0] for test in tests})
        there = [file for file in files if (self.folder / file).exists()]
        self._server = ForkServer(self.folder, there, {**os.environ, **self._own})
        if not self._server.tests:
            sys.exit("the tests could not be loaded")

    def stop(self) -> None:
        """End the process that has loaded the tests."""
        if self._server is not None:
            self._server.stop()

    def source(self, fault: Fault) -> bytes:
        """The file of a fault as it was when the copy was made."""
        if fault.file not in self._sources:
            self._sources[fault.file] = (self.folder / "src" / "toolcrib" / fault.file).read_bytes()
        return self._sources[fault.file]

    def write(self, name: str, text: bytes) -> None:
        """Change a file; each time it is newer, or Python would take what it has compiled."""
        path = self.folder / "src" / "toolcrib" / name
        path.write_bytes(text)
        self._tick += 2
        os.utime(path, (self._tick, self._tick))

    def pytest(self, *arguments: str, data: Path | None = None) -> tuple[int, str]:
        """Run tests; the code they end with and what they print. Whatever they started ends with them."""
        with tempfile.TemporaryFile("w+") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *arguments],
                cwd=self.folder,
                env={**os.environ, **self._own, **({} if data is None else {FOLDER: str(data)})},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(None if data is not None else 10 * HANGS_S)
            except subprocess.TimeoutExpired:
                code = HUNG
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out.seek(0)
            return code, out.read()

    def notices(self, tests: list[str], fault: Fault | None = None) -> tuple[bool, str]:
        """Whether one of these tests fails or hangs here, and which."""
        if self._server is not None:
            where = ("", "") if fault is None else (fault.file, fault.function)
            outcome, test = self._server.run(tests, *where)
            if outcome != COLD:
                return outcome != PASSED, test if outcome != PASSED else ""
        code, out = self.pytest("-x", "-p", "tests.mutants.limit", *tests)
        gone = [line for line in out.splitlines() if line.startswith("ERROR: not found: ")]
        if gone:  # renamed since they were recorded
            tests[:] = [test for test in tests if not any(line.endswith(f"/{test}") for line in gone)]
            return self.notices(tests, fault) if tests else (False, "")
        if code == HUNG:
            return True, out.rpartition("HUNG ")[2].strip() if "HUNG " in out else "timed out"
        lines = [line.partition(" ")[2] for line in out.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        failed = [line.partition(" - ")[0] for line in lines]
        return code != 0, failed[0] if failed else out.strip().splitlines()[-1] if code else ""

    def right(self, test: str) -> bool:
        """Whether a test passes where there is no fault; one that does not says nothing about a fault."""
        if test not in self._right and not self.notices([test])[0]:
            self._right.add(test)
        return test in self._right


def listed(file: Path = EQUIVALENT) -> set[str]:
    """The keys of the faults that change nothing anybody can see."""
    lines = (line.strip() for line in file.read_text().splitlines())
    return {line for line in lines if line and not line.startswith("#")}


def unmatched(keys: set[str]) -> list[str]:
    """The keys that name no fault of the source: what they stood for has changed, or is gone."""
    there = set()
    for name in {key.partition(" ")[0] for key in keys}:
        path = SOURCE / name
        source = path.read_bytes() if path.is_file() else b""
        there |= {fault.key(source) for fault in faults(name, source, keys)}
    return sorted(keys - there)


def known(package: str) -> Iterator[Fault]:
    """The faults of a package that change what it does, as far as anybody knows."""
    equivalent = listed()
    for pattern in PACKAGES[package]:
        for path in sorted(SOURCE.glob(pattern)):
            source = path.read_bytes()
            for fault in faults(str(path.relative_to(SOURCE)), source):
                if fault.key(source) not in equivalent:
                    yield fault


def spread(tests: list[str], seconds: dict[str, float]) -> list[str]:
    """The fastest first; many cases of one test notice the same, so the second counts as twice as slow, and so on."""
    cases = Counter[str]()
    order: list[tuple[float, str]] = []
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        function = test.partition("[")[0]
        cases[function] += 1
        order.append((cases[function] * seconds[test], test))
    return [test for _, test in sorted(order)]


def chosen(fault: Fault, package: str, touched: Touched, seconds: float = 120) -> tuple[list[str], float]:
    """The tests that are run for a fault, and how long they took when they were recorded."""
    line = (SOURCE / fault.file).read_text().splitlines()[fault.line - 1].strip()
    own = touched.tests.get((fault.file, fault.function, line), set())
    others = touched.tests.get((fault.file, fault.function, ""), set()) - own
    near = [[test for test in tests if test.startswith(NEAR[package])] for tests in (own, others)]
    far = [[test for test in tests if not test.startswith(NEAR[package])] for tests in (own, others)]
    found: list[str] = []
    total = 0.0
    for share, tests in zip((0.7, 0.85, 0.95, 1.0), (near[0], near[1], far[0], far[1]), strict=True):
        for test in spread(tests, touched.seconds):
            if total + touched.seconds[test] > seconds * share or len(found) >= TESTS * share:
                break
            found.append(test)
            total += touched.seconds[test]
    return found, total


def judge(copy: Copy, fault: Fault, tests: list[str]) -> Outcome:
    """Put a fault in, run its tests, and take it out again."""
    began = time.monotonic()
    source = copy.source(fault)
    noticed, by = False, "no test runs it"
    while tests:
        copy.write(fault.file, fault.apply(source))
        noticed, by = copy.notices(tests, fault)
        copy.write(fault.file, source)
        if not noticed or by not in tests or copy.right(by):
            by = by or f"{len(tests)} tests passed"
            break
        tests.remove(by)
    return Outcome(fault, noticed, by, time.monotonic() - began)


def record(paths: list[str], workers: int) -> None:
    """Run tests and write down which lines they run."""
    KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy, data = Copy(Path(folder) / "tree"), Path(folder) / "data"
        data.mkdir()
        package = copy.folder / "src" / "toolcrib"
        first = package / "__init__.py"
        future = "from __future__ import annotations\n"
        first.write_text(first.read_text().replace(future, f"{future}{HOOK}\n", 1))
        _, out = copy.pytest("-n", str(workers), "-p", "tests.mutants.touched", *paths, data=data)
        print(out.strip().splitlines()[-1])
        touched = Touched.load(MAP) if MAP.exists() else Touched()
        touched.add(data, package)
    touched.save(MAP)


def show(outcomes: dict[str, list[Outcome]], seed: int, copy: Copy) -> None:
    """Print a table of the packages, and what nobody noticed."""
    for package, some in outcomes.items():
        for outcome in some:
            if not outcome.noticed:
                source = copy.source(outcome.fault)
                where = f"src/toolcrib/{outcome.fault.file}:{outcome.fault.line} {outcome.fault.function}"
                print(f"\n{package}: {where} ({outcome.fault.kind}; {outcome.by})")
                print(f"{outcome.fault.diff(source)}\n# {outcome.fault.key(source)}")
    print(f"\nseed {seed}\n| package | faults | noticed | not noticed | share |")
    print("|---|---|---|---|---|")
    for package, some in outcomes.items():
        noticed = [outcome for outcome in some if outcome.noticed]
        share = len(noticed) / max(1, len(some))
        print(f"| {package} | {len(some)} | {len(noticed)} | {len(some) - len(noticed)} | {share:.0%} |")


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=25, help="faults of each package (25)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--package", action="append", choices=PACKAGES, help="one of the packages (all)")
    parser.add_argument("--only", default="", help="faults whose file, line and function contain this text")
    parser.add_argument("--seconds", type=float, default=120, help="how long the tests of a fault took together (120)")
    parser.add_argument("--record", nargs="*", metavar="PATH", help="record which test runs which line, and end")
    parser.add_argument("--workers", type=int, default=2, help="processes that record (2)")
    return parser.parse_args()


def sampled(package: str, given: argparse.Namespace) -> list[Fault]:
    """The faults of a package that are put in."""
    some = [one for one in known(package) if given.only in f"{one.file}:{one.line} {one.function}"]
    return random.Random(f"{given.seed} {package}").sample(some, min(given.sample, len(some)))


def main() -> None:
    """Record where nothing is recorded yet or it was asked for; then put faults in."""
    given = arguments()
    if given.record is not None or not MAP.exists():
        record(given.record or RECORDED, given.workers)
        if given.record is not None:
            return
    if gone := unmatched(listed()):
        sys.exit("\n".join((f"{EQUIVALENT.relative_to(ROOT)} names faults that are not in the source:", *gone)))
    touched = Touched.load(MAP)
    samples = {package: sampled(package, given) for package in given.package or PACKAGES}
    outcomes: dict[str, list[Outcome]] = {package: [] for package in samples}
    with (
        ExitStack() as stack,
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        postgres_in_memory(SHORT_LIVED) as server,
    ):
        copy = Copy(Path(folder))
        stack.callback(copy.stop)
        tests = {
            fault: chosen(fault, package, touched, given.seconds)[0]
            for package, sample in samples.items()
            for fault in sample
        }
        copy.load({test for some in tests.values() for test in some}, server.url)
        for package, sample in samples.items():
            done = outcomes[package]
            for fault in sample:
                outcome = judge(copy, fault, tests[fault])
                done.append(outcome)
                word = "noticed" if outcome.noticed else f"NOT NOTICED {fault.key(copy.source(fault))}"
                place = f"{fault.file}:{fault.line} {fault.kind}"
                print(
                    f"{package} {len(done)}/{len(sample)} {place} {outcome.seconds:.1f} s {outcome.by} {word}",
                    flush=True,
                )
    show(outcomes, given.seed, copy)
    print(Counter(outcome.noticed for some in outcomes.values() for outcome in some)[True], "noticed")


if __name__ == "__main__":
    main()

"""What `import toolcrib` costs."""

import subprocess
import sys
from statistics import median

import psutil

from bench.peers import ROOT
from bench.probe import Failed
from bench.section import Section

# The child waits after its answer, so that its memory is read from outside: a library that reads it would add its own.
CHILD = "import time; start = time.process_time(); {code}; print(time.process_time() - start, flush=True); input()"


# A folder without an __init__ would be imported too, for nothing: it has no file.
ROWS = {
    "python": "pass",
    "toolcrib": "import toolcrib; assert toolcrib.__file__",
    "toolcrib, with its names used": "from toolcrib import Crib, tool",
}


def measure(quick: bool) -> Section:
    """CPU and memory of a fresh process, beside one that imports nothing."""
    found = {row: _median(code, 3 if quick else 9) for row, code in ROWS.items()}
    empty = found["python"][1]
    return Section(
        name="import",
        title="import toolcrib",
        columns=("row", "CPU", "memory of the process", "added by the import"),
        cells=tuple((row, f"{cpu:.3f} s", f"{mb:.1f} MB", f"{mb - empty:.1f} MB") for row, (cpu, mb) in found.items()),
        notes=("Goal: under 0.25 s of CPU and 40 MB.",),
        data={row: {"cpu_s": round(cpu, 4), "rss_mb": round(mb, 2)} for row, (cpu, mb) in found.items()},
    )


def _median(code: str, times: int) -> tuple[float, float]:
    found = [_once(code) for _ in range(times)]
    return median(cpu for cpu, _ in found), median(mb for _, mb in found)


def _once(code: str) -> tuple[float, float]:
    argv = [sys.executable, "-c", CHILD.format(code=code)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        seconds = child.stdout.readline()
        if not seconds:
            raise Failed(child.communicate()[1].strip().splitlines()[-1])
        rss = psutil.Process(child.pid).memory_info().rss
        child.communicate("\n")
    return float(seconds), rss / 1e6

"""Probes of the benchmarks leave nothing behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import ROOT

pytestmark = pytest.mark.process

pytest.importorskip("uvicorn", reason="the extra toolcrib[serve] is not installed")
PROGRAM = """
import pathlib, runpy, sys
import bench.probe
bench.probe.RESULTS = pathlib.Path(sys.argv.pop(1))
runpy.run_module("bench.probes.mcp.crib", run_name="__main__")
"""


@pytest.mark.skipif(not (ROOT / "bench").is_dir(), reason="there are no benchmarks here")
def test_a_server_that_is_told_to_end_takes_its_store_with_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path), "0", "2", "sqlite"]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        assert list(tmp_path.glob("tmp*/bench.db"))
        server.terminate()
        server.wait(60)
    assert list(tmp_path.iterdir()) == []

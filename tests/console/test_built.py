"""The page that is kept here is the one that its sources make."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from toolcrib.console import PAGE

SOURCES = Path(__file__).parents[2] / "console"
PATIENCE_S = 300


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_everything_that_it_is_built_with_has_a_hash_on_every_platform() -> None:
    if not SOURCES.is_dir():
        pytest.skip("the sources of the console are needed")
    packages = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []
    assert "node_modules/@rolldown/binding-darwin-arm64" in packages


@pytest.mark.timeout(900)
def test_the_page_is_what_its_sources_make(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or not SOURCES.is_dir():
        pytest.skip("npm and the sources of the console are needed to build it anew")
    here = tmp_path / "console"
    shutil.copytree(SOURCES, here, ignore=shutil.ignore_patterns("node_modules"))
    argv = [npm, "ci", "--silent", "--no-fund", "--no-audit", "--prefer-offline"]
    if subprocess.run(argv, cwd=here, check=False, capture_output=True, timeout=PATIENCE_S).returncode:
        pytest.skip("npm cannot fetch what the console is built with here")
    for step in (
        ["exec", "--", "tsc", "--noEmit"],
        ["exec", "--", "biome", "ci"],
        ["exec", "--", "vite", "build", "--outDir", str(tmp_path / "page")],
    ):
        done = subprocess.run([npm, *step], cwd=here, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
    assert files(tmp_path / "page") == files(PAGE)


def test_the_first_screen_is_small() -> None:
    files = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', (PAGE / "index.html").read_text())
    assert {Path(name).suffix for name in files} == {".js", ".css"}
    assert sum(len(gzip.compress((PAGE / name).read_bytes(), 9)) for name in files) < 90_000

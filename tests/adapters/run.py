"""Runs the tests of each adapter in a virtual environment of its own: `make adapters`.

`python -m tests.adapters.run langchain adk` runs some. The environments are kept in `bench/.venvs`.
"""

from __future__ import annotations

import subprocess
import sys

from rich.console import Console

from bench.environments import ensure
from bench.frameworks import FRAMEWORKS, MIGRATIONS, PAGES
from tests.shared import ROOT

OPTIONS = ("-q", "-p", "no:cacheprovider", "--confcutdir=tests/adapters/frameworks", "-o", "addopts=--strict-config")


def main(names: list[str]) -> int:
    """Run the tests of the frameworks with these names, or of all; 1 where a test failed."""
    console, failed = Console(), []
    for framework in (*FRAMEWORKS, *MIGRATIONS, *PAGES):
        if names and framework.module not in names:
            continue
        python = ensure(framework, console)
        console.print(f"[bold]{framework.title}[/bold]")
        own = [] if framework in MIGRATIONS else [framework.module]
        pages = [] if framework in PAGES else ["pages"]
        files = [f"tests/adapters/frameworks/test_{name}.py" for name in (*own, *pages)]
        if subprocess.run([python, "-m", "pytest", *OPTIONS, *files], cwd=ROOT, check=False).returncode:
            failed.append(framework.title)
    if failed:
        console.print(f"failed: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

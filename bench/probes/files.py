"""Usage: files <runs> <files>. How long a validator of a definition file takes, and how long it takes to read files."""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.probes.rates import AT_ONCE, rate
from toolcrib.definitions.library import Library
from toolcrib.definitions.source import FileSource

ARGUMENTS = {"name": "Write it down", "list_id": "901", "assignees": [1, 2], "text": "x" * 930}
CODE = """
(function () {
  const errors = [];
  const { name, list_id, assignees } = args.args;
  if (!name || typeof name !== 'string') errors.push('name is required');
  if (!/^[0-9]+$/.test(list_id || '')) errors.push('list_id must be a number in text');
  if (assignees !== undefined && !Array.isArray(assignees)) errors.push('assignees must be an array');
  for (const one of assignees || []) if (!Number.isInteger(one)) errors.push('assignees holds ' + typeof one);
  return { valid: errors.length === 0, errors };
})();
"""
NOTES = "".join(f"    - {'Some words that somebody wrote down about this tool, number ' + str(n)}\n" for n in range(40))


def _text(id: str) -> str:
    """A file of some 4 KB, with a function."""
    code = "".join(f"          {line}\n" for line in CODE.strip().splitlines())
    return (
        f"tool:\n  id: {id}\n  type: cli\n  name: {id}\n  version: 1.0.0\n  description: For the measure\n"
        "  cli_specific: {executable: 'true'}\n  commands:\n    - {name: create, cli_args: ['{{name}}']}\n    - list\n"
        "  executable_knowledge:\n    validators:\n      - id: check\n        validates: create\n        function: |\n"
        f"{code}  best_practices:\n{NOTES}"
    )


@contextmanager
def _large() -> Iterator[Path]:
    """A folder with one file of some 32 KB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.yaml"
        path.write_text(_text("large") + NOTES * 8)
        os.utime(path, (0, 0))
        os.utime(folder, (0, 0))
        yield Path(folder)


async def _validating(folder: Path, runs: int) -> dict[str, float]:
    source = FileSource([folder])

    async def one() -> float:
        start = time.perf_counter()
        assert (await source.validate("tool-0", "create", ARGUMENTS)).valid
        return (time.perf_counter() - start) * 1e3

    await asyncio.gather(*(one() for _ in range(AT_ONCE * 4)))
    times = sorted([await one() for _ in range(runs)])
    per_s = await rate(one, runs)
    await source.stop()
    return {"p50_ms": times[runs // 2], "p99_ms": times[runs * 99 // 100], "per_s": per_s}


async def _reading(folder: Path, files: int) -> dict[str, float]:
    """All files for the first time, again, and as tools."""
    source = FileSource([folder])
    times = []
    for _ in range(2):
        start = time.perf_counter()
        assert len(await source.library.alist()) == files
        times.append((time.perf_counter() - start) * 1e3)
    start = time.perf_counter()
    assert len(list(await source.start(lambda tools: None))) == files * 2
    made = (time.perf_counter() - start) * 1e3
    await source.stop()
    return {"files": files, "cold_ms": times[0], "warm_ms": times[1], "tools_ms": made}


def _looking_up(folder: Path) -> dict[str, float]:
    """One file of 32 KB by its id: by a library that has not read it, and by one that has."""
    library = Library([folder])
    library.resolve("large")
    looks: dict[str, Callable[[], object]] = {
        "first_ms": lambda: Library([folder]).resolve("large"),
        "again_ms": lambda: library.resolve("large"),
    }
    times: dict[str, float] = {}
    for name, look in looks.items():
        start = time.perf_counter()
        for _ in range(20):
            look()
        times[name] = (time.perf_counter() - start) / 20 * 1e3
    return times


async def main() -> None:
    runs, files = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as many, _large() as large:
        for folder, number in ((one, 1), (many, files)):
            for n in range(number):
                path = Path(folder) / f"tool-{n}.yaml"
                path.write_text(_text(f"tool-{n}"))
                os.utime(path, (0, 0))  # what was just written is looked at more closely
            os.utime(folder, (0, 0))
        found = {
            "validating": await _validating(Path(one), runs),
            "reading": await _reading(Path(many), files),
            "looking_up": _looking_up(large),
        }
    print(json.dumps(found))


asyncio.run(main())

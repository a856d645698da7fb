"""Builds the shim with the machine's C compiler, and holds the pages through which the shims are steered."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("shim.c")
NONE = "no C compiler (cc) here: no kills at a write, full disks, clock jumps and power cuts"
KILL_AT, FULL, CLOCK_NS, WRITES = range(4)
FIELDS = struct.Struct("=4q")


def build(folder: Path) -> Path | None:
    """The shim as a library to preload; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "shim.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


class Page:
    """What one node's shim reads."""

    def __init__(self, path: Path, below: Path, journal: Path | None, *, sockets: bool) -> None:
        path.write_bytes(bytes(mmap.PAGESIZE))
        self._paths = {"page": str(path), "below": f"{below}/", "journal": str(journal or ""), "sockets": sockets}
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    @property
    def config(self) -> dict[str, Any]:
        """What a node is told of it."""
        return self._paths

    def __getitem__(self, field: int) -> int:
        value: int = FIELDS.unpack_from(self._memory)[field]
        return value

    def __setitem__(self, field: int, value: int) -> None:
        struct.pack_into("=q", self._memory, 8 * field, value)

    def reset(self) -> None:
        """It does nothing from now on, and counts from zero."""
        for field in (KILL_AT, FULL, CLOCK_NS, WRITES):
            self[field] = 0

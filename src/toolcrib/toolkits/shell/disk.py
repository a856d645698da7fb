"""How much a command may write: files have a limit each by the kernel, all of them together by a look now and then."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field

from toolcrib.errors import ToolFailure

_LOOK_S = 0.2
_CLOCK_S = 2.0
"""File systems tell times by a clock that may lag behind."""


@dataclass(slots=True)
class DiskLimit:
    """Notices when what was written below a folder since the start takes up more than it may."""

    root: str
    most: int
    _began: float = field(default_factory=time.time)
    _used: int = 0

    def __post_init__(self) -> None:
        self._used = self._taken()

    async def watch(self) -> None:
        """Never returns.

        Raises:
            ToolFailure: `too_large`, more was written.
        """
        while True:
            await asyncio.sleep(_LOOK_S)
            # A look at the whole file system costs nothing; who else writes to it makes only a second look necessary.
            if self._taken() - self._used > self.most and await asyncio.to_thread(self.written) > self.most:
                message = f"The command wrote more than {self.most // 1024**2} MB and was ended"
                raise ToolFailure("too_large", message, retryable=False)

    def written(self) -> int:
        """The bytes on disk of all files below the folder that were made or changed since the start."""
        total = 0
        for place, _, names in os.walk(self.root):
            for name in names:
                try:
                    facts = os.lstat(f"{place}/{name}")
                except OSError:
                    continue  # it is gone again
                if facts.st_ctime >= self._began - _CLOCK_S:
                    total += facts.st_blocks * 512
        return total

    def _taken(self) -> int:
        facts = os.statvfs(self.root)
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize

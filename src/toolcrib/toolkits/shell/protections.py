"""Which protections of the kernel commands have on this machine, found out by running one."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import NamedTuple

from toolcrib.errors import ToolFailure
from toolcrib.toolkits.shell.command_user import give_away, runs_as_root
from toolcrib.toolkits.shell.process import CapturedOutput, ProcessSandbox, execute

_PROBE_S = 10
_NAMES = {
    "user_namespace": "user namespace",
    "limits": "limits of memory, processes and files",
    "seccomp": "system calls filtered (seccomp)",
    "landlock": "writes kept to the folder (Landlock)",
}


class Protections(NamedTuple):
    """What commands are held by, and whether this process is root's."""

    user_namespace: bool = False
    limits: bool = False
    seccomp: bool = False
    landlock: bool = False
    root: bool = False

    def describe(self) -> str:
        """Say what is active and what is not, in one line."""
        if not self.user_namespace:
            return "none: this system makes no user namespaces, so no command runs"
        active = ", ".join(name for key, name in _NAMES.items() if getattr(self, key))
        missing = ", ".join(name for key, name in _NAMES.items() if not getattr(self, key))
        return f"{active}; not here: {missing}" if missing else active


async def probe_protections() -> Protections:
    """Run a command that does nothing, and see what it was held by."""
    root = runs_as_root()
    if sys.platform != "linux":
        return Protections(root=root)
    with tempfile.TemporaryDirectory(prefix="toolcrib-probe-") as folder:
        if root:
            give_away(folder)
        order = ProcessSandbox(folder, allow_root=True).order(["true"], ".", _PROBE_S)
        try:
            async with asyncio.timeout(_PROBE_S):
                _, active = await execute(order, None, CapturedOutput(_nobody), CapturedOutput(_nobody))
        except (ToolFailure, TimeoutError):
            return Protections(root=root)
    return Protections(True, True, "c" in active, "l" in active, root)


async def _nobody(text: str) -> None:
    """It says nothing."""

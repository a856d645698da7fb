"""`forge script` as a dry run in a place of its own, and the transactions that come of it.

A script is a program: left alone it reads the environment and asks any URL. So it runs without environment, in a
network of its own in which nothing is, with the chain at the socket of an anvil alone; where no such place can be made,
it does not run. Nothing of it is sent: what it would send is proposed as everything else is.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.chain.limits import BadChain
from toolcrib.chain.values import address, clean, invalid, quantity
from toolcrib.errors import ToolFailure

if TYPE_CHECKING:
    from toolcrib.toolkits.shell.process import ProcessSandbox

TIME_S, MEMORY, PROCESSES, FILE_BYTES = 60, 4 * 1024**3, 256, 64 * 1024**2
LONGEST, MOST = 100_000, 20
FILE = "script/Script.s.sol"
CONFIG = "[profile.default]\nsrc = 'script'\nlibs = []\nffi = false\nfs_permissions = []\n"
LATEST = "broadcast/Script.s.sol/{}/dry-run/run-latest.json"
_CONTRACT = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeScripts:
    """What runs scripts: `forge`, a Solidity compiler, and the socket of an anvil of the chain (`anvil --ipc`).

    `visible` are files and folders that the compiler needs beside; `memory` bounds what each process may reserve.

    Raises:
        BadChain: a path is none.
    """

    forge: str | os.PathLike[str]
    solc: str | os.PathLike[str]
    ipc: str | os.PathLike[str]
    visible: Sequence[str | os.PathLike[str]] = ()
    memory: int = MEMORY
    timeout_s: int = TIME_S

    def __post_init__(self) -> None:
        for name in ("forge", "solc"):
            if not Path(getattr(self, name)).is_file():
                raise BadChain(f"scripts: {name} is no file")

    async def run(self, source: str, contract: str, sender: str, chain: int) -> list[dict[str, Any]]:
        """The transactions that a script would send from an address: `{to, value, data}`.

        Raises:
            ToolFailure: `unavailable`, no place could be made for it; `failed`, it did not pass; `timeout`;
                `invalid_arguments`, it does what cannot be proposed.
        """
        if len(source) > LONGEST or not _CONTRACT.fullmatch(contract):
            raise invalid(f"A script has at most {LONGEST} characters, and a contract of a plain name")
        with tempfile.TemporaryDirectory(prefix="toolcrib-script-") as folder:
            root = _written(folder, source)
            await self._dry(root, contract, sender)
            report = _latest(root, chain)
        return _transactions(report, sender, chain)

    def _place(self, root: str) -> ProcessSandbox:
        from toolcrib.toolkits.shell.process import ProcessSandbox

        needed = (self.forge, self.solc, self.ipc, *self.visible)
        visible = tuple(str(Path(one).resolve()) for one in needed)
        return ProcessSandbox(root, visible=visible, memory=self.memory, processes=PROCESSES, file_bytes=FILE_BYTES)

    async def _dry(self, root: str, contract: str, sender: str) -> None:
        from toolcrib.toolkits.shell.command_user import hand_over
        from toolcrib.toolkits.shell.process import CapturedOutput, run

        place = self._place(root)
        hand_over(root)
        forge, solc, ipc = place.visible[:3]
        argv = [forge, "script", f"{FILE}:{contract}", "--fork-url", ipc, "--use", solc]
        argv += ["--offline", "--non-interactive", "--sender", sender]
        out, problems = CapturedOutput(_nobody), CapturedOutput(_nobody)
        try:
            async with asyncio.timeout(self.timeout_s):
                code = await run(place.order(argv, ".", self.timeout_s), None, out, problems)
        except TimeoutError:
            raise ToolFailure("timeout", f"The script did not end within {self.timeout_s} s", retryable=False) from None
        if code != 0:
            raise ToolFailure("failed", f"The script failed: {_why(problems.shown or out.shown)}", retryable=False)


def _written(folder: str, source: str) -> str:
    root = Path(folder).resolve()
    (root / FILE).parent.mkdir()
    (root / FILE).write_text(source, "utf-8")
    (root / "foundry.toml").write_text(CONFIG, "utf-8")
    return str(root)


def _latest(root: str, chain: int) -> Mapping[str, Any]:
    """Read what the dry run wrote; the script cannot have changed it, but it may be missing."""
    try:
        report = json.loads((Path(root) / LATEST.format(chain)).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return report if isinstance(report, Mapping) else {}


async def _nobody(text: str) -> None:
    """What forge tells is heard at the end."""


def _why(text: str) -> str:
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if "rror" in line), 0)
    return clean(" ".join(lines[first : first + 8]) or "no output")


def _transactions(data: Mapping[str, Any], sender: str, chain: int) -> list[dict[str, Any]]:
    listed = data.get("transactions") or []
    if not listed or data.get("chain") != chain:
        raise ToolFailure("failed", f"The script sends nothing on chain {chain}", hint="Use vm.startBroadcast().")
    if len(listed) > MOST:
        raise invalid(f"A script sends at most {MOST} transactions; there are {len(listed)}")
    return [_transaction(one.get("transaction") or {}, sender) for one in listed]


def _transaction(one: Mapping[str, Any], sender: str) -> dict[str, Any]:
    if not one.get("to"):
        raise invalid("The script creates a contract, which cannot be proposed")
    if str(one.get("from")).lower() != sender.lower():
        raise invalid(f"The script sends from {clean(one.get('from'), 64)}, which is not the user's address")
    return {"to": address(one["to"]), "value": quantity(one.get("value")) or 0, "data": str(one.get("input") or "0x")}


def as_scripts(settings: ForgeScripts | Mapping[str, Any] | None) -> ForgeScripts | None:
    """Return the settings, also from the form that they have in a file.

    Raises:
        BadChain: a setting does not hold.
    """
    if settings is None or isinstance(settings, ForgeScripts):
        return settings
    try:
        return ForgeScripts(**settings)
    except TypeError as error:
        raise BadChain(f"scripts: {str(error).rpartition('__init__() ')[2]}") from None

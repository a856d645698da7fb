"""The command line. Only it reads files and the environment; what a command needs is loaded when it runs."""

from __future__ import annotations

import gc
import sys

from toolcrib import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from toolcrib.crib import Crib


def main() -> None:
    """Runs the command that the arguments name, and ends the process with its exit code."""
    gc.disable()  # modules are not garbage: to look through them while they load takes a tenth of a short command
    if sys.argv[1:2] == ["guard"]:  # a hook comes before every step of an agent, so it takes the shortest way
        from toolcrib.guard.relay import relay

        code = relay(sys.argv[2:])
        if code is not None:
            sys.exit(code)
    from toolcrib.cli.app import run

    run()


def load(path: Path | str, *, store: str | None = None) -> Crib:
    """Return the crib that a `crib.yaml` describes, as commands use it, for a program or a test; it is not started yet.

    Variables of a `.env` beside it are set unless they are set already. A `store` is taken instead of the file's own.

    Raises:
        CommandError: there is no such file, or it does not hold.
    """
    from toolcrib.cli.crib_choice import chosen
    from toolcrib.cli.terminal import Choice

    return chosen(Choice(str(path), store))

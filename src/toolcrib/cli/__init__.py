"""The command line. Only it reads files and the environment; what a command needs is loaded when it runs."""

from __future__ import annotations

import gc


def main() -> None:
    """Runs the command that the arguments name, and ends the process with its exit code."""
    gc.disable()  # modules are not garbage: to look through them while they load takes a tenth of a short command
    from toolcrib.cli.app import run

    run()

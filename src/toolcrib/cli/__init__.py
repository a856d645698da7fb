"""The command line. Only it reads files and the environment; what a command needs is loaded when it runs."""

from __future__ import annotations


def main() -> None:
    """Runs the command that the arguments name, and ends the process with its exit code."""
    from toolcrib.cli.app import run

    run()

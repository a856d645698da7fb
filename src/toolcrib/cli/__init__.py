"""The command line. It is the only part that reads files and the environment; what it needs is loaded when a command runs."""

from __future__ import annotations


def main() -> None:
    """Runs the command that the arguments name, and ends the process with its exit code."""
    from toolcrib.cli.app import run

    run()

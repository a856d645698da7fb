"""Servers do not run as root unless whoever starts them says that this is meant."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from toolcrib.cli.terminal import CommandError

AllowRoot = Annotated[bool, typer.Option("--allow-root", help="Run as root; TOOLCRIB_ALLOW_ROOT=1 says so too.")]


def check_root(allowed: bool) -> None:
    """Refuse to go on as root.

    Raises:
        CommandError: root was not allowed explicitly.
    """
    from toolcrib.toolkits.shell.command_user import ALLOW_ROOT, allows_root, runs_as_root

    if allowed:
        os.environ[ALLOW_ROOT] = "1"  # for the tools that run commands, and for the processes that are started
    if runs_as_root() and not allows_root():
        raise CommandError(
            "This would run as root, and so would whatever goes wrong in it",
            f"start it as another user, or say --allow-root or {ALLOW_ROOT}=1",
        )

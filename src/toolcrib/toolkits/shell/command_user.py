"""As whom commands run: never as root, and not at all where root would start them without having been told to."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import NamedTuple

from toolcrib.errors import ToolFailure

ALLOW_ROOT = "TOOLCRIB_ALLOW_ROOT"
"""The variable by which whoever starts a program as root says that this is meant; `1` says so."""

NOBODY = 65534

_SHARED = {"/", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/usr/local"}
_SHARED |= {"/var", "/var/lib", "/var/tmp"}
_PARTS: tuple[str, ...] = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys")
_PARTS += ("/usr/bin", "/usr/lib", "/usr/sbin", "/usr/share")
"""Folders of the system, which are given to nobody: the first alone, the others with all below them."""

log = logging.getLogger("toolcrib")


class CommandUser(NamedTuple):
    """The user and group of a command."""

    user: int
    group: int


def runs_as_root() -> bool:
    """Say whether this process is root's."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def allows_root(allowed: bool | None = None) -> bool:
    """Say whether it is meant that this process is root's; without a word, the environment says."""
    return os.environ.get(ALLOW_ROOT) == "1" if allowed is None else allowed


def check_root(allowed: bool | None) -> None:
    """Refuse to start a command for root.

    Raises:
        ToolFailure: `unavailable`, this process is root's, and nobody said that this is meant.
    """
    if runs_as_root() and not allows_root(allowed):
        raise ToolFailure(
            "unavailable",
            "Commands are not run by a server of root",
            hint=f"Whoever runs the server starts it as another user, or says allow_root=True or {ALLOW_ROOT}=1.",
            retryable=False,
        )


def command_user(folder: str) -> CommandUser:
    """Give as whom commands in a folder run: as this process does, and for root as whoever the folder belongs to."""
    if not runs_as_root():
        return CommandUser(os.geteuid(), os.getegid())
    owner = Path(folder).stat()
    return CommandUser(owner.st_uid, owner.st_gid or NOBODY) if owner.st_uid else CommandUser(NOBODY, NOBODY)


def hand_over(folder: str) -> None:
    """Give a folder of root to the user that its commands run as, with all that is root's in it.

    Links are not followed, and a file that has another name elsewhere is left to root. So is a folder of the system:
    commands there can change nothing. A folder of anybody else is left as it is, and so is one where commands are
    refused.
    """
    if not runs_as_root() or Path(folder).stat().st_uid:
        return
    if _is_of_system(os.path.realpath(folder)):
        log.warning("%s belongs to the system: it stays root's, and commands can change nothing there", folder)
        return
    log.warning("%s belongs to root, and no command runs as root: it is given to the user %d", folder, NOBODY)
    give_away(folder)


def give_away(folder: str) -> None:
    """Give what is root's in a folder, and the folder itself, to the user that commands of root run as."""
    for _, folders, files, at in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if status.st_uid == 0 and (status.st_nlink == 1 or stat.S_ISDIR(status.st_mode)):
                os.chown(name, NOBODY, NOBODY, dir_fd=at, follow_symlinks=False)
    os.chown(folder, NOBODY, NOBODY)


def _is_of_system(folder: str) -> bool:
    return folder in _SHARED or any(folder == part or folder.startswith(f"{part}/") for part in _PARTS)

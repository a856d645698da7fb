"""Programs that run whatever they are given: to grant one of them is to grant arbitrary code."""

from __future__ import annotations

import posixpath
import re

from toolcrib.policy import globs

_TEXT = """
ash awk bash bun bunx busybox cargo cmake csh deno doas docker ed emacs env ex expect fish gawk gdb go irb java jshell
julia just ksh kubectl lua make mawk nawk nerdctl nix-shell node nodejs npm npx nsenter osascript parallel perl php pipx
pnpm pnpx podman powershell psql pwsh pypy python r rake rscript rsh ruby scala sed sh sqlite3 ssh strace su sudo swift
systemd-run tclsh tcsh tmux ts-node tsx unshare uv uvx vi vim wish xargs yarn zsh
"""
NAMES = frozenset(_TEXT.split())
_VERSION = re.compile(r"[-.\d]+\w?$")


def is_interpreter(program: str) -> bool:
    """Whether a program runs what it is given; versions (`python3.11`) and folders make no difference."""
    name = posixpath.basename(program).lower().removesuffix(".exe")
    return name in NAMES or _VERSION.sub("", name) in NAMES


def granted(glob: str) -> list[str]:
    """The programs of this kind that a grant names: three at most, for a message."""
    if not globs.is_pattern(glob):
        return [glob] if is_interpreter(glob) else []
    test = globs.text(glob)
    found = sorted(name for name in (*NAMES, "python3") if test(name))
    return [*found[:3], "…"] if len(found) > 3 else found

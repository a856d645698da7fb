"""Findings on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from toolcrib.cli.terminal import Terminal

if TYPE_CHECKING:
    from toolcrib.findings import Finding

_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}


def show(terminal: Terminal, findings: Iterable[Finding]) -> None:
    """Print each finding on a line of its own, with its place and its code."""
    for one in findings:
        terminal.text(f"{one} [{one.code}]", _STYLES[one.severity])

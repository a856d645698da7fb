"""What a shell command runs, reads, writes and reaches, read from its text alone."""

from toolcrib.policy.shell.known_programs import KNOWN, capabilities
from toolcrib.policy.shell.segments import TRUSTED, Segment, ShellCommand, analyse, line, program

__all__ = ["KNOWN", "TRUSTED", "Segment", "ShellCommand", "analyse", "capabilities", "line", "program"]

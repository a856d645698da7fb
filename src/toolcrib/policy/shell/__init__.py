"""What a shell command runs, reads, writes and reaches, read from its text alone."""

from toolcrib.policy.shell.known import KNOWN, capabilities
from toolcrib.policy.shell.segments import TRUSTED, Command, Segment, analyse, line, program

__all__ = ["KNOWN", "TRUSTED", "Command", "Segment", "analyse", "capabilities", "line", "program"]

"""Which scripts of sed only change text. Others run commands (`e`), or read and write files (`r`, `w`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.policy.shell.options import Options, UnclearOption, harmless, read_options
from toolcrib.policy.shell.words import Word

_OPTIONS = Options(
    "nErszui?e:l:",
    "quiet silent debug regexp-extended separate null-data zero-terminated unbuffered posix sandbox follow-symlinks"
    " in-place help version",
    "expression line-length",
)
_ADDRESS = r"(?:[0-9]+|\$|/(?:[^/\\\n]|\\.)*/I?)(?:~[0-9]+)?"
_COMMAND = re.compile(
    rf"[\s;]*(?:{_ADDRESS}\s*(?:,\s*[+~]?{_ADDRESS})?)?\s*!?\s*"
    r"(?:s([^\w\s\\;])((?:\\.|(?!\1)[^\\\n])*)\1((?:\\.|(?!\1)[^\\\n])*)\1[gpiIm0-9]*(?=[\s;}]|\Z)"
    r"|y([^\w\s\\;])((?:\\.|(?!\4)[^\\\n])*)\4((?:\\.|(?!\4)[^\\\n])*)\4(?=[\s;}]|\Z)"
    r"|[btT:]\s*\w*(?=[\s;}]|\Z)|[qQlL]\s*[0-9]*(?=[\s;}]|\Z)|[pPdDgGhHnNxzF=](?=[\s;}]|\Z)|[{}]|\#[^\n]*"
    r"|[aic](?:\\\n?)?[^\n]*)"
)


def may_run_others(words: Sequence[Word]) -> bool:
    """True if sed may run a command, or reach a file that its words do not name."""
    if not harmless(words[1:], _OPTIONS):
        return True
    scripts, at = list[Word](), 1
    operands: list[Word] = []
    try:
        while at < len(words):
            parsed = read_options(words, _OPTIONS, at)
            scripts += [value for name, value in parsed.options if name in ("e", "--expression") and value]
            operands += words[parsed.rest : parsed.rest + 1]
            at = parsed.rest + 1
    except UnclearOption:
        return True
    scripts = scripts or operands[:1]
    return not all(word.literal is not None and _changes_text(word.literal) for word in scripts)


def _changes_text(script: str) -> bool:
    """True if a script holds nothing but commands that are known, and no bracket that may hide where one ends."""
    at = 0
    while script[at:].strip(" \t\n;"):
        match = _COMMAND.match(script, at)
        if match is None or any(part and part.count("[") != part.count("]") for part in match.groups()):
            return False
        at = match.end()
    return True

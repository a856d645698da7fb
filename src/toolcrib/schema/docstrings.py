"""Docstrings: what they say about a function, and about each parameter."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

HEADINGS = "Args|Arguments|Parameters|Params|Attributes|Keyword Args|Keyword Arguments|Other Parameters"
HEADING = re.compile(rf"(?:{HEADINGS})\s*:?\s*")
GOOGLE = re.compile(rf"^(?:{HEADINGS})\s*:\s*$", re.MULTILINE)
NUMPY = re.compile(rf"^(?:{HEADINGS})\s*\n-{{3,}}\s*$", re.MULTILINE)
SPHINX = re.compile(r"^:(?:param|parameter|arg|argument|key|keyword|type)\s[^:]*:", re.MULTILINE)


class ParsedDocstring(NamedTuple):
    """A docstring taken apart."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> ParsedDocstring:
    """Take a Google, NumPy or Sphinx docstring apart; the description keeps all but the parameters."""
    text = inspect.cleandoc(text or "")
    if not (GOOGLE.search(text) or NUMPY.search(text) or SPHINX.search(text)):
        return ParsedDocstring(text, {})
    return ParsedDocstring(_without_parameters(text), _parameters(text))


def _parameters(text: str) -> dict[str, str]:
    from docstring_parser import DocstringStyle, ParseError, parse

    style = DocstringStyle.GOOGLE if GOOGLE.search(text) else DocstringStyle.REST
    try:
        parsed = parse(text, DocstringStyle.NUMPYDOC if NUMPY.search(text) else style)
    except ParseError:
        return {}
    return {
        name.strip().lstrip("*"): " ".join(param.description.split())
        for param in parsed.params
        if param.description
        for name in param.arg_name.split(",")
    }


def _without_parameters(text: str) -> str:
    lines = text.splitlines()
    kept: list[str] = []
    section = ""  # the style of the section of parameters that is being left out
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        section = _section(line, following, section)
        if not section:
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _section(line: str, following: str, section: str) -> str:
    underlined = bool(re.fullmatch(r"-{3,}\s*", following)) and bool(line.strip())
    if underlined:
        return "numpy" if HEADING.fullmatch(line) else ""
    if GOOGLE.match(line) or SPHINX.match(line):
        return "indented"
    if section == "indented" and line.strip() and not line[0].isspace():
        return ""
    return section

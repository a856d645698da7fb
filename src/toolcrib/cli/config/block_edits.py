"""Places in the text of a YAML file at which whole lines are added or removed."""

from __future__ import annotations

from toolcrib.yaml import YamlNode


def block_end(text: str, node: YamlNode) -> int:
    """Return the end of the last line of a value."""
    while not node.flow and node.children:
        node = [*node.children.values()][-1]
    at = node.end.index
    # A text over several lines ends at the beginning of the next.
    return at if text[:at].endswith("\n") else line_end(text, at)


def line_end(text: str, at: int) -> int:
    """Return where the next line begins."""
    return text.find("\n", at) + 1 or len(text)


def inserted(text: str, at: int, lines: str) -> str:
    """Return the text with whole lines at a place, ended as its own are."""
    newline = "\r\n" if "\r\n" in text else "\n"
    begin = newline if at and not text[:at].endswith("\n") else ""
    return text[:at] + begin + lines.replace("\n", newline) + text[at:]

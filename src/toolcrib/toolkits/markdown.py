"""HTML as markdown, in one pass and without a tree, so that no page can cost more than reading it.

The parser of the standard library takes minutes for some pages of a few hundred KB, and one that builds a tree falls
over deep ones. This one knows just enough of HTML to find what a page says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urljoin

_TAG = re.compile(r"/?[a-zA-Z][a-zA-Z0-9]*")
_ATTRIBUTE = re.compile(r"""(?<![\w-])(href|alt)\s*=\s*(?:"([^"]*)|'([^']*)|([^\s"'>]+))""", re.IGNORECASE)
_LONGEST = 4096
_UNREAD = ("script", "style", "textarea", "title")
_UNSEEN = frozenset({*_UNREAD, "head", "template", "noscript", "svg", "iframe", "object", "select", "canvas"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption"}
    | {"figure", "footer", "form", "header", "hr", "html", "main", "nav", "ol", "p", "pre", "section", "summary"}
    | {"table", "tbody", "thead", "tfoot", "ul"}
)
_MARKS = {"b": "**", "strong": "**", "em": "*", "i": "*", "code": "`", "del": "~~", "s": "~~"}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_DEEPEST = 10


def markdown(html: str, base: str = "") -> str:
    """What a page says; links are made whole with the address of the page."""
    writer = _Writer(base)
    for tag, text in _tokens(html):
        if not tag:
            writer.data(unescape(text))
        elif tag.startswith("/"):
            writer.end(tag[1:])
        else:
            writer.start(tag, text)
    return writer.text()


def _tokens(html: str) -> Iterator[tuple[str, str]]:
    """Tags (`name`, `/name`) with what else stands in them, and the texts between, under no name."""
    at = 0
    while (begin := html.find("<", at)) >= 0:
        yield "", html[at:begin]
        named = _TAG.match(html, begin + 1)
        if named is None and not html.startswith(("<!", "<?", "</"), begin):
            yield "", "<"
            at = begin + 1
            continue
        mark = "-->" if html.startswith("<!--", begin) else ">"
        end = html.find(mark, begin)
        if end < 0:
            return
        at = end + len(mark)
        if named is not None:
            tag = named[0].lower()
            yield tag, html[named.end() : min(end, named.end() + _LONGEST)]
            if tag in _UNREAD:
                closing = re.compile(f"</{tag}", re.IGNORECASE).search(html, at)
                at = len(html) if closing is None else closing.start()
    yield "", html[at:]


class _Writer:
    """Writes as it is read."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._out: list[str] = []
        self._unseen: list[str] = []
        self._links: list[str | None] = []
        self._lists: list[int | None] = []
        self._pre = 0

    def start(self, tag: str, more: str) -> None:
        """Opens an element."""
        if tag in _UNSEEN:
            self._unseen.append(tag)
        elif self._unseen:
            return
        elif tag in _HEADINGS:
            self._write(f"\n\n{_HEADINGS[tag]} ")
        elif tag in _MARKS and not self._pre:
            self._write(_MARKS[tag])
        else:
            self._element(tag, more)

    def _element(self, tag: str, more: str) -> None:
        match tag:
            case "a":
                self._links.append(self._whole(_attribute(more, "href")))
                self._write("[" if self._links[-1] else "")
            case "img":
                alt = _attribute(more, "alt")
                self._write(f"![{alt}]" if alt else "")
            case "br" | "tr":
                self._write("\n")
            case "hr":
                self._write("\n\n---\n\n")
            case "li":
                self._write(self._item())
            case "td" | "th":
                self._write(" | ")
            case _:
                self._block(tag)

    def _block(self, tag: str) -> None:
        if tag in ("ul", "ol"):
            self._lists.append(0 if tag == "ol" else None)
            self._write("" if len(self._lists) > 1 else "\n\n")
        elif tag == "pre":
            self._pre += 1
            self._write("\n\n```\n")
        elif tag in _BLOCKS:
            self._write("\n\n")

    def _item(self) -> str:
        if not self._lists:
            return "\n- "
        indent, number = "  " * min(len(self._lists) - 1, _DEEPEST), self._lists[-1]
        if number is None:
            return f"\n{indent}- "
        self._lists[-1] = number + 1
        return f"\n{indent}{number + 1}. "

    def _whole(self, href: str) -> str | None:
        """The address of a link, if it leads to a page."""
        try:
            whole = urljoin(self._base, href.strip())
        except ValueError:
            return None
        return whole if whole.startswith(("http://", "https://", "mailto:")) else None

    def end(self, tag: str) -> None:
        """Closes an element; one that was never opened is passed over."""
        if tag in _UNSEEN:
            if tag in self._unseen[-_DEEPEST:]:
                while self._unseen.pop() != tag:
                    pass
        elif self._unseen:
            return
        elif tag in _MARKS and not self._pre:
            self._write(_MARKS[tag])
        elif tag == "a":
            link = self._links.pop() if self._links else None
            self._write(f"]({link})" if link else "")
        else:
            self._close(tag)

    def _close(self, tag: str) -> None:
        if tag in ("ul", "ol") and self._lists:
            self._lists.pop()
            self._write("" if self._lists else "\n\n")
        elif tag == "pre" and self._pre:
            self._pre -= 1
            self._write("\n```\n\n")
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._write("\n\n")

    def data(self, text: str) -> None:
        """Writes text."""
        if not self._unseen:
            self._write(text if self._pre else re.sub(r"\s+", " ", text))

    def _write(self, text: str) -> None:
        if text:
            self._out.append(text)

    def text(self) -> str:
        """What was written, without needless blanks."""
        kept, fenced = [], False
        for line in "".join(self._out).split("\n"):
            fenced ^= line.startswith("```")
            listed = line.lstrip(" ").startswith("- ") or line.lstrip(" 0123456789").startswith(". ")
            kept.append(line.rstrip() if fenced or listed else line.strip())
        return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _attribute(more: str, name: str) -> str:
    for match in _ATTRIBUTE.finditer(more):
        if match[1].lower() == name:
            return unescape(match[2] or match[3] or match[4] or "")
    return ""

"""What a model sees of a large result: text without markup, named fields, the first rows. The log keeps all.

A filter that leaves nothing, or that nobody knows, gives everything.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

TOKEN = 4
"""Characters of a token, as far as one may guess."""

MOST_TOKENS = 3000
CUT = "[...truncated]"

_UNSEEN = frozenset({"script", "style", "nav", "header", "footer", "aside", "noscript"})
_BLOCKS = "article blockquote body div dl fieldset figure form h1 h2 h3 h4 h5 h6 hr main ol p pre section table ul"
_PARAGRAPHS = _UNSEEN.union(_BLOCKS.split())
_LINES = frozenset({"br", "dd", "dt", "li", "option", "tr"})

# Each is read once from left to right, whatever the text is: no part of a pattern gives back what another could take.
_MARK = re.compile(r"<!--|<(/?)([A-Za-z][A-Za-z0-9-]*+(?::[A-Za-z][A-Za-z0-9-]*+)?)(?=[\s/>])[^<>]*+>|<[!?][^<>]*+>")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])[^<>]*+>", re.IGNORECASE) for name in ("script", "style")}
_SENTENCE = re.compile(r"[.!?](?=\s)")


class FilteredResult(NamedTuple):
    """What is left of a result, and how much shorter it is; lengths are characters as a model reads them."""

    filtered: Any
    original_length: int
    filtered_length: int
    reduction_pct: int
    filter_type: str


def filtered(data: Any, filter: Any) -> FilteredResult:
    """Apply the filter of a command, or of a registry, to the data."""
    settings = filter if isinstance(filter, Mapping) else {}
    apply = {"content": _content, "schema": _schema, "field": _field}.get(str(settings.get("type")))
    if apply is None:
        return _outcome(data, data, "unknown" if settings else "none")
    left = apply(data, settings)
    return _outcome(data, data, "none") if _empty(left) else _outcome(data, left, str(settings["type"]))


def tokens(value: Any) -> int:
    """About how many tokens a model reads there."""
    return -(-len(_text(value)) // TOKEN)


def _outcome(data: Any, left: Any, type: str) -> FilteredResult:
    before = len(_text(data))
    after = before if left is data else len(_text(left))
    saved = round(100 * (before - after) / before) if before > after else 0
    return FilteredResult(left, before, after, saved, type)


def _text(value: Any, indent: int | None = None) -> str:
    if isinstance(value, str):
        return value
    separators = (",", ":") if indent is None else None
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, default=str)


def _empty(left: Any) -> bool:
    if isinstance(left, list):
        return all(item == {} for item in left)
    return left is None or left in ({}, "")


def _number(value: Any, default: int | None) -> int | None:
    return value if type(value) is int and value > 0 else default


def _picked(data: Any, names: Any) -> Any:
    """The named fields of an object, or of each in a list; without names, all of them."""
    if not isinstance(names, list | tuple) or not names:
        return data
    if isinstance(data, Mapping):
        return {name: data[name] for name in names if isinstance(name, str) and name in data}
    if isinstance(data, list | tuple):
        return [_picked(item, names) if isinstance(item, Mapping) else item for item in data]
    return None


# content


def _content(data: Any, settings: Mapping[str, Any]) -> Any:
    chosen = data if isinstance(data, str) else _picked(data, settings.get("extract"))
    if _empty(chosen):
        return None
    text = plain(chosen) if isinstance(chosen, str) else _text(_each_plain(chosen), indent=2)
    return _cut(text, (_number(settings.get("max_tokens"), MOST_TOKENS) or MOST_TOKENS) * TOKEN)


def _each_plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {name: _each_plain(one) for name, one in value.items()}
    return [_each_plain(one) for one in value] if isinstance(value, list | tuple) else value


def plain(text: str) -> str:
    """The text of a page: what is seen of it, without markup, entities decoded. Other text stays as it is."""
    if _MARK.search(text) is not None:
        seen = "".join(_seen(text))
        lines = (" ".join(line.split()) for line in seen.split("\n"))
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def _seen(page: str) -> list[str]:
    """The parts of a page outside its marks and outside what nobody reads."""
    parts: list[str] = []
    unseen: list[str] = []
    at = 0
    while (mark := _MARK.search(page, at)) is not None:
        name = (mark[2] or "").lower()
        if not unseen:
            parts += (page[at : mark.start()], _break(name))
        at = _after(page, mark, name)
        if name in _UNSEEN and name not in _ENDS:
            _enter_or_leave(unseen, name, leave=bool(mark[1]))
    return parts if unseen else [*parts, page[at:]]


def _after(page: str, mark: re.Match[str], name: str) -> int:
    """Where to go on behind a mark: behind all of a comment, a script or a style."""
    if mark[0] == "<!--":
        end = page.find("-->", mark.end())
        return len(page) if end < 0 else end + 3
    if name in _ENDS and not mark[1]:
        close = _ENDS[name].search(page, mark.end())
        return len(page) if close is None else close.end()
    return mark.end()


def _enter_or_leave(unseen: list[str], name: str, *, leave: bool) -> None:
    if not leave:
        unseen.append(name)
    elif name in unseen:
        while unseen.pop() != name:
            pass


def _break(name: str) -> str:
    if name in _PARAGRAPHS:
        return "\n\n"
    return "\n" if name in _LINES else "\t" if name in ("td", "th") else ""


def _cut(text: str, limit: int) -> str:
    """Cut a text to the limit, at the end of a paragraph or sentence if one lies in its second half."""
    if len(text) <= limit:
        return text
    end = text.rfind("\n\n", limit // 2, limit + 2)
    if end < 0:
        ends = [match.end() for match in _SENTENCE.finditer(text, limit // 2, limit + 1)]
        end = ends[-1] if ends else limit
    return f"{text[:end].rstrip()}\n\n{CUT}"


# schema


def _schema(data: Any, settings: Mapping[str, Any]) -> Any:
    chosen = _picked(data, settings.get("fields"))
    limit = _number(settings.get("max_tokens"), None)
    return chosen if limit is None or _empty(chosen) else _fitted(chosen, limit * TOKEN)


def _fitted(value: Any, room: int) -> Any:
    """What fits: a list loses its last items, an object what takes the most room, a text its end."""
    if _size(value) <= room:
        return value
    if isinstance(value, Mapping):
        return _fitted_object(value, room)
    if isinstance(value, list | tuple):
        return _fitted_list(value, room)
    return _fitted_text(value, room) if isinstance(value, str) else value


def _fitted_text(text: str, room: int) -> str:
    short = text[: max(room - len(CUT) - 2, 0)]
    more = max(_size(short + CUT) - room, 0)  # what takes two characters in JSON
    return short[: max(len(short) - more, 0)] + CUT


def _fitted_list(items: list[Any] | tuple[Any, ...], room: int) -> list[Any]:
    kept: list[Any] = []
    left = room - 1
    for item in items:
        left -= _size(item) + 1
        if left < 0:
            break
        kept.append(item)
    return kept or [_fitted(items[0], room - 2)]


def _fitted_object(value: Mapping[str, Any], room: int) -> dict[str, Any]:
    """The largest parts go first; then as much of a list or an object comes back as there is room for.

    A text that goes is gone, unless nothing else is left.
    """
    sizes = {name: _size(name) + _size(one) + 2 for name, one in value.items()}
    total = sum(sizes.values()) + 1
    kept, gone = dict(value), {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if total <= room:
            break
        gone[name] = kept.pop(name)
        total -= sizes[name]
    for name, one in gone.items():
        left = room - total - _size(name) - 2
        part = one if kept and isinstance(one, str) else _fitted(one, left)
        if not kept or _size(part) <= left:
            kept[name] = part
            total += _size(name) + _size(part) + 2
    return {name: kept[name] for name in value if name in kept}


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


# field


def _field(data: Any, settings: Mapping[str, Any]) -> Any:
    rows = [data] if isinstance(data, Mapping) else data
    most = _number(settings.get("max_rows"), None)
    return _picked(rows[:most] if isinstance(rows, list | tuple) else rows, settings.get("fields"))

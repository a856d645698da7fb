"""The guard of the preset `guarded`: which calls of an agent need no question, by where their values come from.

A call that acts needs none where whom, where and which come from the user's own words, or from records that those words
led to, and where the words ask for such a deed or give every such value themselves. What is merely said, its content,
is free, except for links and addresses that only strangers wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from toolcrib.origins import deeds
from toolcrib.origins.addresses import is_address, is_url, links
from toolcrib.origins.flow import ArgumentValue, flow_of
from toolcrib.origins.index import OriginIndex, Sighting
from toolcrib.origins.passages import excerpt
from toolcrib.origins.roles import names_location
from toolcrib.policy.verdicts import Verdict
from toolcrib.schema.redaction import parted
from toolcrib.schema.visible_json import visible_text
from toolcrib.tool import Tool

_PLACES = {
    "user": "in the words of the user",
    "instructions": "in the instructions of the agent",
    "field": "a field of a result",
    "prose": "inside the text of a result",
    "agent": "said by another agent",
    "nowhere": "seen nowhere",
}
_LEAVING = frozenset({"recipient", "destination"})


class Doubt(NamedTuple):
    """Why a value of a call needs a question: the place where it was seen, or None for the deed itself."""

    argument: str
    value: str
    sighting: Sighting | None
    text: str

    def data(self) -> dict[str, Any]:
        """Return it as plain data, for whoever shows the question."""
        seen = self.sighting
        if seen is None:
            return {"text": self.text}
        facts = {"argument": self.argument, "value": self.value, "seen": seen.kind, "text": self.text}
        passage, written = excerpt(seen.passage, self.value)
        more = {"call": seen.call, "tool": seen.tool, "path": seen.path, "passage": passage}
        if written not in ("", self.value):
            more["written"] = written
        return {**facts, **{name: value for name, value in more.items() if value}}


class ToolGuard:
    """The guard of the calls of one tool, with what is worked out once for it."""

    __slots__ = ("_acts", "_asked_by", "_flow", "_leaves", "_tool")

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._flow = flow_of(tool)
        self._acts = tool.does != "read"
        self._leaves = _leaves(tool)
        self._asked_by = deeds.asked_by(tool.name, tool.description)

    def verdict(self, values: Mapping[str, Any], index: OriginIndex | None, detail: tuple[str, ...] = ()) -> Verdict:
        """Return what is said of a call of an agent, after the `detail`; without an index nothing is trusted."""
        asks = list(self.doubts(values, index))
        if not asks:
            return _passed(detail)
        more = tuple(f"origin: {doubt.text}" for doubt in asks)
        return Verdict("ask", "rule", asks[0].text, "guarded", detail=(*detail, *more))

    def account(self, values: Mapping[str, Any], index: OriginIndex | None) -> Iterator[str]:
        """Yield where each value of a call was seen that needs no question, a line each."""
        hidden = _hidden(self._tool, values)
        for one in self._flow.arguments(values):
            seen = (index or OriginIndex()).sightings(one.value, one.argument)[0]
            value = "a hidden value" if one.argument in hidden else _short(str(one.value))
            place = f" (call {seen.call}, {seen.tool}, `{seen.path}`)" if seen.call else ""
            yield f"origin: `{one.path}` = {value}, {one.role}: {_PLACES[seen.kind]}{place}"

    def doubts(self, values: Mapping[str, Any], index: OriginIndex | None) -> Iterator[Doubt]:
        """Yield everything about a call that needs a question."""
        index = index or OriginIndex()
        acts, own, others = self._acts, 0, 0
        for one in map(_as_address, self._flow.arguments(values)):
            role = one.role
            if role == "option" or not (acts or (role == "destination" and _is_place(one))):
                continue
            if role == "content":
                if self._leaves or (isinstance(one.value, str) and is_url(one.value)):
                    yield from _links(one, index)
                continue
            which = role != "amount"
            if index.said(one.value, as_written=which):
                own += which
            elif _needs_no_name(one) and index.led_to(one.value, which):  # nothing else is looked for, which costs more
                others += 1
            else:
                seen = index.fields(one.value, which)
                others += which or bool(seen)
                passes = _led(one, seen, index) if seen else False
                if not seen:
                    seen = index.sightings(one.value, one.argument)
                    passes = _passes(one, seen, index, acts)
                if not passes:
                    secret = one.argument in _hidden(self._tool, values)
                    yield _doubt(one.path, "a hidden value" if secret else str(one.value), seen)
        if acts and (others or not own) and self._asked_by.isdisjoint(index.user.stems):
            yield Doubt("", "", None, f"nothing in your words asks for {self._tool.id}")


def tool_guard(tool: Tool) -> ToolGuard | None:
    """Return the guard of a tool: of those that act, and those that may fetch from an address; None for others."""
    if tool.namespace == "builtin":
        return None
    concerned = tool.does != "read" or "destination" in flow_of(tool).roles or _reaches(tool)
    return ToolGuard(tool) if concerned else None


@lru_cache(1024)
def _passed(detail: tuple[str, ...]) -> Verdict:
    return Verdict("allow", message="its values come from the user's words", detail=detail)


def _as_address(one: ArgumentValue) -> ArgumentValue:
    """Return a value as a destination where it is a URL, whatever it is called, or an address in an option."""
    value, role = one.value, one.role
    if role == "content" or role == "destination" or not isinstance(value, str):
        return one
    reaches = is_url(value) or (role == "option" and is_address(value))
    return one._replace(role="destination") if reaches else one


def _is_place(one: ArgumentValue) -> bool:
    """Return True if a destination is one to which a request goes, and not the name of a channel."""
    return names_location(one.path) or is_address(str(one.value))


def _leaves(tool: Tool) -> bool:
    """Return True if what a tool is given as content reaches others: whom it names, or whoever reads what it posts."""
    if not _LEAVING.isdisjoint(flow_of(tool).roles) or deeds.tells(tool.name):
        return True
    return tool.annotations is not None and tool.annotations.open_world


def _reaches(tool: Tool) -> bool:
    """Return True if a tool reaches the open world with texts that may be addresses."""
    return tool.annotations is not None and tool.annotations.open_world and bool(tool.input_schema.get("properties"))


def _led(one: ArgumentValue, fields: list[Sighting], index: OriginIndex) -> bool:
    """Return True if a value that is a field of records needs no question.

    Who says an address themselves needs none of a stranger's record: else whoever wrote a mail that is to be sent on
    would get it.
    """
    led = [where for where in fields if where.led]
    if _needs_no_name(one):
        return bool(led)
    if index.written_in_pieces(str(one.value)):
        return False
    return any(where.trusted or (where.named and not index.user.addresses) for where in led)


def _needs_no_name(one: ArgumentValue) -> bool:
    """Return True if it is enough that the user's words led to a record, whether or not they name it."""
    return one.role in ("amount", "identifier") or not is_address(str(one.value))


def _passes(one: ArgumentValue, seen: list[Sighting], index: OriginIndex, acts: bool) -> bool:
    """Return True if a value that the user did not say, and that is no field, needs no question."""
    best = seen[0]
    if one.role == "amount":
        made = best.kind == "nowhere" or (best.made and all(where.trusted for where in seen))
        return made and index.complete
    return not acts and best.kind == "prose" and best.described and one.role != "identifier"


def _links(one: ArgumentValue, index: OriginIndex) -> Iterator[Doubt]:
    """Yield the links and addresses in a content that only strangers wrote, or that nobody wrote once they could."""
    text = str(one.value)
    for link in links(text) or ([text] if is_url(text) else []):
        seen = index.sightings(link)
        unknown = seen[0].kind == "nowhere" and (index.heard_strangers or not index.complete)  # it may be in disguise
        if unknown or (seen[0].kind in ("prose", "agent") and not seen[0].trusted and not seen[0].described):
            yield _doubt(one.path, link, seen)


def _doubt(argument: str, value: str, seen: list[Sighting]) -> Doubt:
    where = seen[0]
    text = f"`{argument}` = {_short(value)} "
    if where.made:
        text += f"was made by the script of what {where.tool} returned (call {where.call}), not in your words"
    elif where.kind == "nowhere":
        text += "was seen nowhere, neither in your words nor in a result"
    elif where.kind == "agent":
        text += "was only said by another agent, not by you"
    elif where.kind == "field":
        text += (
            f"is a field of a record that your words do not lead to (call {where.call}, {where.tool}, `{where.path}`)"
        )
    else:
        text += f"was only seen inside the text of {where.tool} (call {where.call}, `{where.path}`), not in your words"
    return Doubt(argument, value, where, text)


def _short(value: str) -> str:
    """Return a value in one line, with nothing hidden in it."""
    shown = visible_text(" ".join(value.split()))
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


def _hidden(tool: Tool, values: Mapping[str, Any]) -> set[str]:
    """Return the arguments that nobody may see."""
    if tool.hidden is None:
        return set()
    shown = parted(tool.hidden, dict(values))[0]
    return {name for name, value in values.items() if shown.get(name) != value}

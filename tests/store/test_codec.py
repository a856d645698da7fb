"""What is written although JSON has no word for it: as near to it as JSON comes."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from toolcrib.events import Notice, written
from toolcrib.store.codec import DEEPEST, LARGE, decode, encode, split_large, whole

HALF = "a\ud800b"


@dataclass
class Point:
    """A value of somebody's program."""

    name: str
    at: tuple[int, int]


class Line(msgspec.Struct):
    """The same as a struct."""

    name: str


class Odd:
    """Something that only its text tells."""

    def __str__(self) -> str:
        return f"odd {HALF}"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (HALF, "a?b"),
        ({HALF: HALF, 1: 2}, {"a?b": "a?b", "1": 2}),
        ([HALF, {"x": (HALF,)}, None, True, 1.5], ["a?b", {"x": ["a?b"]}, None, True, 1.5]),
        ({"a": {HALF}, "b": frozenset([HALF])}, {"a": ["a?b"], "b": ["a?b"]}),
        (Point(HALF, (1, 2)), {"name": "a?b", "at": [1, 2]}),
        ([Line(HALF), Odd()], [{"name": "a?b"}, "odd a?b"]),
        ([HALF, Point, Line], ["a?b", str(Point), str(Line)]),
        ([Point("whole", (1, 2)), Line("whole")], [{"name": "whole", "at": [1, 2]}, {"name": "whole"}]),
    ],
)
def test_texts_become_whole_and_all_else_stays(value: Any, written: Any) -> None:
    assert decode(encode(value)) == written


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"k": inner}, lambda inner: Point("p", inner)])
def test_what_is_nested_without_end_is_cut_off_at_a_depth(wrap: Any) -> None:
    value: Any = 7
    for _ in range(100_000):
        value = wrap(value)
    depth, found = 0, decode(encode({"deep": value}))["deep"]
    while not isinstance(found, str):
        found = found[0] if isinstance(found, list) else found.get("k", found.get("at"))
        depth += 1
    assert (found, depth) == ("…", DEEPEST)


def test_a_whole_text_is_what_it_was() -> None:
    assert [whole(text) for text in ("é😀", "", HALF)] == ["é😀", "", "a?b"]


@pytest.mark.parametrize(
    ("length", "large"), [(LARGE - 100, False), (LARGE - 2, False), (LARGE - 1, True), (LARGE, True)]
)
def test_a_value_is_kept_beside_the_log_from_one_byte_more_than_it_may_have(length: int, large: bool) -> None:
    notice = Notice("x" * length, {})
    text, parts = split_large("notice", notice)
    assert list(parts) == (["text"] if large else [])
    assert ("x" * length in text.decode()) is not large
    again, kept = split_large("notice", CompactNotice(notice))
    assert (decode(again), list(kept)) == (decode(text), list(parts))


class CompactNotice:
    """A notice that is written when it is asked for."""

    def __init__(self, notice: Notice) -> None:
        self._notice = notice

    def json(self, kind: str) -> bytes:
        return encode(written(self._notice))

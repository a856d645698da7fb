"""What people are shown before they agree is the JSON that will run, and all of it can be seen."""

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from toolcrib.schema.visible_json import visible_json, visible_text

UNSEEN = [
    *("\u202e", "\u2066", "\u200b", "\u200d", "\u2028", "\u2029", "\ufeff", "\u00ad", "\u00a0", "\u3000", "\u061c"),
    *("\x00", "\x1b", "\x7f", "\x85", "\x9b", "\ud800", "\ue000", "\ufe0f", "\u3164", "\u2800"),
    *("\U000e0041", "\U000e0100"),
]


@requirement("security.approval.2")
@pytest.mark.parametrize("mark", UNSEEN, ids=lambda mark: f"{ord(mark):x}")
def test_what_cannot_be_seen_is_escaped(mark: str) -> None:
    shown = visible_json({"a": f"txt{mark}exe", f"b{mark}": [mark]}, 2)
    assert mark not in shown.replace("\n", "")
    assert json.loads(shown) == {"a": f"txt{mark}exe", f"b{mark}": [mark]}
    assert mark not in visible_text(f"say {mark}")


@requirement("security.approval.2")
def test_integers_are_whole_and_letters_stay() -> None:
    value = {"wei": 2**256 - 1, "id": 9007199254740993, "name": "Zoë 漢字 ни", "line": "a\nb"}
    shown = visible_json(value)
    assert f'"wei":{2**256 - 1}' in shown
    assert "9007199254740993" in shown
    assert "Zoë 漢字 ни" in shown
    assert "\n" not in shown


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@requirement("security.approval.2")
@given(values)
def test_the_text_reads_as_the_same_value(value: Any) -> None:
    for indent in (None, 2):
        shown = visible_json(value, indent)
        assert json.loads(shown) == value
        found = {unicodedata.category(one) for one in shown if one != "\n"}
        assert not found & {"Cc", "Cf", "Zl", "Zp", "Co", "Cn", "Cs"}

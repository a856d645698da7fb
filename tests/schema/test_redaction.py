"""What looks like a private key or a seed phrase: the quick look at a text never misses what the whole look finds."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from toolcrib.schema.redaction import MASK, may_hold_keys, parted, suspect

HEX = "0123456789abcdefABCDEF"
WORDS = "act add age aim air all any arm art ask bar box"

keys = st.builds(str.__add__, st.sampled_from(["", "0x", "0X"]), st.text(HEX, min_size=64, max_size=64))
phrases = st.builds(
    lambda words, gap, ends: ends + gap.join(words) + ends,
    st.lists(st.text("abcxyz", min_size=3, max_size=8), min_size=12, max_size=24),
    st.sampled_from([" ", "  ", "\n", "\t ", "\u00a0", "\u2003"]),
    st.sampled_from(["", " ", "\n"]),
)
texts = st.text(max_size=80) | st.text('abc xyz019"\\\n', max_size=80)
names = st.builds(
    lambda before, name, after: before + name + after,
    st.sampled_from(["", "my_", "Own", "\n", "é"]),
    st.sampled_from(["key", "KEY", "secret", "Private", "mnemonic", "seed", "passPhrase", "id", "public", "name"]),
    st.sampled_from(["", "s", "_1", ".hex"]),
)
data = st.recursive(
    keys | phrases | texts | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | texts, inner, max_size=3),
    max_leaves=12,
)


def plainly(value: Any) -> str:
    return json.dumps(value)


def closely(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def escaped(value: Any) -> str:
    """The same JSON with every letter of its texts written as an escape."""
    if isinstance(value, str):
        return '"' + "".join(f"\\u{unit:04x}" for unit in _units(value)) + '"'
    if isinstance(value, list):
        return f"[{','.join(map(escaped, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{escaped(name)}:{escaped(inner)}" for name, inner in value.items()) + "}"
    return json.dumps(value)


def _units(text: str) -> list[int]:
    halves = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(halves[at : at + 2]) for at in range(0, len(halves), 2)]


@requirement("chain.safe.1")
@settings(max_examples=300, deadline=None)
@given(value=data, name=names, write=st.sampled_from([plainly, closely, escaped]), before=st.integers(0, 3))
def test_the_quick_look_never_misses_what_the_whole_look_finds(value: Any, name: str, write: Any, before: int) -> None:
    text = (" " * before + write({name: value})).encode("utf-8", "surrogatepass")
    shown, found = parted(None, json.loads(text))
    assert not found or suspect(text)
    assert all(isinstance(one, str) and one not in str(shown) for one in found)


@pytest.mark.parametrize("value", ["ab" * 32, "0x" + "4C" * 32, WORDS, WORDS.replace(" ", "\n"), f" {WORDS} "])
@pytest.mark.parametrize("name", ["key", "PRIVATE_KEY", "seed", "one\ntwo key"])
@pytest.mark.parametrize("write", [plainly, closely, escaped])
def test_a_key_is_seen_however_it_is_written(value: str, name: str, write: Any) -> None:
    assert suspect(write({name: value}).encode())
    assert parted(None, {name: value})[0] == {name: MASK}


@pytest.mark.parametrize(
    "text", [f'{{"seed": "{WORDS}', "{'key': '" + "ab" * 32 + "'}", '{"seed": "' + "\n".join(WORDS.split())]
)
def test_a_key_is_seen_in_a_text_that_is_no_json(text: str) -> None:
    assert suspect(text.encode())


@pytest.mark.parametrize(
    "value",
    [
        {"key": "short", "list": ["steel", "wrench"] * 100, "at": "2025-11-03T09:41:27Z"},
        {"hash": "ab" * 32},
        {"note": "all small letters without a word that tells of anything " * 5},
    ],
)
def test_most_texts_are_looked_at_once(value: Any) -> None:
    assert not suspect(closely(value).encode())


def test_a_closed_schema_without_telling_names_holds_no_key() -> None:
    closed = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
    assert not may_hold_keys(closed, closed)
    assert may_hold_keys(told := {**closed, "properties": {"privateKey": {"type": "string"}}}, told)
    assert may_hold_keys(more := {"type": "object", "properties": {"at": closed, "in": {"type": "object"}}}, more)

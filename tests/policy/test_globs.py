"""policy.match.text: one glob language, anchored, in linear time."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.policy import globs

CASES = case_data("policy/text_globs.json")


@requirement("policy.match.text")
@pytest.mark.parametrize("case", CASES, ids=[f"{case['glob']!a}-{case['text']!a}" for case in CASES])
def test_texts_match_as_the_shared_cases_say(case: dict[str, Any]) -> None:
    assert globs.text(case["glob"])(case["text"]) is case["match"]


@requirement("policy.match.text")
@pytest.mark.parametrize(
    ("glob", "text", "match"),
    [
        ("get_*", "get_", True),
        ("get_*", "xget_a", False),
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
        ("?", "", False),
        ("?", "\n", True),
        ("a?c", "abc", True),
        ("*a*b*c*", "xxaxbxc", True),
        ("*a*b*c*", "cba", False),
        ("x*x", "x", False),
        ("[a-c]1", "b1", True),
        ("[a-c]1", "d1", False),
        ("[!a-c]1", "d1", True),
        ("[]x]", "]", True),
        ("[!]x]", "]", False),
        ("[c-a]", "b", False),
        ("[!c-a]", "b", True),
        ("[a-]", "-", True),
        (r"[\]a]", "]", True),
        ("[open", "[open", True),
        (r"\?\[\\", r"?[\ ".strip(), True),
        ("back\\", "back\\", True),
        ("a.c", "abc", False),
        ("(a|b)+$", "(a|b)+$", True),
        ("[^a]", "^", True),
        ("[^a]", "b", False),
        ("[&&||~~--]", "&", True),
        ("naïve*", "naïvety", True),
        ("A*", "abc", False),
    ],
)
def test_a_glob_means_these_texts(glob: str, text: str, match: bool) -> None:
    assert globs.text(glob)(text) is match


@requirement("policy.match.text")
def test_literal_characters_and_wildcards_are_counted() -> None:
    assert [globs.literal(glob) for glob in ("abc", "a*c", r"\*x", "[ab]c", "[open", "**")] == [3, 2, 2, 1, 5, 0]
    assert [globs.wildcards(glob) for glob in ("abc", "a*c", r"\*x", "[ab]c", "[open", "**")] == [0, 1, 0, 1, 0, 2]
    assert [globs.is_pattern(glob) for glob in ("abc", "a?", r"a\?", "[ab]", "[ab")] == [
        False,
        True,
        False,
        True,
        False,
    ]


@requirement("policy.match.text")
@pytest.mark.parametrize("glob", ["*a" * 60 + "b", "?*" * 60 + "b", "*[ab]" * 60 + "c", "a*" * 60 + "b"])
def test_no_glob_takes_more_than_a_moment(glob: str) -> None:
    began = time.process_time()
    assert not globs.text(glob)("a" * 20_000)
    assert time.process_time() - began < 5  # backtracking would take longer than the universe lasts


# A glob is made of parts, so that the slow matcher below does not depend on how globs are read.
Part = tuple[str, str]
CHARS = "ab*?[]!-\\^/\n."
parts = st.lists(
    st.one_of(
        st.just(("star", "")),
        st.just(("one", "")),
        st.tuples(st.just("char"), st.sampled_from(CHARS)),
        st.tuples(st.sampled_from(["in", "out"]), st.text(CHARS, min_size=1, max_size=3)),
    ),
    max_size=8,
)


def written(found: list[Part]) -> str:
    def one(part: Part) -> str:
        kind, text = part
        if kind in ("in", "out"):
            return f"[{'!' if kind == 'out' else ''}{''.join(chr(92) + char for char in text)}]"
        return {"star": "*", "one": "?", "char": "\\" + text}[kind]

    return "".join(map(one, found))


def slowly(found: list[Part], text: str) -> bool:
    if not found:
        return text == ""
    (kind, chars), rest = found[0], found[1:]
    if kind == "star":
        return any(slowly(rest, text[at:]) for at in range(len(text) + 1))
    fits = {"one": True, "char": text[:1] == chars, "in": text[:1] in chars, "out": text[:1] not in chars}[kind]
    return bool(text) and fits and slowly(rest, text[1:])


@requirement("policy.match.text")
@given(parts, st.text(CHARS, max_size=8))
def test_quick_and_slow_matching_agree(found: list[Part], text: str) -> None:
    glob = written(found)
    assert globs.text(glob)(text) is slowly(found, text)
    assert globs.wildcards(glob) == sum(kind != "char" for kind, _ in found)
    compiled = globs.compiled(glob)
    assert not slowly(found, text) or text.startswith(compiled.prefix)


@requirement("policy.match.text")
@given(st.text(CHARS, max_size=8), st.text(CHARS, max_size=8))
def test_an_escaped_text_means_itself_alone(text: str, other: str) -> None:
    test = globs.text(globs.escaped(text))
    assert test(text)
    assert test(other) is (text == other)


@given(st.text(), st.text())
def test_every_text_is_a_glob(glob: str, text: str) -> None:
    globs.text(glob)(text)
    assert globs.literal(glob) + globs.wildcards(glob) <= len(glob)

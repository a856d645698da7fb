"""What a filter leaves of a result: text, fields, rows, and always something."""

import json
import time
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import recorded
from toolcrib.definitions.filters import CUT, FilteredResult, filtered, plain, tokens


def left(data: Any, **filter: Any) -> Any:
    return filtered(data, filter).filtered


def length(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))


@requirement("yaml.filter.1", "yaml.filter.2")
def test_results_are_filtered_as_the_shared_cases_say() -> None:
    for case in recorded("cases/own-filters.jsonl"):
        found = filtered(case["input"], case["filter"])._asdict()
        assert {name: found[name] for name in case["expect"]} == case["expect"], case["about"]


# content


@requirement("yaml.filter.1")
def test_a_page_is_read_without_what_nobody_reads() -> None:
    page = """<!doctype html><html><head><title>Tea</title><style>p {color: red}</style>
      <script>if (1 < 2) alert("<p>no</p>")</script></head>
      <body><nav><ul><li>Home</li></ul></nav><header>Top<nav>more</nav></header>
      <h1>Green&nbsp;tea</h1><!-- <p>secret</p> --><p>Hot   &amp; <b>fre</b>sh.</p><p>Second&#x21;</p>
      <noscript>turn it on</noscript><aside>ads</aside><table><tr><td>a</td><td>b</td></tr></table>
      <footer>Bottom</footer></body></html>"""
    assert left(page, type="content") == "Tea\n\nGreen\xa0tea\n\nHot & fresh.\n\nSecond!\n\na b"


@requirement("yaml.filter.1")
def test_text_that_only_looks_like_markup_stays() -> None:
    text = "if a < b and c > d: mail <ada@example.org>\n\n  see <https://example.org/?a=1&copy=2>  "
    assert left(text, type="content") == text


def test_entities_are_decoded_once_and_impossible_ones_stay() -> None:
    assert plain("&lt;b&gt; &amp;lt; &#65;&#99999999999; &nosuch;") == "<b> &lt; A&#99999999999; &nosuch;"


@requirement("yaml.filter.1")
def test_named_fields_are_shown_as_indented_json_without_markup() -> None:
    data = [{"title": "A <b>b</b>", "html": "x" * 100, "url": "u"}, {"url": "v"}]
    shown = left(data, type="content", extract=["title", "url"])
    assert shown == json.dumps([{"title": "A b", "url": "u"}, {"url": "v"}], indent=2)


@requirement("yaml.filter.1")
def test_a_long_text_is_cut_where_a_paragraph_ends_past_half_the_limit() -> None:
    text = "\n\n".join(["a" * 18, "b" * 10, "c. c"])
    assert left(text, type="content", max_tokens=8) == f"{'a' * 18}\n\n{'b' * 10}\n\n{CUT}"
    assert left("a" * 5 + "\n\n" + "One. Two. Three " * 9, type="content", max_tokens=8) == (
        f"aaaaa\n\nOne. Two. Three One. Two.\n\n{CUT}"
    )
    assert left("x" * 100, type="content", max_tokens=8) == "x" * 32 + f"\n\n{CUT}"


@requirement("yaml.filter.1")
def test_three_thousand_tokens_are_let_through_unless_another_limit_is_said() -> None:
    assert left("x" * 12_000, type="content") == "x" * 12_000
    for nonsense in (None, 0, -1, "many", True):
        assert len(left("x" * 12_001, type="content", max_tokens=nonsense)) == 12_000 + 2 + len(CUT)


@pytest.mark.parametrize(
    "part", ["<a ", "<!--", "<script>", "<nav>", "<", "<a b='", "</script ", "&#9", ". ", "a<b>", "<p>\n"]
)
def test_no_text_takes_long(part: str) -> None:
    start = time.process_time()
    filtered(part * (1_000_000 // len(part)), {"type": "content"})
    assert time.process_time() - start < 3


# schema


@requirement("yaml.filter.1")
def test_only_named_fields_are_left() -> None:
    assert left({"a": 1, "b": 2}, type="schema", fields=["b", "c"]) == {"b": 2}
    assert left([{"a": 1, "b": 2}, {"b": 3}], type="schema", fields=["b"]) == [{"b": 2}, {"b": 3}]


@requirement("yaml.filter.1")
def test_a_list_loses_its_last_items_until_it_fits() -> None:
    rows = [{"n": number, "text": "x" * 20} for number in range(50)]
    some = left(rows, type="schema", fields=["n", "text"], max_tokens=40)
    assert some == rows[: len(some)]
    assert length(some) <= 160 < length(rows[: len(some) + 1])


@requirement("yaml.filter.1")
def test_an_object_loses_its_longest_texts_until_it_fits() -> None:
    data = {"title": "t", "long": "x" * 500, "middle": "y" * 80, "n": 1, "longest": "z" * 900}
    assert left(data, type="schema", max_tokens=40) == {"title": "t", "middle": "y" * 80, "n": 1}
    assert left(data, type="schema", max_tokens=10) == {"title": "t", "n": 1}


@requirement("yaml.filter.1")
def test_lists_inside_an_object_give_way_too() -> None:
    data = {"title": "t", "rows": [{"n": number} for number in range(1000)], "page": "x" * 3000}
    fitted = left(data, type="schema", max_tokens=50)
    assert fitted == {"title": "t", "rows": data["rows"][: len(fitted["rows"])]}
    assert 180 < length(fitted) <= 200


def test_the_only_text_of_an_object_is_cut_and_not_lost() -> None:
    fitted = left({"text": '"' * 500}, type="schema", max_tokens=20)
    assert fitted["text"].endswith(CUT)
    assert length(fitted) <= 80
    assert length(left([{"a": "x" * 900}], type="schema", max_tokens=20)) <= 80


# field


@requirement("yaml.filter.1")
def test_columns_and_rows_are_chosen_and_one_object_is_one_row() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 3}, {"a": 4}]
    assert left(rows, type="field", fields=["a"], max_rows=2) == [{"a": 1}, {"a": 3}]
    assert left(rows, type="field", max_rows=1) == [{"a": 1, "b": 2}]
    assert left({"a": 1, "b": 2}, type="field", fields=["a"]) == [{"a": 1}]


# What comes of it


@requirement("yaml.filter.2")
def test_lengths_and_the_share_that_was_saved_are_told() -> None:
    assert filtered({"a": "x" * 81, "b": 1}, {"type": "schema", "fields": ["b"]}) == FilteredResult(
        {"b": 1}, 95, 7, 93, "schema"
    )


@requirement("yaml.filter.2")
@pytest.mark.parametrize(
    ("data", "filter"),
    [
        ({"a": 1}, {"type": "content", "extract": ["b"]}),
        ({"a": 1}, {"type": "field", "fields": ["b"]}),
        ([{"a": 1}], {"type": "field", "fields": ["b"]}),
        ("text", {"type": "schema", "fields": ["b"]}),
        ("<script>only()</script>", {"type": "content"}),
        (None, {"type": "content"}),
        ({"a": 1}, None),
    ],
)
def test_a_filter_that_leaves_nothing_gives_everything(data: Any, filter: Any) -> None:
    found = filtered(data, filter)
    assert (found.filtered, found.filter_type, found.reduction_pct) == (data, "none", 0)


@requirement("yaml.filter.2")
@pytest.mark.parametrize("filter", [{"type": "zip"}, {"max_tokens": 3}, {"type": ["content"]}])
def test_an_unknown_filter_gives_everything(filter: Any) -> None:
    assert filtered([1], filter)[0::4] == ([1], "unknown")


def test_tokens_are_estimated_from_what_a_model_reads() -> None:
    assert [tokens(value) for value in ("", "abcd", "abcde", {"a": 1})] == [0, 1, 2, 2]

"""Tools are found by what one wants to do."""

import time

import pytest

from tests.requirements import requirement
from tests.shared import RECORDINGS, recorded
from toolcrib.definitions.reader import read
from toolcrib.definitions.registry import RegistryEntry, load
from toolcrib.definitions.search import SearchEntry, listed, rank, subject


def ids(query: str, *subjects: SearchEntry, limit: int = 5) -> list[str]:
    return [one.id for one in rank(query, subjects, limit)]


@requirement("yaml.load.2")
def test_tools_are_found_as_the_shared_cases_say() -> None:
    cases = recorded("cases/own-search.jsonl")
    registry = load(RECORDINGS / "registry" / "tool-registry.yaml")
    for case in cases:
        top = [one.id for one in rank(case["query"], map(listed, registry.tools.values()), 3)]
        expect = case["expect"]
        assert set(top) & {*expect.get("any_in_top3", ()), expect.get("top3")}, (case["query"], top)


@requirement("yaml.load.2")
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("scrape pages", "page scraping"),
        ("automate", "automation"),
        ("queries", "query"),
        ("social media", "social-media"),
        ("web tests", "web-testing"),
        ("create task", "createTask"),
        ("explain", "pg_explain"),
        ("SEARCH", "searches"),
    ],
)
def test_words_meet_by_their_stems_and_hyphens_part_them(query: str, words: str) -> None:
    assert ids(query, SearchEntry("b", description=words), SearchEntry("a", description="other")) == ["b"]


@requirement("yaml.load.2")
def test_every_place_counts_and_the_id_most() -> None:
    subjects = [
        SearchEntry("f", description="mail"),
        SearchEntry("e", category="mail"),
        SearchEntry("d", keywords=("mail",)),
        SearchEntry("c", commands=("mail_send",)),
        SearchEntry("b", name="Mail"),
        SearchEntry("mail-a"),
    ]
    assert ids("mail", *subjects, limit=10) == ["mail-a", "b", "c", "d", "e", "f"]


@requirement("yaml.load.2")
def test_ties_are_broken_by_id_and_the_limit_is_kept() -> None:
    subjects = [SearchEntry(id, category="mail") for id in "cabdfe"]
    assert ids("mail", *subjects) == list("abcde")
    assert ids("mail", *subjects, limit=0) == []
    assert ids("mail", *subjects, limit=-3) == []


def test_rare_words_count_more_than_common_ones() -> None:
    many = [SearchEntry(f"t{number}", description="send data") for number in range(20)]
    assert ids("send an invoice", *many, SearchEntry("z", description="an invoice"))[0] == "z"


def test_the_id_of_a_tool_or_command_finds_it_first() -> None:
    subjects = [
        SearchEntry("get", commands=("the",)),
        SearchEntry("other", name="get the thing", keywords=("get", "the")),
    ]
    assert ids("get.the", *subjects)[0] == "get"
    assert ids(" GET ", *subjects) == ["get"]


@pytest.mark.parametrize("query", ["", "   ", "the for of", "!!!", "zebra"])
def test_a_query_that_fits_nothing_finds_nothing(query: str) -> None:
    assert ids(query, SearchEntry("mail", description="sends the mail")) == []


def test_a_file_is_found_by_what_it_and_the_registry_say() -> None:
    core = "id: desk, type: cli, name: Desk, version: 1.0.0, description: Keeps tickets"
    found = subject(
        read(f"tool: {{{core}, commands: [close_ticket]}}"),
        RegistryEntry("desk", keywords=("helpdesk",), category="support"),
    )
    for query in ("desk", "ticket", "close", "helpdesk", "support"):
        assert ids(query, found) == ["desk"]


def test_a_thousand_tools_are_searched_soon() -> None:
    subjects = [
        SearchEntry(f"tool-{n}", description=f"word{n % 50} does thing{n} for people " * 5) for n in range(1000)
    ]
    start = time.process_time()
    assert ids("thing7 for people", *subjects)[0] == "tool-7"
    assert time.process_time() - start < 5

"""Ways of writing one value that count as one, and those that do not."""

import base64

import pytest

from tests.requirements import requirement
from toolcrib.origins.index import OriginIndex
from toolcrib.origins.words import TrustedWords


def words(text: str) -> TrustedWords:
    said = TrustedWords()
    said.add(text)
    return said


@requirement("flow.origin.2")
@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("write to Bob@Corp.example, please", "bob@corp.example"),
        ("write to bob@corp.example.", "mailto:bob@corp.example"),
        ("write to bob@corp.example", "Bob <bob@corp.example>"),
        ("see https://www.corp.example/a/", "corp.example/a"),
        ("see www.corp.example.Then write", "www.corp.example"),
        ("pay $1,100.00 to them", 1100),
        ("pay 98.70", 98.7),
        ("on the 3rd of May 2025", "2025-05-03"),
        ("from January 11th to January 15th 2025", "2025-01-15 10:00"),
        ("on 2024-05-19 at noon", "2024-05-19T12:00:00Z"),
        ("the  \uff26ollow-up\nmeeting", "follow-up meeting"),
        ("Anna's file", "Anna"),
    ],
)
def test_ways_of_writing_one_value_are_one(said: str, value: object) -> None:
    assert words(said).contain(value)


@requirement("flow.origin.2")
@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("write to bob@corp.example", "bob@corp.example.evil.example"),
        ("write to bob@corp.example", "ob@corp.example"),
        ("write to alice@corp.example", "\u0430lice@corp.example"),  # a Cyrillic a
        ("write to alice@corp.example", "al\u200bice@corp.example"),
        ("what happens on June 13", "13"),
        ("at 10:30", 30),
        ("pay 100", 1000),
        ("see corp.example/a", "corp.example/a?data=1"),
        ("the cat", "at"),
        ("yes", True),
        ("none", None),
    ],
)
def test_what_only_looks_like_it_is_another_value(said: str, value: object) -> None:
    assert not words(said).contain(value)


@requirement("flow.origin.1")
def test_a_value_is_told_by_the_best_place_where_it_was_seen() -> None:
    index = OriginIndex()
    index.user.add("Mail the minutes to bob@corp.example")
    index.instructions.add("Copy boss@corp.example")
    index.add_result("c1", "mail.search", [], [{"sender": "eve@x.example", "body": "Ask jo@x.example"}], trusted=False)
    index.add_text("agent", "", "helper", "message", "Use kim@x.example")
    kinds = {
        name: index.sightings(f"{name}.example")[0].kind
        for name in ("bob@corp", "boss@corp", "eve@x", "jo@x", "kim@x", "no@x")
    }
    assert list(kinds.values()) == ["user", "instructions", "field", "prose", "agent", "nowhere"]
    seen = index.sightings("jo@x.example")[0]
    assert (seen.call, seen.tool, seen.path) == ("c1", "mail.search", "[0].body")


@requirement("flow.origin.1")
def test_a_whole_body_is_no_field() -> None:
    index = OriginIndex()
    index.add_result("c1", "mail.search", [], [{"id": "7", "body": "eve@x.example"}], trusted=True)
    assert index.sightings("eve@x.example")[0].kind == "prose"
    assert index.sightings(7)[0].kind == "field"


@requirement("flow.origin.1")
def test_a_record_is_led_to_by_the_user_or_by_a_record_that_is() -> None:
    index = OriginIndex()
    index.user.add("the flat in Paris")
    index.add_result("c1", "flats.find", ["Paris"], [{"name": "Loft"}], trusted=False)
    index.add_result("c2", "flats.owner", ["Loft"], {"owner": "ann@x.example"}, trusted=False)
    index.add_result("c3", "flats.find", ["Rome"], [{"name": "Villa"}], trusted=False)
    assert index.sightings("Loft")[0].named
    assert index.sightings("ann@x.example")[0].led
    assert not index.sightings("Villa")[0].led


@requirement("flow.hostile.1")
def test_what_is_encoded_in_a_result_is_found_in_its_prose() -> None:
    index = OriginIndex()
    hidden = base64.b64encode(b"evil@x.example").decode()
    index.add_result(
        "c1", "web.fetch", [], f"decode {hidden}, visit %65vil.example and a\u200bb@x.example", trusted=False
    )
    assert index.sightings("evil@x.example")[0].kind == "prose"
    assert index.sightings("evil.example")[0].kind == "prose"
    assert index.sightings("ab@x.example")[0].kind == "prose"


@requirement("flow.origin.4")
def test_what_does_not_fit_into_the_index_makes_it_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.origins.index.MOST_CHARACTERS", 100)
    index = OriginIndex()
    index.add_result("c1", "web.fetch", [], "x" * 90, trusted=False)
    assert index.complete
    index.add_result("c2", "web.fetch", [], "y" * 90, trusted=False)
    assert not index.complete

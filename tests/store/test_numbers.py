"""The numbers by which other processes tell of sessions: known while somebody needs them, and only so many."""

import pytest

from toolcrib.store.followers import Followers
from toolcrib.store.postgres import listener
from toolcrib.store.postgres.listener import Numbers


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> Numbers:
    """Room for eight, of which the first two are followed and in use."""
    monkeypatch.setattr(listener, "KNOWN", 8)
    followers = Followers()
    followers.sessions["s1"] = None  # type: ignore[assignment]  # only its name is looked at
    found = Numbers(followers)
    found.in_use = lambda session: session == "s2"
    return found


def known(numbers: Numbers) -> list[int]:
    """Those of the first twenty that are known, by their numbers and by their ids."""
    assert [n for n in range(20) if f"s{n}" in numbers] == [n for n in range(20) if numbers.id(n) == f"s{n}"]
    return [n for n in range(20) if f"s{n}" in numbers]


def test_of_too_many_the_older_half_is_forgotten_but_for_what_somebody_needs(numbers: Numbers) -> None:
    for n in range(8):
        numbers.met(f"s{n}", n)
    assert known(numbers) == list(range(8))
    numbers.met("s7", 7)  # nothing new
    assert known(numbers) == list(range(8))
    numbers.met("s8", 8)
    assert known(numbers) == [1, 2, 4, 5, 6, 7, 8]


def test_a_session_that_was_made_anew_is_known_by_its_new_number_alone(numbers: Numbers) -> None:
    numbers.met("s1", 1)
    numbers.met("s1", 5)
    assert numbers.gone(1) == "s1"
    assert "s1" in numbers
    assert numbers.id(5) == "s1"
    assert [numbers.gone(5), numbers.gone(5)] == ["s1", None]
    assert "s1" not in numbers

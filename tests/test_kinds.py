"""What a test needs is known, and a test that needs nothing gets nothing."""

import asyncio
import os
import subprocess
import sys

import pytest

from tests.kinds import KINDS, kind_of

FAILED = pytest.fail.Exception


def test_a_test_without_a_mark_cannot_start_a_process() -> None:
    with pytest.raises(FAILED, match=r"mark it with @pytest\.mark\.process"):
        subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(FAILED, match=r"os\.fork"):
        os.fork()


async def test_nor_can_one_that_awaits_it() -> None:
    with pytest.raises(FAILED, match="starts a process"):
        await asyncio.create_subprocess_exec(sys.executable, "-c", "")


@pytest.mark.parametrize("fixture", ["postgres_url", "nats_url", "own_postgres", "own_nats"])
def test_a_test_without_a_mark_gets_no_server(request: pytest.FixtureRequest, fixture: str) -> None:
    with pytest.raises(FAILED, match=r"mark it with @pytest\.mark\.cluster"):
        request.getfixturevalue(fixture)


def test_a_server_that_was_refused_is_there_for_the_next_test(request: pytest.FixtureRequest) -> None:
    for _ in range(2):
        with pytest.raises(FAILED, match="uses own_postgres"):
            request.getfixturevalue("own_postgres")


@pytest.mark.process
def test_one_with_a_mark_can_start_a_process() -> None:
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0


@pytest.mark.parametrize("store", ["memory", "postgres"])
def test_a_parameter_that_names_a_server_asks_for_it(request: pytest.FixtureRequest, store: str) -> None:
    assert kind_of(request.node) == ("cluster" if store == "postgres" else "unit")


def test_each_test_is_of_one_kind(request: pytest.FixtureRequest) -> None:
    assert request.session.items
    assert [item for item in request.session.items if sum(mark.name in KINDS for mark in item.own_markers) != 1] == []

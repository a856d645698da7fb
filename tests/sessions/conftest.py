"""Every test that takes `place` runs over each store that a single process can use."""

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.sessions.place import Place

PATIENCE_S = 300


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db")


@pytest.fixture
def file_place(tmp_path: Path) -> Place:
    """For what only a file can show."""
    return Place(f"sqlite:///{tmp_path}/log.db")


@pytest.fixture(autouse=True)
def _patience() -> Iterator[None]:
    """What hangs fails here instead of standing still for ever."""

    def enough(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the test did not end within {PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, enough)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)

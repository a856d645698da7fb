"""Every test that takes `place` runs over each store that a single process can use."""

from pathlib import Path

import pytest

from tests.session.place import Place


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db")


@pytest.fixture
def file_place(tmp_path: Path) -> Place:
    """For what only a file can show."""
    return Place(f"sqlite:///{tmp_path}/log.db")

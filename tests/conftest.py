"""What every test file shares."""

import pytest

from tests.services import nats_url, open_folder, own_nats, own_postgres, postgres_server, postgres_url

__all__ = ["nats_url", "open_folder", "own_nats", "own_postgres", "postgres_server", "postgres_url"]


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker of `tests.requirements.requirement` known, since unknown markers are errors."""
    config.addinivalue_line("markers", "requirement(*ids): the requirements of the specification that this test holds")

"""What every test file shares."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker of `tests.requirements.requirement` known, since unknown markers are errors."""
    config.addinivalue_line("markers", "requirement(*ids): the requirements of the specification that this test holds")

"""A real service on a loopback port, cribs over it, and a browser that agrees to everything."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.accounts import place
from tests.accounts.service import Service, running


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with running() as service:
        yield service


@pytest.fixture
async def open_crib(tmp_path: Path) -> AsyncIterator[Any]:
    async with place.cribs(f"sqlite:///{tmp_path}/crib.db", tmp_path / "secrets.key") as opened:
        yield opened

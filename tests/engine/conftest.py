"""What mends by itself after a while does so long after the tests have lost their patience."""

import pytest

from tests.engine.place import SOON_S
from toolcrib.engine import maintenance


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost hints are not looked for meanwhile, so that what comes within `SOON_S` came because it was told."""
    monkeypatch.setattr(maintenance, "QUEUED_S", 10 * SOON_S)

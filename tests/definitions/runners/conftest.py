from pathlib import Path

import pytest

from tests.definitions.runners.made import Programs


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin")

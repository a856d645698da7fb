from pathlib import Path

import pytest

from tests.files.running.made import Programs


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin")

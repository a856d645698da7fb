"""Acceptance 4 on SQLite: what waits costs nothing."""

import sys
from pathlib import Path

import pytest

from tests.durability.processes import script

COUNT = 100_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc")
def test_with_a_hundred_thousand_waiting_calls_a_new_process_serves_an_answer_in_little_memory(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    with script("many.py", "fill", store, COUNT) as filling:
        filling.until("filled")
    with script("many.py", "serve", store, COUNT, fresh=True) as serving:
        data, _, memory = serving.hear()
    assert data == "hello bob"
    assert memory < 100_000_000

"""A pytest plugin that ends the run at a test that hangs, and says which: a fault may make a test wait for ever."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

LIMIT = "TOOLCRIB_TEST_LIMIT"
"""The variable that says how many seconds a test may take."""

HUNG = 99
_OUT = os.dup(1)


def _hang(test: str) -> None:
    os.write(_OUT, f"\nHUNG {test}\n".encode())
    os._exit(HUNG)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch over one test; a thread does it, since tests use the signals."""
    timer = threading.Timer(float(os.environ.get(LIMIT, "inf")), _hang, (item.nodeid,))
    timer.daemon = True
    timer.start()
    try:
        return (yield)
    finally:
        timer.cancel()

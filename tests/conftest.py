"""What every test file shares."""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.kinds import KINDS, Guard
from tests.services import (
    empty_postgres_url,
    nats_url,
    open_folder,
    own_nats,
    own_postgres,
    postgres_server,
    postgres_template,
    postgres_url,
)

__all__ = [
    "empty_postgres_url",
    "nats_url",
    "open_folder",
    "own_nats",
    "own_postgres",
    "postgres_server",
    "postgres_template",
    "postgres_url",
]

# Containers often forbid bytecode, and each of the thousands of processes that tests start would compile us anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# What servers leave for programs of the same user, and which folders are trusted, is not that of who runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="toolcrib-state-")
os.environ["TOOLCRIB_TRUST"] = "1"  # the folders are those of the tests; whoever tests the question takes it out
os.environ["TOOLCRIB_ALLOW_ROOT"] = "1"  # containers run tests as root; whoever tests the refusal takes it out
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
sys.dont_write_bytecode = False

# What takes longer hangs, also on a busy machine; `@pytest.mark.timeout` gives a test another limit.
os.environ.setdefault("PYTEST_TIMEOUT", "300")

# How long an example takes says nothing on a machine that does much else.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known, since unknown ones are errors, and mark every test by what it needs."""
    config.addinivalue_line("markers", "requirement(*ids): the requirements of the specification that this test holds")
    config.addinivalue_line("markers", "timeout(seconds): how long this test may take")
    for kind, meaning in KINDS.items():
        config.addinivalue_line("markers", f"{kind}: {meaning}")
    config.pluginmanager.register(Guard(), "kinds")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Leave the 400,000 objects of the collection alone, also later: tests look for what they left by `gc.collect`."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()

"""What a test needs besides its own process: every test is one of `unit`, `process`, `cluster` and `browser`.

The kind follows from the fixtures and the folder of a test; what these do not show is marked, as in
`@pytest.mark.process`. All others are `unit`, and a `unit` test that starts a process fails with the advice to mark it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

KINDS = {
    "unit": "runs in one process and needs no server",
    "process": "starts processes",
    "cluster": "needs PostgreSQL or NATS",
    "browser": "needs a browser",
}
FIXTURES = {
    "browser": "browser",
    "empty_postgres_url": "cluster",
    "nats_url": "cluster",
    "own_nats": "cluster",
    "own_postgres": "cluster",
    "postgres_server": "cluster",
    "postgres_template": "cluster",
    "postgres_url": "cluster",
    "aimock": "process",
    "anvil_server": "process",
    "box": "process",
    "tour": "process",
}
PARAMETERS = {"cluster", "nats", "postgres"}
"""Values of parameters for which a fixture asks for a server by its name."""
FOLDERS = {"cli": "process", "cluster": "cluster", "console": "process", "durability": "process", "faults": "process"}
STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}
"""The audit events of what starts a process."""


def kind_of(item: pytest.Item) -> str:
    """Return the most demanding kind that the fixtures, parameters, marks and the folder of a test ask for."""
    fixtures = set(getattr(item, "fixturenames", ()))
    asked = {FIXTURES[name] for name in fixtures & FIXTURES.keys()}
    asked |= {kind for kind in KINDS if item.get_closest_marker(kind)}
    asked |= {FOLDERS[part] for part in item.nodeid.split("/") if part in FOLDERS}
    values = getattr(item, "callspec", None)
    if values and any(value in PARAMETERS for value in values.params.values() if isinstance(value, str)):
        asked.add("cluster")
    return max(asked, key=list(KINDS).index, default="unit")


class Guard:
    """Marks tests by their kind, and stops `unit` tests from starting processes."""

    def __init__(self) -> None:
        self._item: pytest.Item | None = None
        self._pid = os.getpid()
        sys.addaudithook(self._audit)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark every test, before those that are not wanted are left out."""
        for item in items:
            kind = kind_of(item)
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name not in KINDS]
            item.add_marker(kind)
            item.stash[KIND] = kind

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Remember which test runs."""
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
        """Refuse a server to a test that is not marked for one, since another test may have started it."""
        needed = FIXTURES.get(fixturedef.argname, "unit")
        kind = self._item.stash.get(KIND, "browser") if self._item else "browser"
        if list(KINDS).index(needed) > list(KINDS).index(kind):
            # pytest takes a fixture without a value for one that is finished, and never empties its finalizers: every
            # later test that asks for it would fail.
            fixturedef.cached_result = (None, None, None)
            fixturedef.finish(request)  # type: ignore[arg-type]
            pytest.fail(f"this {kind} test uses {fixturedef.argname}; mark it with @pytest.mark.{needed}")

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        item = self._item
        if event in STARTS and item is not None and item.stash.get(KIND, "") == "unit" and os.getpid() == self._pid:
            pytest.fail(f"a unit test starts a process ({event}); mark it with @pytest.mark.process")


KIND = pytest.StashKey[str]()

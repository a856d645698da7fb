"""The one suite that every store must pass.

    class TestSqlite(StoreSuite):
        async def make(self) -> Store:            # empty, not started yet
            return SqliteStore(f"sqlite:///{self.folder}/log.db")

        async def reopen(self, store: Store) -> Store:   # over the same data, not started yet
            return SqliteStore(store.url)

The tests are `async def`; pytest-asyncio in auto mode collects them, and any other runner of async tests will do.
"""

from toolcrib.testing.stores.doors import DoorTests
from toolcrib.testing.stores.fences import FenceTests
from toolcrib.testing.stores.following import FollowingTests
from toolcrib.testing.stores.guards import GuardTests
from toolcrib.testing.stores.leases import LeaseTests
from toolcrib.testing.stores.log import LogTests
from toolcrib.testing.stores.rates import RateTests
from toolcrib.testing.stores.rows import RowTests
from toolcrib.testing.stores.sessions import SessionTests
from toolcrib.testing.stores.sweeping import SweepTests
from toolcrib.testing.stores.walking import WalkingTests
from toolcrib.testing.stores.watching import WatchingTests

__all__ = ["StoreSuite"]


class StoreSuite(
    LogTests,
    FollowingTests,
    WatchingTests,
    GuardTests,
    FenceTests,
    DoorTests,
    LeaseTests,
    RowTests,
    WalkingTests,
    SessionTests,
    RateTests,
    SweepTests,
):
    """Everything that `Store` promises. A subclass brings `make` and `reopen`."""

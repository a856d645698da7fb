"""The one suite that every store must pass.

    class TestSqlite(StoreSuite):
        async def make(self) -> Store:            # empty, not started yet
            return SqliteStore(f"sqlite:///{self.folder}/log.db")

        async def reopen(self, store: Store) -> Store:   # over the same data, not started yet
            return SqliteStore(store.url)

The tests are `async def`; pytest-asyncio in auto mode collects them, and any other runner of async tests will do.
"""

from toolcrib.testing.stores.closed_sessions import ClosedSessionTests
from toolcrib.testing.stores.fences import FenceTests
from toolcrib.testing.stores.followers import FollowerTests
from toolcrib.testing.stores.guards import GuardTests
from toolcrib.testing.stores.leases import LeaseTests
from toolcrib.testing.stores.log import LogTests
from toolcrib.testing.stores.rates import RateTests
from toolcrib.testing.stores.rollups import RollupTests
from toolcrib.testing.stores.rows import RowTests
from toolcrib.testing.stores.sessions import SessionTests
from toolcrib.testing.stores.sweep import SweepTests
from toolcrib.testing.stores.walks import WalkTests
from toolcrib.testing.stores.watchers import WatcherTests

__all__ = ["StoreSuite"]


class StoreSuite(
    LogTests,
    FollowerTests,
    WatcherTests,
    GuardTests,
    FenceTests,
    ClosedSessionTests,
    LeaseTests,
    RowTests,
    WalkTests,
    SessionTests,
    RateTests,
    SweepTests,
    RollupTests,
):
    """Everything that `Store` promises. A subclass brings `make` and `reopen`."""

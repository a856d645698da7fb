"""Every store keeps the same promise: one suite over all of them."""

from pathlib import Path

import pytest

from tests.requirements import requirement
from toolcrib.store import Store
from toolcrib.store.memory import MemoryStore
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.store.sqlite.store import SqliteStore
from toolcrib.testing import StoreSuite


@requirement("store.4", "reliability.fence.1", "reliability.stream.1", "reliability.send.2")
class TestMemory(StoreSuite):
    async def make(self) -> Store:
        return MemoryStore()

    async def reopen(self, store: Store) -> Store:
        return store


@requirement("store.4", "reliability.fence.1", "reliability.stream.1", "reliability.send.2")
class TestSqlite(StoreSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def make(self) -> Store:
        return SqliteStore(f"sqlite:///{self.folder}/log.db")

    async def reopen(self, store: Store) -> Store:
        return SqliteStore(store.url)


@requirement("store.1", "store.3", "store.4", "reliability.fence.1", "reliability.stream.1", "reliability.send.2")
class TestPostgres(StoreSuite):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url: str) -> None:
        self.database = postgres_url

    async def make(self) -> Store:
        return PostgresStore(self.database)

    async def reopen(self, store: Store) -> Store:
        return PostgresStore(store.url)

"""Every store keeps the same promise: one suite over all of them."""

from pathlib import Path

import pytest

from tests.requirements import requirement
from toolcrib.store import Store
from toolcrib.store.memory import MemoryStore
from toolcrib.store.sqlite import SqliteStore
from toolcrib.testing import StoreSuite


@requirement("store.4")
class TestMemory(StoreSuite):
    async def make(self) -> Store:
        return MemoryStore()

    async def reopen(self, store: Store) -> Store:
        return store


@requirement("store.4")
class TestSqlite(StoreSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def make(self) -> Store:
        return SqliteStore(f"sqlite:///{self.folder}/log.db")

    async def reopen(self, store: Store) -> Store:
        return SqliteStore(store.url)

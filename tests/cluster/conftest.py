"""Where the clusters of these tests live."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.place import Place
from toolcrib.testing.services import NatsServer, PostgresServer


@pytest.fixture
def place(postgres_url: str, nats_url: str, tmp_path: Path) -> Iterator[Place]:
    """A cluster whose nodes may be killed."""
    made = Place(postgres_url, nats_url, tmp_path)
    yield made
    made.close()


@pytest.fixture
def frail(own_postgres: PostgresServer, own_nats: NatsServer, tmp_path: Path) -> Iterator[Place]:
    """A cluster whose servers may be killed too."""
    made = Place(own_postgres.url, own_nats.url, tmp_path)
    yield made
    made.close()

"""Chains that tests share, or have for themselves."""

from collections.abc import Iterator

import pytest

from tests.chain.place import furnish, need
from toolcrib.testing.chain import Anvil, anvil


@pytest.fixture(scope="session")
def anvil_server() -> Iterator[Anvil]:
    """A chain that all tests of this process share: each looks only at what it made itself."""
    with need(lambda: anvil().__enter__()) as chain:
        yield chain


@pytest.fixture
def box() -> Iterator[Anvil]:
    """A chain with id 1 of a test's own, with WETH, Uniswap V2 and a dollar where mainnet has them."""
    with need(lambda: anvil(chain_id=1).__enter__()) as chain:
        furnish(chain)
        yield chain

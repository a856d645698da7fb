"""Etherscan and Sourcify over our own contracts."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.chain.place import HERE, compiled
from toolcrib.testing.chain import Anvil
from toolcrib.testing.fake_services import KEY, Artifact, Shapes, shapes

__all__ = ["KEY", "Explorer", "exploring"]


@dataclass
class Explorer:
    """What they know: contracts by address (their names, and where proxies lead), and how often they were asked."""

    chain: Anvil
    etherscan: dict[str, str] = field(default_factory=dict)
    sourcify: dict[str, str] = field(default_factory=dict)
    proxies: dict[str, str] = field(default_factory=dict)
    per_second: int | None = None
    web: Shapes | None = None

    @property
    def seen(self) -> Counter[str]:
        assert self.web is not None
        return self.web.seen

    def artifacts(self) -> dict[str, Artifact]:
        """All contracts as the server has them."""
        return {where: self._artifact(where) for where in (*self.etherscan, *self.sourcify)}

    def _artifact(self, where: str) -> Artifact:
        name = self.etherscan.get(where) or self.sourcify[where]
        knows = tuple(one for one in ("etherscan", "sourcify") if where in getattr(self, one))
        text = (HERE / f"contracts/{name}.sol").read_text("utf-8")
        target = self.proxies.get(where)
        return Artifact(
            name, compiled()[name]["abi"], {f"contracts/{name}.sol": text}, implementation=target, known_to=knows
        )

    def lead(self, proxy: str, target: str) -> None:
        """Has a proxy lead elsewhere from now on."""
        assert self.web is not None
        self.proxies[proxy] = target
        self.web.artifacts[proxy] = self._artifact(proxy)


@asynccontextmanager
async def exploring(explorer: Explorer) -> AsyncIterator[dict[str, Any]]:
    """The explorer as settings of `Chains`, with a key that it takes."""
    with shapes(explorer.chain.url, explorer.artifacts(), per_second=explorer.per_second) as web:
        explorer.web = web
        yield web.chains

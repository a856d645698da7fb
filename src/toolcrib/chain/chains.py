"""The operator's list of chains, and everything that the toolkits share: connections, cache, explorers, limits."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from toolcrib.chain.cache import Cache
from toolcrib.chain.chain_names import LARGEST, chain_id
from toolcrib.chain.explorers import Etherscan, Sourcify
from toolcrib.chain.http import TOTAL_S, Http
from toolcrib.chain.limits import BadChain, ChainLimits
from toolcrib.chain.redaction import Scrubber
from toolcrib.chain.rpc import Rpc, RpcNode
from toolcrib.chain.signatures import Signature, parse_signature
from toolcrib.chain.values import invalid
from toolcrib.errors import ToolFailure
from toolcrib.extras import install
from toolcrib.sources import Source
from toolcrib.tool import digest_of
from toolcrib.toolkits.collection import FunctionEntry, Toolkit, kit

if TYPE_CHECKING:
    from toolcrib.context import Context
    from toolcrib.tool import Tool

ETHERSCAN = "https://api.etherscan.io"
SOURCIFY = "https://sourcify.dev"
ERRORS = (
    "ERC20InsufficientBalance(address sender,uint256 balance,uint256 needed)",
    "ERC20InsufficientAllowance(address spender,uint256 allowance,uint256 needed)",
    "ERC20InvalidReceiver(address receiver)",
    "ERC20InvalidSpender(address spender)",
    "ERC721NonexistentToken(uint256 tokenId)",
    "ERC721InsufficientApproval(address operator,uint256 tokenId)",
    "OwnableUnauthorizedAccount(address account)",
)
"""Errors that many contracts share (ERC-6093), so that they are read even where no ABI is known."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain that tools may read, and propose transactions on if `propose`; `rpc` is its secret."""

    id: int
    name: str
    rpc: str = field(repr=False)
    local: bool = False
    propose: bool = False

    @property
    def loopback(self) -> bool:
        """True if its node is on this machine."""
        host = urlsplit(self.rpc).hostname or ""
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


class Chains:
    """What the chain toolkits are made with; several may share one.

    `cache` is an SQLite file, which keeps verified contracts and what was spent today over a restart; `errors` are
    signatures of custom errors that reverts are read with; `per_host` is how many requests go to one host at once.

    Raises:
        BadChain: a setting does not hold.
    """

    def __init__(  # noqa: PLR0913 - the settings, all by name
        self,
        chains: Iterable[Chain],
        *,
        etherscan_url: str = ETHERSCAN,
        etherscan_key: str | None = None,
        sourcify_url: str = SOURCIFY,
        cache: str | PathLike[str] = ":memory:",
        limits: ChainLimits | None = None,
        errors: Sequence[str] = (),
        per_host: int = 8,
        timeout_s: float = TOTAL_S,
    ) -> None:
        self.all = {chain.id: chain for chain in chains}
        for chain in self.all.values():
            _check(chain, limits)
        if not self.all:
            raise BadChain("Name at least one chain: Chains([Chain(1, 'ethereum', rpc=...)])")
        self.limits = limits or ChainLimits()
        self.http = Http(per_host, timeout_s)
        self.cache = Cache(cache)
        urls = [chain.rpc for chain in self.all.values()]
        self.scrub = Scrubber(urls, [etherscan_key or ""])
        self.sourcify = Sourcify(sourcify_url, self.http)
        self.etherscan = Etherscan(etherscan_url, etherscan_key, self.http, self.scrub) if etherscan_key else None
        try:
            self._errors = tuple(map(parse_signature, (*ERRORS, *errors)))
        except ToolFailure as error:
            raise BadChain(f"errors: {error.message}") from None
        self._nodes = {
            chain.id: RpcNode(chain.id, chain.name, chain.rpc, self.http, self.scrub) for chain in self.all.values()
        }
        self._names = {chain.name.strip().lower(): chain.id for chain in self.all.values()}
        self._users = 0
        self.asking: dict[tuple[Any, ...], str] = {}

    @cached_property
    def errors(self) -> dict[str, Signature]:
        """The custom errors that are known of all contracts, by selector."""
        return {one.selector.hex(): one for one in self._errors}

    def pick(self, ctx: Context, wanted: Any = None) -> Chain:
        """The chain of that id or name; without one the user's, else the first.

        Raises:
            ToolFailure: `invalid_arguments`, there is no such chain here.
        """
        if wanted is None:
            mine = user_chain(ctx)
            return self.all.get(mine, next(iter(self.all.values()))) if mine else next(iter(self.all.values()))
        id = self._names.get(str(wanted).strip().lower()) or chain_id(wanted)
        if id not in self.all:
            raise invalid(f"Chain {id} is not supported. Supported chains: {list(self.all)}")
        return self.all[id]

    def node(self, chain: Chain, *methods: str) -> Rpc:
        """The node of a chain, for these methods alone."""
        return self._nodes[chain.id].may(*methods)

    def started(self) -> None:
        """One more crib uses it."""
        self._users += 1

    async def stopped(self) -> None:
        """One crib less uses it; the last one closes the connections."""
        self._users -= 1
        if self._users <= 0:
            await self.http.close()
            self.cache.pause()


class ChainKit(Source):
    """A toolkit that closes its connections when its crib is stopped; else it is as every other."""

    def __init__(self, kit: Toolkit, chains: Chains) -> None:
        self.name, self.tools, self.chains = kit.name, kit.tools, chains
        self._kit = kit

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Its tools."""
        self.chains.started()
        return self.tools

    async def stop(self) -> None:
        """Lets go of the connections."""
        await self.chains.stopped()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def __getitem__(self, name: str) -> Tool:
        return self._kit[name]


def chain_kit(namespace: str, chains: Chains, functions: Iterable[FunctionEntry]) -> ChainKit:
    """The toolkit of a namespace, over these chains. The libraries that it needs are loaded now."""
    for library in ("httpx", "eth_abi", "Crypto.Hash.keccak"):
        try:
            import_module(library)
        except ImportError:
            raise BadChain(f"The chain toolkits are not installed here: {install('chain')}") from None
    return ChainKit(kit(namespace, functions), chains)


def by_schema(function: Any, data: Mapping[str, Any], properties: Mapping[str, Any], *required: str) -> FunctionEntry:
    """A tool whose arguments are written out, since Python cannot name them so: its body takes them as one object."""
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return function, {**data, "input_schema": schema, "parser": None, "run": function}


Settings = Chains | Mapping[str, Any] | Iterable[Chain | Mapping[str, Any]]
"""What a toolkit is made over: settings that several share, chains alone, or either as a file writes them."""


def as_chains(settings: Settings) -> Chains:
    """Return the chains of these settings; equal settings from a file share one object.

    Raises:
        BadChain: a setting does not hold.
    """
    if isinstance(settings, Chains):
        return settings
    if not isinstance(settings, Mapping):
        listed = list(settings)
        if all(isinstance(one, Chain) for one in listed):
            return Chains(listed)  # type: ignore[arg-type]
        settings = {"chains": listed}
    key = digest_of(dict(settings))
    made = _MADE.get(key)
    if made is None:
        made = _MADE[key] = _read(settings)
    return made


_MADE: WeakValueDictionary[str, Chains] = WeakValueDictionary()


def _read(data: Mapping[str, Any]) -> Chains:
    try:
        settings = dict(data)
        chains = [Chain(**one) for one in settings.pop("chains")]
        if settings.get("limits") is not None:
            settings["limits"] = ChainLimits(**settings["limits"])
        return Chains(chains, **settings)
    except KeyError:
        raise BadChain("Name the chains: {chains: [{id: 1, name: ethereum, rpc: ...}]}") from None
    except TypeError as error:
        raise BadChain(f"Settings of chains: {str(error).rpartition('__init__() ')[2]}") from None


def user_chain(ctx: Context) -> int | None:
    """The chain that the user's wallet is connected to."""
    user: Mapping[str, Any] = ctx.user or {}
    chain = user.get("chainId", user.get("chain_id"))
    if isinstance(chain, str) and chain.startswith("0x"):
        try:
            return int(chain, 16)
        except ValueError:
            return None
    return chain if isinstance(chain, int) and not isinstance(chain, bool) else None


def _check(chain: Chain, limits: ChainLimits | None) -> None:
    id: Any = chain.id  # a file may say anything
    url = urlsplit(str(chain.rpc))
    if not isinstance(id, int) or not 0 < id <= LARGEST:
        raise BadChain(f"Chain {chain.name}: {id!r} is no chain id")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise BadChain(f"Chain {chain.name}: its rpc is no http or https URL")
    bounded = limits is not None and limits.tx_wei is not None and limits.day_wei is not None
    if chain.propose and not chain.local and not bounded:
        raise BadChain(f"Chain {chain.name}: propose=True needs limits=Limits(tx_wei=..., day_wei=...)")

"""Verified contracts: from the cache, Sourcify, then Etherscan; a proxy shows what it leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.chain.chains import Chain, Chains
from toolcrib.chain.explorers import Contract
from toolcrib.chain.reverts import reason
from toolcrib.chain.rpc import Reverted
from toolcrib.chain.signatures import Signature, of_abi
from toolcrib.chain.tokens import symbol_of
from toolcrib.errors import ToolFailure

TARGET_S, MISS_S = 3600.0, 300.0
UNVERIFIED = "Contract source code not verified"


async def find(chains: Chains, chain: Chain, where: str, *, etherscan_only: bool = False) -> Contract:
    """A verified contract, with `abi` and `source_code` of what it leads to if it is a proxy.

    Raises:
        ToolFailure: `not_found`, nobody has it; `unavailable` or `rate_limited`, somebody could not be asked.
    """
    found = await _one(chains, chain, where, etherscan_only)
    target = found["implementation_address"] if found["is_proxy"] else None
    if target is None or target == where:
        return found
    try:
        shown = await _one(chains, chain, target, etherscan_only)
    except ToolFailure as error:
        if error.code == "not_found":
            return found
        raise
    return {**found, "abi": shown["abi"], "source_code": shown["source_code"]}


async def _one(chains: Chains, chain: Chain, where: str, etherscan_only: bool) -> Contract:
    cached = None if etherscan_only else _cached(chains, chain.id, where)
    if cached is not None:
        return {**cached, "fetched_from": "cache"}
    key = f"{chain.id}:{where}"
    if not etherscan_only and chains.cache.get("miss", key, MISS_S) is not None:
        raise _unverified()
    found, problem = await _ask(chains, chain.id, where, etherscan_only)
    if found is not None:
        chains.cache.put("contract", key, found)
        return found
    if problem is not None:
        raise problem
    chains.cache.put("miss", key, True)
    raise _unverified()


def _cached(chains: Chains, chain: int, where: str) -> Contract | None:
    """Verified is verified for good; where a proxy leads to may change."""
    found = chains.cache.get("contract", f"{chain}:{where}")
    if found is not None and found[0]["is_proxy"]:
        found = chains.cache.get("contract", f"{chain}:{where}", TARGET_S)
    return None if found is None else found[0]


async def _ask(
    chains: Chains, chain: int, where: str, etherscan_only: bool
) -> tuple[Contract | None, ToolFailure | None]:
    """What Sourcify or Etherscan has; a problem of Sourcify counts only where nobody else could be asked."""
    problem = None
    if not etherscan_only:
        try:
            found = await chains.sourcify.contract(chain, where)
            if found is not None:
                return {**found, "fetched_from": "sourcify"}, None
        except ToolFailure as error:
            problem = error
    if chains.etherscan is None:
        return None, problem
    found = await chains.etherscan.contract(chain, where)
    return (None if found is None else {**found, "fetched_from": "etherscan"}), None


def _unverified() -> ToolFailure:
    return ToolFailure("not_found", UNVERIFIED, hint="Ask for the ABI, or read it with call_view_function.")


async def described(chains: Chains, chain: Chain, where: str, contract: Contract) -> dict[str, Any]:
    """A contract as the tools show it, without ABI and source."""
    return {
        "address": where,
        "chain": chain.name,
        "chain_id": chain.id,
        "name": contract["name"] or None,
        "symbol": await _symbol(chains, chain, where, contract),
        "is_proxy": contract["is_proxy"],
        "implementation_address": contract["implementation_address"],
        "fetched_from": contract["fetched_from"],
    }


async def _symbol(chains: Chains, chain: Chain, where: str, contract: Contract) -> str | None:
    """A token's symbol, once its node has told it."""
    if not any(isinstance(one, Mapping) and one.get("name") == "symbol" for one in contract["abi"]):
        return None
    known = chains.cache.get("symbol", f"{chain.id}:{where}")
    if known is not None:
        return str(known[0])
    symbol = await symbol_of(chains.node(chain, "eth_call"), where)
    if symbol is not None:
        chains.cache.put("symbol", f"{chain.id}:{where}", symbol)
    return symbol


def known(chains: Chains, chain: int, **wanted: str | None) -> Iterator[tuple[str, Contract]]:
    """The contracts of the cache whose name holds all that is wanted, and whose symbol is the one."""
    texts = {name: _plain(text) for name, text in wanted.items() if text}
    for key, found in chains.cache.all("contract", f"{chain}:"):
        symbol = chains.cache.get("symbol", key)
        said = {"symbol": _plain(symbol[0]) if symbol else ""}
        if all(text == said[name] if name in said else text in _plain(found["name"]) for name, text in texts.items()):
            yield key.partition(":")[2], {**found, "fetched_from": "cache"}


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]", "", text).lower()


def errors_of(chains: Chains, chain: int, *where: str | None) -> dict[str, Signature]:
    """The custom errors that are known of contracts, by selector."""
    found = dict(chains.errors)
    for one in where:
        contract = _cached(chains, chain, one) if one else None
        if contract is not None and contract["implementation_address"]:
            found |= errors_of(chains, chain, contract["implementation_address"])
        for entry in contract["abi"] if contract else ():
            if isinstance(entry, Mapping) and entry.get("type") == "error":
                try:
                    made = of_abi({**entry, "outputs": []})
                except ToolFailure:
                    continue
                found[made.selector.hex()] = made
    return found


def why(chains: Chains, chain: Chain, to: str, error: Reverted) -> str:
    """The reason of a revert, as far as the contracts' errors are known."""
    return reason(error.data, errors_of(chains, chain.id, to), error.message)


def functions_of(chains: Chains, chain: int, where: str) -> list[Signature]:
    """The functions that are known of a contract, without asking anybody."""
    found = []
    contract = _cached(chains, chain, where)
    targets = [contract, _cached(chains, chain, contract["implementation_address"] or "")] if contract else []
    for entry in (entry for one in targets if one for entry in one["abi"]):
        if isinstance(entry, Mapping) and entry.get("type") == "function":
            try:
                found.append(of_abi(entry))
            except ToolFailure:
                continue
    return found

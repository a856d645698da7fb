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
    contract = await _one(chains, chain, where, etherscan_only)
    target = contract["implementation_address"] if contract["is_proxy"] else None
    if target is None or target == where:
        return contract
    try:
        shown = await _one(chains, chain, target, etherscan_only)
    except ToolFailure as error:
        if error.code == "not_found":
            return contract
        raise
    return {**contract, "abi": shown["abi"], "source_code": shown["source_code"]}


async def _one(chains: Chains, chain: Chain, where: str, etherscan_only: bool) -> Contract:
    cached = None if etherscan_only else _cached(chains, chain.id, where)
    if cached is not None:
        return {**cached, "fetched_from": "cache"}
    key = f"{chain.id}:{where}"
    if not etherscan_only and chains.cache.get("miss", key, MISS_S) is not None:
        raise _unverified()
    contract, problem = await _ask(chains, chain.id, where, etherscan_only)
    if contract is not None:
        chains.cache.put("contract", key, contract)
        return contract
    if problem is not None:
        raise problem
    chains.cache.put("miss", key, True)
    raise _unverified()


def _cached(chains: Chains, chain: int, where: str) -> Contract | None:
    """Return a verified contract from the cache; the target of a proxy may change, so it expires."""
    entry = chains.cache.get("contract", f"{chain}:{where}")
    if entry is not None and entry[0]["is_proxy"]:
        entry = chains.cache.get("contract", f"{chain}:{where}", TARGET_S)
    return None if entry is None else entry[0]


async def _ask(
    chains: Chains, chain: int, where: str, etherscan_only: bool
) -> tuple[Contract | None, ToolFailure | None]:
    """Ask Sourcify, then Etherscan; a problem of Sourcify counts only where Etherscan could not be asked."""
    problem = None
    if not etherscan_only:
        try:
            contract = await chains.sourcify.contract(chain, where)
            if contract is not None:
                return {**contract, "fetched_from": "sourcify"}, None
        except ToolFailure as error:
            problem = error
    if chains.etherscan is None:
        return None, problem
    contract = await chains.etherscan.contract(chain, where)
    return (None if contract is None else {**contract, "fetched_from": "etherscan"}), None


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
    """Return a token's symbol, from the cache or its node."""
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
    """Yield the cached contracts whose name contains every wanted text and whose symbol is the wanted one."""
    texts = {name: _plain(text) for name, text in wanted.items() if text}
    for key, contract in chains.cache.all("contract", f"{chain}:"):
        symbol = chains.cache.get("symbol", key)
        exact = {"symbol": _plain(symbol[0]) if symbol else ""}
        if all(
            text == exact[name] if name in exact else text in _plain(contract["name"]) for name, text in texts.items()
        ):
            yield key.partition(":")[2], {**contract, "fetched_from": "cache"}


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]", "", text).lower()


def errors_of(chains: Chains, chain: int, *where: str | None) -> dict[str, Signature]:
    """The custom errors that are known of contracts, by selector."""
    errors = dict(chains.errors)
    for one in where:
        contract = _cached(chains, chain, one) if one else None
        if contract is not None and contract["implementation_address"]:
            errors |= errors_of(chains, chain, contract["implementation_address"])
        for entry in contract["abi"] if contract else ():
            if isinstance(entry, Mapping) and entry.get("type") == "error":
                try:
                    made = of_abi({**entry, "outputs": []})
                except ToolFailure:
                    continue
                errors[made.selector.hex()] = made
    return errors


def why(chains: Chains, chain: Chain, to: str, error: Reverted) -> str:
    """The reason of a revert, as far as the contracts' errors are known."""
    return reason(error.data, errors_of(chains, chain.id, to), error.message)


def functions_of(chains: Chains, chain: int, where: str) -> list[Signature]:
    """The functions that are known of a contract, without asking anybody."""
    signatures = []
    contract = _cached(chains, chain, where)
    targets = [contract, _cached(chains, chain, contract["implementation_address"] or "")] if contract else []
    for entry in (entry for one in targets if one for entry in one["abi"]):
        if isinstance(entry, Mapping) and entry.get("type") == "function":
            try:
                signatures.append(of_abi(entry))
            except ToolFailure:
                continue
    return signatures

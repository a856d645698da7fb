"""What an ERC-20 contract says of itself."""

from __future__ import annotations

from typing import Any

from toolcrib.chain.abi import decode, encode_call
from toolcrib.chain.rpc import Reverted, Rpc
from toolcrib.chain.signatures import parse_types
from toolcrib.chain.values import clean
from toolcrib.errors import ToolFailure

LONGEST = 64


async def view(rpc: Rpc, to: str, function: str, *args: Any, block: Any = "latest") -> str:
    """What a view function gives, as hex.

    Raises:
        ToolFailure: the node is away, or the contract says no.
    """
    call = {"to": to, "data": encode_call(function, args)}
    return await rpc.data("eth_call", call, block)


async def symbol_of(rpc: Rpc, token: str) -> str | None:
    """A token's symbol, in either of the two forms that tokens give; None where it has none or nobody can be asked."""
    try:
        return text_of(await view(rpc, token, "symbol()"))
    except ToolFailure:
        return None


def text_of(data: str) -> str | None:
    """A string, or the text in a bytes32 as old tokens give it."""
    if len(data) == 66:
        text = bytes.fromhex(data[2:]).rstrip(b"\x00").decode("utf-8", "replace")
    else:
        try:
            text = decode(parse_types("string"), data)[0]
        except ToolFailure:
            return None
    return clean(text, LONGEST) or None


async def decimals_of(rpc: Rpc, token: str) -> int | None:
    """How many digits its unit has; None where it does not say."""
    try:
        return int(decode(parse_types("uint8"), await view(rpc, token, "decimals()"))[0])
    except Reverted:
        return None
    except ToolFailure as error:
        if error.code == "invalid_arguments":
            return None
        raise

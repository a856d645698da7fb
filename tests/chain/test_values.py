"""Amounts, addresses, blocks and names of chains: what is read, and what is refused."""

import random
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.chain import cast, ethereum, values
from toolcrib.chain.redaction import Scrubber
from toolcrib.errors import ToolFailure

WRONG_AMOUNTS = [True, 1.5, "1.5", "", " 1", "1_000", "1e18", "0x", "0xzz", "\u0661", None, [], 2**53, "-", "9" * 200]


def cases(*groups: str) -> list[dict[str, Any]]:
    """The cases of some groups."""
    return [case for case in case_data("aomi/cases.jsonl") if case["group"] in groups]


def outcome(function: Any, given: Any) -> Any:
    """What a function gives, or its failure as a case writes it."""
    try:
        return function(given)
    except ToolFailure as error:
        return {"code": error.code, "message": error.message}


def check(case: dict[str, Any], got: Any) -> None:
    """Compares an outcome with what a case expects."""
    expected = case["expect"]
    if isinstance(expected, dict) and "code" in expected:
        assert got["code"] == expected["code"], case["id"]
        assert expected["message_contains"] in got["message"], case["id"]
    else:
        assert got == expected, case["id"]


@requirement("chain.value.2")
def test_addresses_are_of_one_case_or_have_a_right_checksum() -> None:
    for case in cases("address"):
        check(case, outcome(ethereum.address, case["input"]))
    with pytest.raises(ToolFailure) as refused:
        ethereum.address("0x742d35Cc6634C0532925a3b844Bc9e7595f33749")
    assert "0x742D35cc" not in f"{refused.value.message} {refused.value.hint}"
    for wrong in (None, 5, "vitalik.eth", "0x" + "a" * 39, "0x" + "a" * 41, "0X" + "a" * 40, " 0x" + "a" * 40):
        with pytest.raises(ToolFailure, match="Invalid address"):
            ethereum.address(wrong)


def test_a_checksum_is_that_of_eip_55() -> None:
    for known in (
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    ):
        assert ethereum.address(known.lower()) == known
        flipped = known[:5] + known[5].swapcase() + known[6:]
        if flipped != known:
            with pytest.raises(ToolFailure, match="checksum"):
                ethereum.address(flipped)


@requirement("chain.client.3")
def test_chains_have_names_that_everybody_knows() -> None:
    for case in cases("network.chain_id"):
        check(case, outcome(ethereum.chain_id, case["input"]))
    for case in cases("network.name"):
        check(case, outcome(ethereum.chain_name, case["input"]))
    assert [ethereum.chain_id(name) for name in (" Mainnet ", "ETH", "arb", "optimism", "10", 8453)] == [
        *(1, 1, 42161, 10, 10, 8453)
    ]
    assert ethereum.chain_name(999) == "chain_999"
    assert outcome(ethereum.chain_id, "x") == {"code": "invalid_arguments", "message": "Unsupported network: x"}
    assert outcome(ethereum.chain_id, "-1")["code"] == "invalid_arguments"


@requirement("chain.value.3")
def test_blocks_are_tags_numbers_or_hashes() -> None:
    for case in cases("cast.block_id", "cast.block_id.error"):
        check(case, outcome(cast.block_id, case["input"]))
    assert cast.block_id("0x10") == {"number": 16}
    assert cast.block_id(7) == {"number": 7}
    assert cast.block_id("0x" + "AB" * 32) == {"hash": "0x" + "ab" * 32}
    wrong: Any
    for wrong in ("foo", "-1", "1.5", True, "0x", "0x" + "a" * 17, [], "9" * 30):
        message = outcome(cast.block_id, wrong)["message"]
        assert message.startswith("Invalid block identifier '")
        assert message.endswith("'. Use a number, a 0x-prefixed hash, or 'latest'")


@requirement("chain.value.1")
def test_amounts_are_exact_and_of_the_full_range() -> None:
    assert values.amount("115792089237316195423570985008687907853269984665640564039457584007913129639935") == 2**256 - 1
    assert values.amount("0xff") == 255
    assert values.amount(2**53 - 1) == 2**53 - 1
    for wrong in WRONG_AMOUNTS:
        assert outcome(values.amount, wrong)["code"] == "invalid_arguments", wrong
    for far in ("-1", str(2**256)):
        assert "out of range" in outcome(values.amount, far)["message"]


def test_units_are_exact() -> None:
    assert ethereum.to_wei("1.5") == 15 * 10**17
    assert ethereum.to_wei("0.000000001", "gwei") == 1
    assert ethereum.from_wei(10**18 + 1) == "1.000000000000000001"
    assert ethereum.from_wei(21000, "gwei") == "0.000021"
    rng = random.Random(5)
    for _ in range(300):
        wei = rng.randrange(2 ** rng.randrange(1, 257))
        assert ethereum.to_wei(ethereum.from_wei(wei, "gwei"), "gwei") == wei
    for wrong in ("0.0000000000000000001", "NaN", "Infinity", "one", "-1", "1e80"):
        assert outcome(ethereum.to_wei, wrong)["code"] == "invalid_arguments", wrong
    with pytest.raises(ToolFailure, match="Unknown unit"):
        ethereum.from_wei(1, "dollar")


@requirement("chain.value.4")
def test_foreign_text_is_cleaned_and_cut() -> None:
    assert values.clean("a\x00b\x1b[31mc\u202ed\u200b") == "ab[31mcd"
    assert values.clean("x" * 100, 64) == "x" * 61 + "..."


def test_a_scrubbed_text_has_no_part_of_an_endpoint() -> None:
    scrub = Scrubber(["https://ada:pa55word@node.example/v3/0123456789abcdef?token=q1w2e3r4t5"], ["the-key"])
    told = scrub("POST https://node.example/v3/0123456789abcdef?x=1 (0123456789ABCDEF, Q1W2E3R4T5, pa55word, the-key)")
    assert told == "POST [url] (***, ***, ***, ***)"
    assert scrub("ws://other.example:8545/secret failed at node.example") == "[url] failed at ***"

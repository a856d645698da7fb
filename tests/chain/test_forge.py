"""Plans on a real chain: simulated, signed, mined, whatever fails in between and whoever dies."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.chain.explorer import Explorer, exploring
from tests.chain.place import (
    GRANTED,
    NAMESPACES,
    OTHER,
    USDC,
    USER,
    WETH,
    Wallet,
    deployed,
    killed,
    kits,
    mainnet,
    opened,
)
from tests.chain.test_cast import without
from tests.chain.test_ethereum import called
from tests.chain.test_wallet import local
from tests.requirements import requirement
from tests.shared import case_data
from toolcrib import Crib, Session, testing
from toolcrib.chain import Chain, ChainLimits, Chains
from toolcrib.testing.chain import Anvil

pytestmark = pytest.mark.process

WRAP = {"to": WETH, "function": "deposit()", "args": [], "value": "1000"}


async def held(session: Session, token: str) -> str:
    """What the user has of a token."""
    found = await called(session, "get_erc20_balance", chain_id=1, token_address=token, holder_address=USER)
    return str(found["balance"])


async def chunks(session: Session, call: str) -> list[dict[str, Any]]:
    """What a call streamed."""
    events = [event async for event in session.events(call=call)]
    return [event.fields["value"] for event in events if event.kind == "output"]


@requirement("forge.run.1", "forge.run.2", "forge.run.3", "forge.run.4", "forge.run.5", "forge.plan.3")
@requirement("anvil.5")
async def test_a_plan_goes_on_after_its_process_was_killed_between_question_and_answer(
    box: Anvil, tmp_path: Path
) -> None:
    groups = case_data("aomi/plans/box.json")["groups"]
    (tmp_path / "plan.json").write_text(json.dumps(groups), "utf-8")
    store = tmp_path / "store.db"
    call = await asyncio.to_thread(killed, "forge", box.url, str(store), str(tmp_path / "plan.json"))
    nonce = int(box.ask("eth_getTransactionCount", USER, "latest"), 16)
    wallet = Wallet(box)
    async with Crib(kits(mainnet(box.url)), store=f"sqlite:///{store}", policy=GRANTED) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=NAMESPACES)
        result = await wallet.attend(session, call)
        assert (await held(session, USDC), await held(session, WETH)) == ("11892809829", "0")
        told = await chunks(session, call)
    assert result.failure is not None
    assert result.failure.code == "failed"
    assert result.failure.message.startswith("Operation 3 failed: ")
    assert result.metadata["status"] == "partial"
    assert [one["status"] for one in result.metadata["groups"]] == ["done", "done", "done", "failed", "skipped"]
    assert [len(asked["transactions"]) for asked in wallet.asked] == [1, 1, 2]
    assert int(box.ask("eth_getTransactionCount", USER, "latest"), 16) == nonce + 4
    signed = ("simulated", "awaiting_signature", "settled")
    assert told[0] == {"status": "started", "message": "Forge execution started", "groups": 5}
    assert [(one["step"], one["phase"]) for one in told[1:]] == [
        *((step, phase) for step in (0, 1, 2) for phase in signed),
        *((3, "failed"), (4, "skipped")),
    ]


@requirement("forge.run.3", "forge.run.4")
async def test_a_wallet_that_rejects_ends_one_branch_alone(box: Anvil) -> None:
    groups = case_data("aomi/plans/box.json")["groups"]
    async with opened(mainnet(box.url)) as session:
        call = await session.submit("forge_execute", {"plan": groups, "chain_id": 1})
        wallet = Wallet(box)
        async for event in session.events(call=call.id):
            if event.kind == "waiting":
                await session.set_user({"address": OTHER, "chainId": 5, "isConnected": False})  # that comes too late
                question = event.fields["question"]
                first = question["data"]["transactions"][0]["to"] == WETH
                answer = {"rejected": True} if first else await asyncio.to_thread(wallet.sign, question["data"])
                await session.answer(question["id"], "accept", answer)
        result = await session.result(call.id)
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == (
        "declined",
        "Operation 0 failed: Rejected in the wallet",
    )
    statuses = [one["status"] for one in result.metadata["groups"]]
    assert statuses == ["failed", "done", "skipped", "skipped", "skipped"]


@requirement("forge.run.2", "wallet.6")
async def test_a_wallet_that_changes_the_target_fails_the_group(box: Anvil) -> None:
    async with opened(mainnet(box.url)) as session:
        call = await session.submit(
            "forge_execute", {"plan": [{"calls": [WRAP]}, {"calls": [WRAP], "dependencies": [0]}]}
        )
        wallet = Wallet(box, lambda transaction: transaction.update(to=OTHER, data="0x"))
        result = await wallet.attend(session, call.id)
    assert result.failure is not None
    assert result.failure.message.startswith("Operation 0 failed: Transaction 0x")
    assert result.failure.message.endswith(" is not what was approved: to")
    assert len(wallet.asked) == 1


@requirement("forge.run.1")
async def test_a_plan_without_failures_completes(box: Anvil) -> None:
    groups = [
        {"description": "Wrap", "calls": [{**WRAP, "note": "wrap"}]},
        {"description": "Again", "calls": [WRAP, {**WRAP, "value": "1"}], "dependencies": [0]},
        {
            "description": "Unwrap all",
            "dependencies": [1],
            "reads": [{"as": "all", "to": WETH, "function": "balanceOf(address)(uint256)", "args": ["$sender"]}],
            "calls": [{"to": WETH, "function": "withdraw(uint256)", "args": ["$all"]}],
        },
    ]
    async with opened(mainnet(box.url)) as session:
        call = await session.submit("forge_execute", {"plan": groups})
        assert session.tool("forge_execute").background  # type: ignore[union-attr]
        wallet = Wallet(box)
        result = await wallet.attend(session, call.id)
        assert result.ok, result.failure
        told = await chunks(session, call.id)
        assert await held(session, WETH) == "0"
    assert told[-1] == result.data
    assert (result.data["status"], result.data["message"]) == ("completed", "All operations completed")
    assert [one["status"] for one in result.data["groups"]] == ["done"] * 3
    hashes = [hash for one in result.data["groups"] for hash in one["hashes"]]
    assert len(set(hashes)) == 4
    assert all(box.ask("eth_getTransactionReceipt", hash)["status"] == "0x1" for hash in hashes)


@requirement("forge.run.3", "wallet.5")
async def test_a_question_that_nobody_answers_ends_the_plan(box: Anvil) -> None:
    async with testing.crib(*kits(mainnet(box.url)), policy=GRANTED) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=NAMESPACES)
        await session.set_user({"address": USER, "chainId": 1, "isConnected": True})
        call = await session.submit(
            "forge_execute", {"plan": [{"calls": [WRAP]}, {"calls": [WRAP], "dependencies": [0]}]}
        )
        async for event in session.events(call=call.id):
            if event.kind == "waiting":
                break
        await crib.clock.advance(16 * 60)
        result = await session.result(call.id)
    assert result.failure is not None
    assert result.failure.code == "timeout"
    assert box.ask("eth_getTransactionCount", USER, "latest") == "0x0"


@requirement("forge.run.3")
async def test_a_question_that_is_declined_ends_the_plan(box: Anvil) -> None:
    async with opened(mainnet(box.url)) as session:
        call = await session.submit("forge_execute", {"plan": [{"calls": [WRAP]}]})
        async for event in session.events(call=call.id):
            if event.kind == "waiting":
                await session.answer(event.fields["question"]["id"], "decline", reason="not now")
        result = await session.result(call.id)
        assert result.failure is not None
        assert (result.failure.code, result.failure.message) == ("declined", "not now")
        assert [one.get("phase") for one in await chunks(session, call.id)] == [None, "simulated", "awaiting_signature"]


@requirement("forge.run.6", "forge.run.7")
async def test_a_plan_is_kept_and_carried_out_turn_by_turn(box: Anvil) -> None:
    more_than_there_is = {"to": WETH, "function": "withdraw(uint256)", "args": [str(2**100)]}
    groups = [
        {"description": "Wrap", "calls": [{**WRAP, "note": "wrap"}]},
        {"description": "Too much", "calls": [more_than_there_is]},
        {"description": "After both", "calls": [WRAP], "dependencies": [0, 1]},
        {"description": "After the first", "operations": ["wrap again"], "calls": [WRAP], "dependencies": [0]},
    ]
    async with opened(mainnet(box.url)) as session:
        made = await called(session, "set_execution_plan", groups=groups[:1], chain_id=1)
        assert made["message"] == "Execution plan set with 1 groups."
        made = await called(session, "set_execution_plan", groups=groups, plan_id=made["plan_id"])
        assert (made["success"], made["total_groups"], made["needs_calls"]) == (True, 4, [])
        wallet = Wallet(box)
        for expected, remaining in (
            ({0: "Done", 1: "Failed", 2: "Skipped"}, 1),
            ({3: "Done"}, 0),
            ({}, 0),
        ):
            call = await session.submit("next_groups", {"plan_id": made["plan_id"]})
            result = await wallet.attend(session, call.id)
            assert result.ok, result.failure
            found = {one["group_index"]: next(iter(one["inner"])) for one in result.data["results"]}
            assert (found, result.data["remaining_groups"]) == (expected, remaining)
            if 0 in found:
                first, second, third = result.data["results"]
                assert first["operations"] == ["wrap"]
                assert first["inner"]["Done"]["transactions"][0]["value"] == "1000"
                assert second["inner"]["Failed"]["error"].startswith("The simulation failed")
                assert third["inner"] == {"Skipped": {"because": [1]}}
        replacing = await session.call("set_execution_plan", {"groups": groups, "plan_id": made["plan_id"]})
        assert replacing.failure is not None
        assert "has begun" in replacing.failure.message
        other = await session.crib.open("s-2", owner="ada", namespaces=["forge"])
        failure = (await other.call("next_groups", {"plan_id": made["plan_id"]})).failure
        assert failure is not None
        assert failure.code == "not_found"
        assert failure.message == f"No execution plan found for plan_id: {made['plan_id']}"


@requirement("forge.plan.5", "forge.run.6")
async def test_groups_in_words_are_a_draft_that_names_functions(anvil_server: Anvil) -> None:
    token = deployed(anvil_server, "Token")
    explorer = Explorer(anvil_server, sourcify={token: "Token"})
    drafts = [{"description": "Mint", "operations": ["mint 5"], "contracts": [[31337, token, "Token"]]}]
    async with exploring(explorer) as settings, opened(local(anvil_server, **settings)) as session:
        made = await called(session, "set_execution_plan", groups=drafts)
        assert made["needs_calls"] == [0]
        assert "mint(address to,uint256 amount)" in made["functions"][token]
        failure = (await session.call("next_groups", {"plan_id": made["plan_id"]})).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("invalid_arguments", "Group 0 has no calls")


@requirement("chain.safe.2")
async def test_a_chain_that_is_only_read_takes_no_plan(anvil_server: Anvil) -> None:
    async with opened(Chains([Chain(31337, "anvil", anvil_server.url)])) as session:
        call = await session.submit("forge_execute", {"plan": [{"calls": [WRAP]}]})
        failure = (await session.result(call.id)).failure
    assert failure is not None
    assert (failure.code, failure.message) == ("denied", "Chain 31337 is read-only here")


@pytest.mark.parametrize("user", [None, "0x" + "0" * 36 + "dead"])
async def test_a_plan_needs_a_wallet_with_funds(user: str | None, box: Anvil) -> None:
    async with opened(mainnet(box.url), user=user) as session:
        call = await session.submit("forge_execute", {"plan": [{"calls": [WRAP]}]})
        failure = (await session.result(call.id)).failure
    assert failure is not None
    if user is None:
        assert (failure.code, failure.message) == (
            "unavailable",
            "No wallet connected. Please connect your wallet first.",
        )
    else:
        assert failure.message == "Operation 0 failed: Insufficient funds: needs 1000 wei, has 0"


@requirement("forge.sim.4")
async def test_a_strange_node_without_simulation_takes_one_call_at_a_time(box: Anvil) -> None:
    limits = ChainLimits(tx_wei=10**18, day_wei=10**18)
    plan = [{"calls": [WRAP, WRAP]}, {"calls": [WRAP]}]
    async with without(box, "eth_simulateV1") as url:
        chains = Chains([Chain(1, "ethereum", url, propose=True)], limits=limits)
        async with opened(chains) as session:
            call = await session.submit("forge_execute", {"plan": plan})
            result = await Wallet(box).attend(session, call.id)
    assert result.failure is not None
    assert result.failure.message == "Operation 0 failed: This endpoint cannot simulate several calls"
    assert [one["status"] for one in result.metadata["groups"]] == ["failed", "done"]

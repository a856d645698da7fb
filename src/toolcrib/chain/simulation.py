"""What calls would do if they were sent now: whether they pass, what they cost, what they move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.chain.chains import Chain, Chains
from toolcrib.chain.contracts import errors_of
from toolcrib.chain.reverts import reason
from toolcrib.chain.rpc import NoMethod, Reverted, Rpc
from toolcrib.chain.values import address, quantity
from toolcrib.errors import ToolFailure

METHODS = (
    "eth_simulateV1",
    "eth_getBlockByNumber",
    "eth_call",
    "eth_estimateGas",
    "eth_getBalance",
    "web3_clientVersion",
)
ON_A_COPY = (
    "eth_call",
    "evm_snapshot",
    "evm_revert",
    "anvil_impersonateAccount",
    "anvil_stopImpersonatingAccount",
    "eth_sendTransaction",
    "eth_getTransactionReceipt",
    "evm_mine",
)
NATIVE = "0x" + "e" * 40
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
SECONDS = 12
LEAST_GAS = 21_000


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """A call to be simulated."""

    to: str
    value: int
    data: str


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """What became of one call; `error` is why it failed."""

    result: str
    gas_used: int
    moves: tuple[dict[str, str], ...]
    error: str | None = None

    @property
    def gas(self) -> int:
        """What to offer: gas is counted after refunds, and the block that mines it is another one."""
        return max(LEAST_GAS, -(-self.gas_used * 3 // 2))


@dataclass(frozen=True, slots=True)
class Simulation:
    """What became of several calls, one after the other, on top of a block."""

    outcomes: tuple[SimulationOutcome, ...]
    block: int
    time: int
    base_fee: int

    @property
    def error(self) -> str | None:
        """Why the first call that failed did so."""
        return next((one.error for one in self.outcomes if one.error is not None), None)


async def simulate(chains: Chains, chain: Chain, sender: str, calls: Sequence[SimulatedCall]) -> Simulation:
    """Simulates calls of one sender, each on what the ones before it left.

    Raises:
        ToolFailure: the node is away, or cannot simulate so many calls.
    """
    rpc = chains.node(chain, *METHODS)
    block = await rpc("eth_getBlockByNumber", "latest", False)
    block = block if isinstance(block, Mapping) else {}
    number, time = quantity(block.get("number")) or 0, quantity(block.get("timestamp")) or 0
    look = _Simulator(chains, chain, sender, calls)
    try:
        outcomes = await look.at_once(rpc, time)
    except NoMethod:
        outcomes = await look.otherwise(rpc)
    return Simulation(outcomes, number, time, quantity(block.get("baseFeePerGas")) or 0)


class _Simulator:
    """One simulation, by the best way that the node knows."""

    def __init__(self, chains: Chains, chain: Chain, sender: str, calls: Sequence[SimulatedCall]) -> None:
        self.chains, self.chain, self.sender, self.calls = chains, chain, sender, calls
        self.errors = errors_of(chains, chain.id, *(call.to for call in calls))

    def _sent(self, call: SimulatedCall) -> dict[str, str]:
        return {"from": self.sender, "to": call.to, "value": hex(call.value), "data": call.data}

    async def at_once(self, rpc: Rpc, time: int) -> tuple[SimulationOutcome, ...]:
        """By `eth_simulateV1`."""
        blocks = [{"blockOverrides": {"time": hex(time + SECONDS)}, "calls": [self._sent(call) for call in self.calls]}]
        params = {"blockStateCalls": blocks, "validation": False, "traceTransfers": True}
        try:
            answer = await rpc("eth_simulateV1", params, "latest")
        except (NoMethod, Reverted):
            raise
        except ToolFailure as error:
            if error.code != "failed":
                raise
            return (SimulationOutcome("0x", 0, (), error.message),)
        match answer:
            case [*_, {"calls": [*results]}] if len(results) == len(self.calls):
                return tuple(map(self._outcome, results))
        raise ToolFailure("unavailable", f"The node of chain {self.chain.id} does not simulate as it should")

    def _outcome(self, outcome: Any) -> SimulationOutcome:
        outcome = outcome if isinstance(outcome, Mapping) else {}
        result = outcome.get("returnData") if isinstance(outcome.get("returnData"), str) else "0x"
        used = quantity(outcome.get("gasUsed")) or 0
        if quantity(outcome.get("status")) == 1:
            return SimulationOutcome(result, used, moves_of(outcome.get("logs")))
        error = outcome.get("error") if isinstance(outcome.get("error"), Mapping) else {}
        data = result if len(result) >= 10 else error.get("data")
        message = self.chains.scrub(error.get("message", ""))
        return SimulationOutcome(
            result, used, (), reason(data if isinstance(data, str) else None, self.errors, message)
        )

    async def otherwise(self, rpc: Rpc) -> tuple[SimulationOutcome, ...]:
        """Without it: on a node of our own the calls are made and taken back; elsewhere one call can be estimated."""
        if await is_ours(self.chain, rpc):
            return await self._and_back(self.chains.node(self.chain, *ON_A_COPY))
        if len(self.calls) > 1:
            raise ToolFailure("unavailable", "This endpoint cannot simulate several calls", retryable=False)
        call = self._sent(self.calls[0])
        try:
            result = await rpc.data("eth_call", call, "latest")
            used = await rpc.number("eth_estimateGas", call)
        except Reverted as error:
            return (SimulationOutcome(error.data or "0x", 0, (), reason(error.data, self.errors, error.message)),)
        value = self.calls[0].value
        move = {"token": "native", "from": self.sender, "to": self.calls[0].to, "amount": str(value)}
        return (SimulationOutcome(result, used, (move,) if value else ()),)

    async def _and_back(self, rpc: Rpc) -> tuple[SimulationOutcome, ...]:
        mark = await rpc("evm_snapshot")
        try:
            await rpc("anvil_impersonateAccount", self.sender)
            return tuple([await self._made(rpc, call) for call in self.calls])
        finally:
            await rpc("evm_revert", mark)
            await rpc("anvil_stopImpersonatingAccount", self.sender)

    async def _made(self, rpc: Rpc, call: SimulatedCall) -> SimulationOutcome:
        try:
            result = await rpc.data("eth_call", self._sent(call), "latest")
            hash = await rpc("eth_sendTransaction", self._sent(call))
        except Reverted as error:
            return SimulationOutcome(error.data or "0x", 0, (), reason(error.data, self.errors, error.message))
        await rpc("evm_mine")
        receipt = await rpc("eth_getTransactionReceipt", hash)
        receipt = receipt if isinstance(receipt, Mapping) else {}
        used, moves = quantity(receipt.get("gasUsed")) or 0, moves_of(receipt.get("logs"))
        if call.value:
            moves = ({"token": "native", "from": self.sender, "to": call.to, "amount": str(call.value)}, *moves)
        failed = quantity(receipt.get("status")) != 1
        return SimulationOutcome(result, used, () if failed else moves, "reverted without data" if failed else None)


def moves_of(logs: Any) -> tuple[dict[str, str], ...]:
    """The transfers among logs; those of the chain's own coin come as logs of an address that cannot exist."""
    moves = []
    for log in logs if isinstance(logs, list) else ():
        match log:
            case {"address": str(token), "topics": [str(topic), str(source), str(target)], "data": str(data)} if (
                topic == TRANSFER and len(data) == 66
            ):
                named = "native" if token.lower() == NATIVE else address(token.lower())
                parties = [address("0x" + one[-40:].lower()) for one in (source, target)]
                moves.append({"token": named, "from": parties[0], "to": parties[1], "amount": str(int(data, 16))})
    return tuple(moves)


async def is_ours(chain: Chain, rpc: Rpc) -> bool:
    """True if a node is a development node on this machine: the operator says so, and it is, and it says so."""
    if not chain.local or not chain.loopback:
        return False
    version = await rpc("web3_clientVersion")
    return isinstance(version, str) and version.startswith("anvil/")

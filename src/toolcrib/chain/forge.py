"""Plans of several transactions: read, simulated, signed and settled group by group, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib.chain import contracts
from toolcrib.chain.abi import decode, encode_call
from toolcrib.chain.chains import Chain, ChainKit, Chains, Settings, as_chains, by_schema, chain_kit, user_chain
from toolcrib.chain.ethereum import HOLDER, USDC
from toolcrib.chain.forge_scripts import ForgeScripts, as_scripts
from toolcrib.chain.plans import PlanGroup, behind, filled, read_plan, ready
from toolcrib.chain.proposals import ProposalContext, ProposedCall, check_open, sender_of
from toolcrib.chain.rpc import Reverted
from toolcrib.chain.signatures import functions, parse_signature
from toolcrib.chain.simulation import SimulatedCall
from toolcrib.chain.values import invalid, quantity, shown
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.toolkits.collection import FunctionEntry
from toolcrib.types import AntiPattern, Change, Example, Result

__all__ = ["ready", "tools"]

TIMEOUT_S, SCRIPT_S = 3600, 600
DEADLINE_S = 1200
OPEN = ("todo", "running")

_CALL = {
    "type": "object",
    "required": ["to"],
    "properties": {
        "to": {"type": "string", "description": "The contract, or who is paid."},
        "function": {
            "type": "string",
            "description": "A signature such as transfer(address,uint256); none to pay value.",
        },
        "args": {
            "type": "array",
            "description": "Its arguments; $sender, $deadline and the names of reads are filled in.",
        },
        "value": {"type": ["string", "integer"], "description": "Wei that is sent with it."},
        "note": {"type": "string", "description": "What it is for, for the user."},
    },
}
_READ = {
    "type": "object",
    "required": ["as", "to", "function"],
    "properties": {
        "as": {"type": "string", "description": "The name that calls use for it, with a dollar before it."},
        "to": {"type": "string", "description": "The contract."},
        "function": {"type": "string", "description": "A signature such as balanceOf(address)(uint256)."},
        "args": {"type": "array", "description": "Its arguments."},
    },
}
_GROUP = {
    "type": "object",
    "properties": {
        "description": {"type": "string", "description": "What the group does, for the user."},
        "dependencies": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "Groups that must be done first.",
        },
        "calls": {"type": "array", "items": _CALL, "description": "What the user signs, at most 20."},
        "reads": {"type": "array", "items": _READ, "description": "What is read when the group starts."},
        "operations": {"type": "array", "items": {"type": "string"}, "description": "What it does, in words."},
        "contracts": {"type": "array", "description": "Contracts it uses: {chain_id, address, name}."},
    },
}
_PLAN = {"type": "array", "items": _GROUP, "description": "At most 20 groups, on one chain."}
_CHAIN = {"type": ["integer", "null"], "description": "The chain; without it the user's."}
_SET = {"groups": _PLAN, "chain_id": _CHAIN, "plan_id": {"type": ["string", "null"], "description": "To replace."}}
_ID = {"type": "string", "description": "The plan, as set_execution_plan named it."}


_SCRIPT = """\
interface Vm { function startBroadcast() external; function stopBroadcast() external; }
contract Run {
    Vm constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);
    function run() external {
        vm.startBroadcast();
        payable(0x70997970C51812dc3A010C7d01b50e0d17dc79C8).transfer(1);
        vm.stopBroadcast();
    }
}
"""
_WRONG_SCRIPT = [
    AntiPattern("sends nothing", "Put the calls between vm.startBroadcast() and vm.stopBroadcast()."),
    AntiPattern("No sandbox available", "Scripts cannot run here. Use forge_execute."),
]


def tools(chains: Settings, *, scripts: ForgeScripts | Mapping[str, Any] | None = None) -> ChainKit:
    """`forge_execute`, `set_execution_plan` and `next_groups`; with `scripts` also `forge_script`.

    Raises:
        BadChain: a setting does not hold.
    """
    made = _Forge(as_chains(chains), as_scripts(scripts))
    wrong = [
        AntiPattern("Dependency cycle", "A group depends only on groups that can be done before it."),
        AntiPattern("has no calls", "Fill in calls for every group; get_contract_abi tells the functions."),
        AntiPattern("No wallet connected", "Ask the user to connect a wallet."),
        AntiPattern("Unknown name", "Declare it in reads of the same group."),
        AntiPattern("Invalid address", "Copy an address as it was given; never make one up."),
    ]
    example: dict[str, Any] = {"description": "Pay 1 USDC", "dependencies": []}
    example |= {"calls": [{"to": USDC, "function": "transfer(address,uint256)", "args": [HOLDER, "1000000"]}]}
    running: dict[str, Any] = {"capabilities": ("payments:initiate",), "effect": "idempotent", "open_world": True}
    running |= {"timeout": TIMEOUT_S, "anti_patterns": wrong}
    executing = {**running, "background": True, "wake": "wake", "examples": [Example({"plan": [example]})]}
    planning = {
        "effect": "idempotent",
        "timeout": 60,
        "anti_patterns": wrong,
        "examples": [Example({"groups": [example]})],
    }
    stepping = {**running, "serial": True, "examples": [Example({"plan_id": "plan-1"})]}
    functions: list[FunctionEntry] = [
        by_schema(made.forge_execute, executing, {"plan": _PLAN, "chain_id": _CHAIN}, "plan"),
        by_schema(made.set_execution_plan, planning, _SET, "groups"),
        by_schema(made.next_groups, stepping, {"plan_id": _ID}, "plan_id"),
    ]
    if made.scripts is not None:
        writing = {"examples": [Example({"source": _SCRIPT, "description": "Pay 1 wei"})], "timeout": SCRIPT_S}
        functions.append((made.forge_script, {**running, "anti_patterns": [*wrong[2:3], *_WRONG_SCRIPT], **writing}))
    return chain_kit("forge", made.chains, functions)


class _Forge:
    """The tools, with the chains that they may propose on, and what runs scripts."""

    def __init__(self, chains: Chains, scripts: ForgeScripts | None = None) -> None:
        self.chains, self.scripts = chains, scripts

    async def forge_execute(self, ctx: Context, values: dict[str, Any]) -> Any:
        """Carry out a plan of transactions: each group is simulated, signed in the user's wallet and waited for."""
        chain, groups = read_plan(values["plan"], values.get("chain_id"))
        for group in groups:
            _check_calls(group)
        started = {"status": "started", "message": "Forge execution started", "groups": len(groups)}
        run = _Run(await self._proposals(ctx, chain, started), groups)
        while (index := run.next()) is not None:
            await run.carry_out(index)
        return await run.outcome()

    async def set_execution_plan(self, ctx: Context, values: dict[str, Any]) -> Result:
        """Keep a plan, to be carried out group by group with next_groups; groups without calls are a draft."""
        plan_chain, groups = read_plan(values["groups"], values.get("chain_id"))
        chain, existing = self.chains.pick(ctx, plan_chain or user_chain(ctx)), values.get("plan_id")
        if existing is not None and any(one != "todo" for one in _kept(ctx, existing)["status"]):
            raise invalid(f"Plan {shown(existing)} has begun; set a new one for what is left")
        plan_id, drafts = existing or f"plan-{ctx.id}", [group for group in groups if not group.calls]
        plan = {"chain_id": chain.id, "groups": values["groups"], "status": ["todo"] * len(groups)}
        answer: dict[str, Any] = {
            "success": True,
            "message": f"Execution plan set with {len(groups)} groups.",
            "total_groups": len(groups),
            "plan_id": plan_id,
            "chain_id": chain.id,
            "needs_calls": [group.index for group in drafts],
        }
        if drafts:
            answer["functions"] = await self._functions(chain, drafts)
        return Result(answer, changes=[Change("set", _key(plan_id), plan)])

    async def _functions(self, chain: Chain, drafts: Iterable[PlanGroup]) -> dict[str, list[str]]:
        """What the contracts that drafts name can do; nothing for those that nobody knows."""
        signatures: dict[str, list[str]] = {}
        for where in dict.fromkeys(where for group in drafts for _, where in group.contracts):
            try:
                signatures[where] = functions((await contracts.find(self.chains, chain, where))["abi"])
            except ToolFailure:
                signatures[where] = []
        return signatures

    async def next_groups(self, ctx: Context, values: dict[str, Any]) -> Result:
        """Carry out the groups of a plan that are ready: simulated, signed in the user's wallet and waited for."""
        plan_id = values["plan_id"]
        plan = await ctx.step("plan", lambda: _kept(ctx, plan_id))
        _, groups = read_plan(plan["groups"], plan["chain_id"])
        done = [index for index, status in enumerate(plan["status"]) if status == "done"]
        turn = [index for index in _ready(groups, done) if plan["status"][index] == "todo"]
        for index in turn:
            _check_calls(groups[index])
        run = _Run(await self._proposals(ctx, plan["chain_id"]), groups, plan["status"])
        for index in turn:
            await run.carry_out(index)
        shown = [run.inner(one) for one in groups if run.status[one.index] != plan["status"][one.index]]
        left = sum(one in OPEN for one in run.status)
        change = Change("set", _key(plan_id), {**plan, "status": run.status})
        value = {"results": shown, "remaining_groups": left, "chain_id": plan["chain_id"]}
        return Result(value, changes=[change])

    async def forge_script(
        self, ctx: Context, source: str, description: str, contract: str = "Run", chain_id: int | None = None
    ) -> dict[str, Any]:
        """Run a Solidity script without sending anything, and ask the user's wallet to sign what it would send.

        Args:
            source: The script: a contract with run(), which calls between vm.startBroadcast() and vm.stopBroadcast().
            description: One sentence for the user about what it does.
            contract: The name of the contract that has run().
            chain_id: The chain; without it the user's.
        """
        proposals, scripts = await self._proposals(ctx, chain_id), self.scripts
        assert scripts is not None

        async def requested() -> dict[str, Any]:
            calls = await scripts.run(source, contract, proposals.sender, proposals.chain.id)
            return await proposals.request("script", [ProposedCall(SimulatedCall(**one), description) for one in calls])

        request = await ctx.step("request", requested)
        sent = await proposals.ask("script", request, f"Sign in the wallet: {description}")
        settled = await ctx.step("settled", lambda: proposals.settle(request, sent))
        if "failure" in settled:
            metadata = {"hashes": sent.hashes, "pending": settled.get("pending", False)}
            raise ToolFailure(**settled["failure"], retryable=False, metadata=metadata)
        return {"status": "confirmed", "transactions": settled["mined"], "chain_id": proposals.chain.id}

    async def _proposals(self, ctx: Context, chain: int | None, chunk: dict[str, Any] | None = None) -> ProposalContext:
        """Where the plan is carried out and whose wallet signs it, which stays so to the end whatever the user does."""

        def begun() -> dict[str, Any]:
            sender, picked = sender_of(ctx), self.chains.pick(ctx, chain or user_chain(ctx))
            check_open(picked)
            if chunk is not None:
                ctx.output(chunk)
            return {"sender": sender, "chain_id": picked.id}

        where = await ctx.step("start", begun)
        return ProposalContext(self.chains, self.chains.pick(ctx, where["chain_id"]), ctx, where["sender"])


def _key(plan_id: str) -> str:
    return f"forge:{plan_id}"


def _kept(ctx: Context, plan_id: str) -> dict[str, Any]:
    plan = ctx.state.get(_key(plan_id))
    if plan is None:
        raise ToolFailure("not_found", f"No execution plan found for plan_id: {shown(plan_id)}")
    return dict(plan)


def _ready(groups: Iterable[PlanGroup], done: list[int]) -> list[int]:
    return ready([group.dependencies for group in groups], done)


def _check_calls(group: PlanGroup) -> None:
    if not group.calls:
        raise invalid(f"Group {group.index} has no calls")


class _Run:
    """One pass over a plan. Whatever has an effect, also a chunk, is a recorded step: a later pass repeats nothing."""

    def __init__(
        self, proposals: ProposalContext, groups: list[PlanGroup], status: Iterable[str] | None = None
    ) -> None:
        self.proposals, self.ctx, self.groups = proposals, proposals.ctx, groups
        self.status = ["todo"] * len(groups) if status is None else list(status)
        self.mined: dict[int, list[dict[str, Any]]] = {}
        self.hashes: dict[int, list[str]] = {}
        self.errors: dict[int, ToolFailure] = {}

    def next(self) -> int | None:
        """The first group that may start."""
        done = [index for index, status in enumerate(self.status) if status == "done"]
        return next((index for index in _ready(self.groups, done) if self.status[index] == "todo"), None)

    async def carry_out(self, index: int) -> None:
        """Reads, simulates, has the wallet sign, and waits for what was mined; a failure ends what is behind it."""
        self.status[index] = "running"
        try:
            await self._signed(self.groups[index])
            self.status[index] = "done"
        except ToolFailure as error:
            self.status[index], self.errors[index] = "failed", error
            await self._say(index, "failed", error=error.message)
            for other in sorted(behind(self.groups, index)):
                if self.status[other] == "todo":
                    self.status[other] = "skipped"
                    await self._say(other, "skipped", because=index)

    async def _signed(self, group: PlanGroup) -> None:
        index = group.index
        request = await self.ctx.step(f"{index}:request", lambda: self._request(group))
        sent = await self.proposals.ask(str(index), request, f"Sign in the wallet: {group.description}")
        self.hashes[index] = sent.hashes
        settled = await self.ctx.step(f"{index}:settled", lambda: self.proposals.settle(request, sent))
        self.mined[index] = settled["mined"]
        if "failure" in settled:
            raise ToolFailure(**settled["failure"], retryable=False)
        await self._say(index, "settled", hashes=self.hashes[index])

    async def _request(self, group: PlanGroup) -> dict[str, Any]:
        known = await self._known(group)
        proposed = []
        for one in group.calls:
            data = encode_call(one.function, filled(one.args, known)) if one.function else "0x"
            call = SimulatedCall(one.to, one.value, data)
            proposed.append(ProposedCall(call, one.note or group.description, one.function or None))
        request = await self.proposals.request(str(group.index), proposed)
        progress = {"status": "progress", "step": group.index}
        self.ctx.output({**progress, "phase": "simulated", "moves": request["moves"]})
        self.ctx.output({**progress, "phase": "awaiting_signature", "transactions": len(proposed)})
        return request

    async def _known(self, group: PlanGroup) -> dict[str, Any]:
        """What the names of a group stand for, now that it starts."""
        chains, chain, sender = self.proposals.chains, self.proposals.chain, self.proposals.sender
        rpc = chains.node(chain, "eth_call", "eth_getBlockByNumber")
        block = await rpc("eth_getBlockByNumber", "latest", False)
        time = quantity(block.get("timestamp")) if isinstance(block, Mapping) else None
        known: dict[str, Any] = {"sender": sender, "deadline": str((time or 0) + DEADLINE_S)}
        for one in group.reads:
            data = encode_call(one.function, filled(one.args, known))
            try:
                result = await rpc.data("eth_call", {"to": one.to, "data": data, "from": sender}, "latest")
            except Reverted as error:
                message = f"Reading ${one.name}: {contracts.why(chains, chain, one.to, error)}"
                raise ToolFailure("failed", message, retryable=False) from None
            values = decode(parse_signature(one.function).outputs, result)
            known[one.name] = values[0] if len(values) == 1 else values
        return known

    async def _say(self, index: int, phase: str, **more: Any) -> None:
        chunk = {"status": "progress", "step": index, "phase": phase, **more}
        await self.ctx.step(f"{index}:said {phase}", lambda: self.ctx.output(chunk))

    def _summary(self, group: PlanGroup) -> dict[str, Any]:
        index = group.index
        summary = {"index": index, "description": group.description, "status": self.status[index]}
        summary["hashes"] = self.hashes.get(index, [])
        return summary | ({"error": self.errors[index].message} if index in self.errors else {})

    async def outcome(self) -> dict[str, Any]:
        """The result of a whole plan.

        Raises:
            ToolFailure: a group failed; what became of each is in its metadata.
        """
        groups = [self._summary(group) for group in self.groups]
        if not self.errors:
            last = {"status": "completed", "message": "All operations completed", "groups": groups}
            await self.ctx.step("completed", lambda: self.ctx.output(last))
            return last
        index, first = next(iter(self.errors.items()))
        done = [one["index"] for one in groups if one["status"] == "done"]
        raise ToolFailure(
            "declined" if first.code == "declined" else "failed",
            f"Operation {index} failed: {first.message}",
            retryable=False,
            hint=f"Groups that are done and must not be repeated: {done}. Plan anew what is left.",
            metadata={"status": "partial", "groups": groups},
        )

    def inner(self, group: PlanGroup) -> dict[str, Any]:
        """What became of a group, as `next_groups` tells it."""
        index, notes = group.index, [one.note or one.function or f"pay {one.value} wei" for one in group.calls]
        transactions = self.mined.get(index, [])
        data: dict[str, Any] = {"group_index": index, "description": group.description}
        data["operations"] = list(group.operations) or notes
        if self.status[index] == "done":
            return {**data, "inner": {"Done": {"transactions": transactions}}}
        if self.status[index] == "failed":
            return {**data, "inner": {"Failed": {"error": self.errors[index].message, "transactions": transactions}}}
        failed = [one for one in self.errors if index in behind(self.groups, one)]
        return {**data, "inner": {"Skipped": {"because": failed}}}

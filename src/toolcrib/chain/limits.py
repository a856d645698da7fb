"""What may be proposed to a wallet: how much, to whom, and which calls never."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.chain.abi import decode_call
from toolcrib.chain.signatures import parse_signature
from toolcrib.chain.values import address
from toolcrib.errors import ToolcribError, ToolFailure

INFINITE = 2**255


class BadChain(ToolcribError, ValueError):
    """Settings of chains that do not hold."""


_APPROVALS = tuple(
    map(
        parse_signature,
        (
            "approve(address spender,uint256 amount)",
            "increaseAllowance(address spender,uint256 amount)",
            "permit(address owner,address spender,uint256 amount,uint256 deadline,uint8 v,bytes32 r,bytes32 s)",
            "setApprovalForAll(address operator,bool approved)",
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLimits:
    """Bounds on what leaves the user: a transaction, a session, a day of an owner over all sessions; and targets.

    `token` bounds single tokens, in their smallest unit, a transaction. None is no bound.

    Raises:
        BadChain: an address is none.
    """

    tx_wei: int | None = None
    session_wei: int | None = None
    day_wei: int | None = None
    token: Mapping[str, int] = field(default_factory=dict)
    allow_to: Sequence[str] | None = None
    deny_to: Sequence[str] = ()
    deny_selectors: Sequence[str] = ()
    infinite_approvals: bool = False

    def __post_init__(self) -> None:
        try:
            allowed = None if self.allow_to is None else tuple(map(address, self.allow_to))
            object.__setattr__(self, "allow_to", allowed)
            object.__setattr__(self, "deny_to", tuple(map(address, self.deny_to)))
            object.__setattr__(self, "token", {address(token): units for token, units in self.token.items()})
        except ToolFailure as error:
            raise BadChain(f"Limits: {error.message}") from None
        object.__setattr__(self, "deny_selectors", tuple(one.lower() for one in self.deny_selectors))

    def check_call(self, to: str, value: int, data: str) -> None:
        """Check one call as requested.

        Raises:
            ToolFailure: `denied`, saying what is not allowed.
        """
        self._check_target(to)
        if data[:10] in self.deny_selectors:
            raise denied(f"Function {data[:10]} is not allowed")
        bound(value, self.tx_wei)
        allowance = approval(to, data)
        if allowance is not None:
            self._check_bound(allowance)

    def check_permits(self, contract: str | None, permits: Iterable[Mapping[str, Any]]) -> None:
        """Looks at what a signature would let others take.

        Raises:
            ToolFailure: `denied`, saying what is not allowed.
        """
        if contract is not None:
            self._check_target(contract)
        for one in permits:
            if one["spender"] in self.deny_to:
                raise denied(f"Target {one['spender']} is not allowed")
            self._check_bound(one)
            self._check_units(one["token"], int(one["amount"]))

    def _check_target(self, to: str) -> None:
        if to in self.deny_to or (self.allow_to is not None and to not in self.allow_to):
            raise denied(f"Target {to} is not allowed")

    def _check_bound(self, data: Mapping[str, Any]) -> None:
        if data["infinite"] and not self.infinite_approvals:
            raise denied(f"{data['function']} without a bound is not allowed", "Approve the amount that is needed.")

    def _check_units(self, token: str | None, units: int) -> None:
        if token is not None and units > self.token.get(token, units):
            raise denied(f"Value {units} units of {token} is above the limit of {self.token[token]}")

    def check_moves(self, user: str, moves: Iterable[Mapping[str, Any]]) -> None:
        """Looks at what one simulated call takes from the user.

        Raises:
            ToolFailure: `denied`, saying what is not allowed.
        """
        total: dict[str, int] = {}
        for move in moves:
            if move["from"] == user and move["to"] != user:
                if move["to"] in self.deny_to:
                    raise denied(f"Target {move['to']} is not allowed")
                total[move["token"]] = total.get(move["token"], 0) + int(move["amount"])
        bound(total.pop("native", 0), self.tx_wei)
        for token, units in total.items():
            self._check_units(token, units)


def denied(message: str, hint: str | None = None) -> ToolFailure:
    """The failure of what may not be."""
    return ToolFailure("denied", message, retryable=False, hint=hint)


def bound(value: int, limit: int | None, of: str = "") -> None:
    """Holds an amount of wei against a limit.

    Raises:
        ToolFailure: `denied`, it is above.
    """
    if limit is not None and value > limit:
        raise denied(f"Value {value} wei is above the limit of {limit}{of}")


def approval(to: str, data: str) -> dict[str, Any] | None:
    """What a call lets somebody else take; None for other calls."""
    for signature in _APPROVALS:
        arguments = decode_call(signature, data)
        if arguments is None:
            continue
        if signature.name == "setApprovalForAll":
            made = {"spender": arguments[0], "amount": "all" if arguments[1] else "0", "infinite": False}
        else:
            spender, amount = arguments[1:3] if signature.name == "permit" else arguments
            made = {"spender": spender, "amount": amount, "infinite": int(amount) >= INFINITE}
        return {"function": signature.name, "token": to, **made}
    return None

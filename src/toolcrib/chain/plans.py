"""Plans: groups of calls that depend on each other, checked before anything is done."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.chain.chain_names import chain_id as id_of
from toolcrib.chain.signatures import parse_signature
from toolcrib.chain.values import address, amount, clean, invalid, shown
from toolcrib.errors import ToolFailure

MOST = 20
RESERVED = ("sender", "deadline")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call, or without a function a plain payment; arguments may name what is known only when the group starts."""

    to: str
    function: str
    args: list[Any]
    value: int = 0
    note: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class PlanGroup:
    """Calls that the user signs together, once all groups that it depends on are done."""

    index: int
    description: str
    dependencies: tuple[int, ...]
    calls: tuple[PlannedCall, ...] = ()
    reads: tuple[PlannedCall, ...] = ()
    operations: tuple[str, ...] = ()
    contracts: tuple[tuple[int | None, str], ...] = field(default=())


def ready(deps: Sequence[Sequence[int]], done: Collection[int] = (), in_progress: Collection[int] = ()) -> list[int]:
    """The indices of the groups that may start."""
    return [
        index
        for index, needed in enumerate(deps)
        if index not in done and index not in in_progress and all(one in done for one in needed)
    ]


def behind(groups: Sequence[PlanGroup], failed: int) -> set[int]:
    """The groups that depend on one, however far."""
    dependents = {failed}
    while more := {
        one.index for one in groups if one.index not in dependents and dependents.intersection(one.dependencies)
    }:
        dependents |= more
    return dependents - {failed}


def read_plan(value: Any, chain: Any = None) -> tuple[int | None, list[PlanGroup]]:
    """The groups of a plan, and its chain where it says one.

    Raises:
        ToolFailure: `invalid_arguments`, saying which group does not hold and why.
    """
    if not isinstance(value, list) or not value:
        raise invalid("A plan needs at least one group")
    if len(value) > MOST:
        raise invalid(f"A plan has at most {MOST} groups; there are {len(value)}")
    groups = [_group(index, one) for index, one in enumerate(value)]
    _check_order(groups)
    chains = {one for group in groups for one, _ in group.contracts if one is not None}
    if chain is not None:
        chains.add(id_of(chain))
    if len(chains) > 1:
        raise invalid(f"A plan runs on one chain; found {sorted(chains)}")
    return next(iter(chains), None), groups


def _check_order(groups: Sequence[PlanGroup]) -> None:
    for group in groups:
        for needed in group.dependencies:
            if needed == group.index:
                raise invalid(f"Group {needed} depends on itself")
            if not 0 <= needed < len(groups):
                raise invalid(f"Group {group.index} depends on group {needed}; there are {len(groups)}")
    done: set[int] = set()
    while runnable := ready([group.dependencies for group in groups], done):
        done.update(runnable)
    if len(done) < len(groups):
        raise invalid(f"Dependency cycle: {' -> '.join(map(str, _cycle(groups, done)))}")


def _cycle(groups: Sequence[PlanGroup], done: Collection[int]) -> list[int]:
    """One way round, from the lowest group that is on it."""
    path = [min(group.index for group in groups if group.index not in done)]
    while path.count(path[-1]) < 2:
        path.append(min(one for one in groups[path[-1]].dependencies if one not in done))
    loop = path[path.index(path[-1]) : -1]
    start = loop.index(min(loop))
    return [*loop[start:], *loop[: start + 1]]


def _group(index: int, group: Any) -> PlanGroup:
    where = f"Group {index}"
    group = _object(group, where)
    needed = group.get("dependencies") or []
    if not isinstance(needed, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in needed):
        raise invalid(f"{where}: dependencies are the indices of groups")
    calls = [_call(one, f"{where}, call {i}") for i, one in enumerate(_list(group, "calls", where))]
    reads = [_call(one, f"{where}, read {i}", reads=True) for i, one in enumerate(_list(group, "reads", where))]
    names = [one.name for one in reads]
    if len(set(names)) < len(names):
        raise invalid(f"{where}: two reads have one name")
    return PlanGroup(
        index,
        clean(group.get("description") or "", 500),
        tuple(dict.fromkeys(needed)),
        tuple(calls),
        tuple(reads),
        tuple(clean(one, 500) for one in _list(group, "operations", where)),
        tuple(_contract(one, where) for one in _list(group, "contracts", where)),
    )


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise invalid(f"{where}: expected an object, got {shown(value)}")
    return value


def _list(data: Mapping[str, Any], name: str, where: str) -> list[Any]:
    items = data.get(name) or []
    if not isinstance(items, list):
        raise invalid(f"{where}: {name} must be an array")
    if len(items) > MOST:
        raise invalid(f"{where}: at most {MOST} {name}; there are {len(items)}")
    return items


def _call(call: Any, where: str, *, reads: bool = False) -> PlannedCall:
    call = _object(call, where)
    name = str(call.get("as") or "")
    if reads and (not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in RESERVED):
        raise invalid(f"{where}: `as` must be a name of its own")
    args = call.get("args") or []
    if not isinstance(args, list):
        raise invalid(f"{where}: args must be an array")
    try:
        function = str(call.get("function") or "")
        value = 0 if reads else amount(call.get("value") or "0", "value")
        if function or reads:
            parse_signature(function)
        elif args or not value:
            raise invalid("name a function, or a value to pay")
        return PlannedCall(address(call.get("to")), function, args, value, clean(call.get("note") or ""), name)
    except ToolFailure as error:
        raise invalid(f"{where}: {error.message}", error.hint) from None


def _contract(contract: Any, where: str) -> tuple[int | None, str]:
    """`{chain_id, address, name}`, or the same three as an array."""
    if isinstance(contract, list) and len(contract) == 3:
        contract = {"chain_id": contract[0], "address": contract[1]}
    contract = _object(contract, f"{where}, contracts")
    chain = contract.get("chain_id")
    try:
        return None if chain is None else id_of(chain), address(contract.get("address"))
    except ToolFailure as error:
        raise invalid(f"{where}, contracts: {error.message}") from None


def filled(args: Iterable[Any], known: Mapping[str, Any]) -> list[Any]:
    """Arguments with what their names stand for: `$name` is replaced, `$$` is a dollar.

    Raises:
        ToolFailure: `invalid_arguments`, nobody knows the name.
    """
    return [_filled(one, known) for one in args]


def _filled(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_filled(one, known) for one in value]
    if isinstance(value, Mapping):
        return {name: _filled(one, known) for name, one in value.items()}
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    if value.startswith("$$"):
        return value[1:]
    if value[1:] not in known:
        names = ", ".join(f"${name}" for name in known)
        raise invalid(f"Unknown name: {shown(value)}", f"known: {names}; write $$ for a dollar")
    return known[value[1:]]

"""Who may say yes: people and groups of them, and what a rule demands of whoever answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from toolcrib.findings import Finding
from toolcrib.policy.data_origin import Place
from toolcrib.schema import nearest

LineAt = Callable[[Place], int | None]
"""The line of a place in the data of a policy."""


class ApprovalRequirement(NamedTuple):
    """Who has to agree before a call that a rule asks about may run.

    `approvers` are people or groups; without any, whoever may answer in the session counts. `quorum` different people
    have to say yes. Where they did not for `escalate_s` seconds, those of `escalate_to` count as well; then there is no
    `escalate_s` any more.
    """

    approvers: tuple[str, ...] = ()
    quorum: int = 1
    escalate_s: float | None = None
    escalate_to: tuple[str, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """The people and groups whose yes counts now."""
        return self.approvers + (self.escalate_to if self.escalate_s is None else ())

    def words(self) -> str:
        """It in words."""
        who = " or ".join(self.asked) if self.approvers else " or ".join(("whoever may answer", *self.asked))
        many = f"{self.quorum} of " if self.quorum > 1 else ""
        later = "" if self.escalate_s is None else f", after {self.escalate_s:g} s also {' or '.join(self.escalate_to)}"
        return f"{many}{who}{later}"

    def data(self) -> dict[str, Any]:
        """Its form in the log and in questions."""
        return {name: value for name, value in self._asdict().items() if value not in (None, ())}


class Approvers(NamedTuple):
    """Groups by name, and who beside its owner may answer in a session; None leaves that to the program."""

    groups: Mapping[str, tuple[str, ...]] = {}
    approvers: tuple[str, ...] | None = None

    def among(self, actor: str, names: Iterable[str]) -> bool:
        """True if somebody is one of these people, or in one of these groups; the name of a group is nobody's."""
        return any(actor in self.groups.get(name, (name,)) for name in names)

    def findings(self, demands: Iterable[tuple[int | None, ApprovalRequirement]], lines: LineAt) -> Iterator[Finding]:
        """Groups that are never asked, more yeses than there are people, people whose names look like a group's.

        `demands` are those of the rules, each with its line.
        """
        named = {name: lines(("approvers", place)) for place, name in enumerate(self.approvers or ())}
        for line, one in demands:
            named |= dict.fromkeys((*one.approvers, *one.escalate_to), line)
            able = {person for name in (*one.approvers, *one.escalate_to) for person in self.groups.get(name, (name,))}
            if one.approvers and len(able) < one.quorum:
                names = ", ".join(one.approvers)
                warning = f"{one.quorum} of {names} have to agree, and there are only {len(able)} people who may"
                yield Finding("QUORUM", "warning", warning, line=line)
        for name in self.groups:
            if name not in named:
                line = lines(("groups", name))
                yield Finding("GROUP_NEVER_ASKED", "warning", f"the group {name} is never asked", line=line)
        people = {person for members in self.groups.values() for person in members}
        for name in sorted(named.keys() - self.groups.keys() - people):
            close = nearest(name, self.groups, 1)
            if close:
                message = f"'{name}' is no group and counts as a person"
                yield Finding("NO_GROUP", "warning", message, line=named[name], nearest=close[0])


ANYBODY = Approvers()


def demand(data: Mapping[str, Any]) -> ApprovalRequirement:
    """A demand as the log holds it."""
    lists = {name: tuple(data.get(name, ())) for name in ("approvers", "escalate_to")}
    return ApprovalRequirement(quorum=data.get("quorum", 1), escalate_s=data.get("escalate_s"), **lists)

"""The log of a session as an audit: an entry for every call that ended, each chained to the one before. A fold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from toolcrib._call.history import History, by_of
from toolcrib.events import Accepted, Answered, Done, Event, SessionDeleted, Settled

DELETION = "toolcrib.delete_session"
"""What the audit calls the deletion of a session."""

_SEALS = ("prev", "hash")
_ANSWER = ("question", "action", "actor", "reason", "scope", "key")


class Audit:
    """The entries of one session, made as its log goes by.

    A call has its entry where it ended. One that ended `unknown` and was settled has a second one then.
    """

    def __init__(self, session: str, owner: str) -> None:
        self.session = session
        self.owner = owner
        self.seq = 0
        self._count = 0
        self._last = ""
        self._open: dict[str, Audited] = {}
        self._chains: dict[str, list[str]] = {}

    def take(self, event: Event) -> dict[str, Any] | None:
        """Takes the next event of the log; the entry of a call that ended with it."""
        self.seq = event.seq
        if event.call is None:
            return self._deletion(event, event.data) if isinstance(event.data, SessionDeleted) else None
        if isinstance(event.data, Accepted):
            self._open[event.call] = Audited(self.session, self._chain(event.call, event.data))
        call = self._open.get(event.call)
        if call is None:
            return None
        call.take(event)
        if not isinstance(event.data, Done):
            return None
        if isinstance(event.data, Settled) or not _unknown(event.data):
            del self._open[event.call]
        return self._entry(call, event)

    def _chain(self, call: str, accepted: Accepted) -> list[str]:
        before = self._chains.get(accepted.parent or "", ())
        self._chains[call] = chain = chained(accepted, before)
        return chain

    def _deletion(self, event: Event, deletion: SessionDeleted) -> dict[str, Any]:
        """A session that was deleted, as if a tool had done it."""
        nothing = dict.fromkeys(("call", "parent", "run", "verdict", "approver", "message"))
        about = {"accepted_at": event.at, "ended_at": event.at, "by": {"kind": "user", "name": deletion.actor}}
        arguments = {name: getattr(deletion, name) for name in ("session", "owner", "events", "calls")}
        fields = {"tool": DELETION, "digest": deletion.sha256, "arguments": arguments, "outcome": "succeeded"}
        more = {"chain": [f"user {deletion.actor}"], "answers": [], "started": True, "settled": False, "duration_ms": 0}
        return self._sealed(event, nothing | about | fields | more)

    def _entry(self, call: Audited, end: Event) -> dict[str, Any]:
        return self._sealed(end, call.entry(end))

    def _sealed(self, end: Event, fields: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        place = {"session": self.session, "seq": end.seq, "number": self._count, "owner": self.owner}
        entry = {"cursor": f"{self.session}:{end.seq}", **place, **fields, "prev": self._last}
        self._last = entry["hash"] = sealed(entry)
        return entry


def chained(accepted: Accepted, before: Iterable[str]) -> list[str]:
    """Who asked, from the top: whoever made the first call, then the agents and tools that made the next."""
    chain, by = list(before), by_of(accepted)
    steps = [" ".join(part for part in by if part)]
    if accepted.agent and f"agent {accepted.agent}" not in (*chain, *steps):
        steps.insert(len(steps) if by.kind != "tool" else 0, f"agent {accepted.agent}")
    return [*chain, *steps]


class Audited:
    """What an audit wants to know of one call."""

    def __init__(self, session: str, chain: list[str]) -> None:
        self.history = History(session)
        self.chain = chain
        self.verdict: dict[str, Any] | None = None
        self.answers: list[dict[str, Any]] = []

    def take(self, event: Event) -> None:
        """Takes the next event of the call."""
        self.history.advance(event)
        self.verdict = event.fields.get("verdict", self.verdict)
        if isinstance(event.data, Answered):  # also `Endorsed`
            answer = event.data
            fields = {name: value for name in _ANSWER if (value := getattr(answer, name)) is not None}
            question = self.history.questions[answer.question]
            if not any(fields.items() <= one.items() for one in self.answers):  # the last yes may stand there twice
                edited = answer.args is not None
                self.answers.append({**fields, "kind": question.kind, "edited": edited, "at": event.at})

    def entry(self, end: Event) -> dict[str, Any]:
        """All of it, with its end."""
        accepted, started, done = self.history.accepted, self.history.started, end.data
        assert isinstance(done, Done)
        edit = self.history.edit
        arguments = accepted.args if edit is None else edit.arguments
        return {
            "call": end.call,
            "accepted_at": self.history.accepted_at,
            "ended_at": end.at,
            "by": msgspec.to_builtins(accepted.by),
            "chain": self.chain,
            "parent": accepted.parent,
            "run": accepted.run,
            "tool": accepted.tool,
            "digest": accepted.digest if started is None else started.digest,
            "arguments": arguments if started is None else started.args,
            "started": started is not None,
            "verdict": self.verdict,
            "approver": next((one["actor"] for one in reversed(self.answers) if one["kind"] == "confirm"), None),
            "answers": self.answers,
            "outcome": "succeeded" if done.failure is None else done.failure.code,
            "message": None if done.failure is None else done.failure.message,
            "settled": isinstance(done, Settled),
            "duration_ms": done.duration_ms,
        }


def audit(session: str, owner: str, events: Iterable[Event]) -> list[dict[str, Any]]:
    """The entries of a whole log, in its order."""
    fold = Audit(session, owner)
    return [entry for event in events if (entry := fold.take(event)) is not None]


def _unknown(done: Done) -> bool:
    return done.failure is not None and done.failure.code == "unknown"


# The chain


def sealed(entry: Mapping[str, Any]) -> str:
    """The hash of an entry: of the hash before it and of all that it says."""
    fields = {name: value for name, value in entry.items() if name not in _SEALS}
    text = json.dumps(fields, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{entry.get('prev', '')}\n{text}".encode()).hexdigest()


class AuditFlaw(NamedTuple):
    """What is wrong with the lines of an audit, and on which line it shows."""

    line: int
    message: str


def flaws(lines: Iterable[str], *, partial: bool = False) -> Iterator[AuditFlaw]:
    """Lines that were changed, or before which some are missing; a `partial` file need not begin with the first."""
    last: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        entry = _read(line)
        if entry is None:
            yield AuditFlaw(number, "it is no entry of an audit")
            continue
        session, count = entry["session"], entry["number"]
        if sealed(entry) != entry["hash"]:
            yield AuditFlaw(number, f"entry {count} of session {session} was changed")
        before = last.get(session)
        if before is not None or not partial:
            yield from _gap(number, entry, *(before or (0, "")))
        last[session] = (count, entry["hash"])


def against(lines: Iterable[str], log: Iterable[Mapping[str, Any]]) -> Iterator[AuditFlaw]:
    """What differs between the lines of an audit and the entries of its sessions as the log has them now.

    What ended after all that is here may have been added since.
    """
    here: dict[tuple[str, int], tuple[int, dict[str, Any]]] = {}
    last: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if (entry := _read(line)) is not None:
            here[entry["session"], entry["number"]] = (number, entry)
            last[entry["session"]] = max(entry["number"], last.get(entry["session"], 0))
    end = max((_ended(entry) for _, entry in here.values()), default=0.0)
    for true in log:
        session, count = true["session"], true["number"]
        number, expected = here.pop((session, count), (0, None))
        if expected is not None and expected["hash"] != true["hash"]:
            yield AuditFlaw(number, f"entry {count} of session {session} is not what the log says")
        elif expected is None and count > last.get(session, 0) and true["ended_at"] <= end:
            yield AuditFlaw(0, f"entry {count} of session {session} is in the log, and not here")
    for (session, count), (number, _) in here.items():
        yield AuditFlaw(number, f"entry {count} of session {session} is not in the log")


def sessions_in(lines: Iterable[str]) -> list[str]:
    """The sessions that the lines of an audit are about."""
    return list(dict.fromkeys(entry["session"] for line in lines if (entry := _read(line)) is not None))


def _ended(entry: Mapping[str, Any]) -> float:
    at = entry.get("ended_at")
    return float(at) if isinstance(at, int | float) else 0.0


def _gap(number: int, entry: Mapping[str, Any], count: int, hash: str) -> Iterator[AuditFlaw]:
    """What does not join an entry to the one before it."""
    session, now = entry["session"], entry["number"]
    missing = now - count - 1
    if missing > 0:
        what = f"entry {now - 1} is" if missing == 1 else f"entries {count + 1} to {now - 1} are"
        yield AuditFlaw(number, f"{what} missing in session {session}")
    elif missing < 0:
        yield AuditFlaw(number, f"entry {now} of session {session} stands after entry {count}")
    elif entry["prev"] != hash:
        yield AuditFlaw(number, f"entry {now} of session {session} does not follow the one before it")


def _read(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    kinds = {"session": str, "number": int, "prev": str, "hash": str}
    fits = isinstance(entry, dict) and all(type(entry.get(name)) is kind for name, kind in kinds.items())
    return entry if fits else None

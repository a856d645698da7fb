"""How the processes of one store declare the keys of the state, and which key they have for secrets.

Whoever starts is told where others differ.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.events import StateKeysDeclared
from toolcrib.state import declared
from toolcrib.store import OWNER, Write, draft
from toolcrib.store.vault import SAME

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort
    from toolcrib.events import Event

LOG = f"{OWNER}.state"
"""The crib's own log of who declared what."""

LAST = 200
"""Starts that are looked at; one further back is hardly alive, and would be told of by its own next start."""

log = logging.getLogger("toolcrib")


async def announce(crib: CribPort) -> list[str]:
    """Notes the declarations of this process, and logs a warning for each that differs; the warnings."""
    store, vault = crib.store, crib.pipeline.vault
    own = _Declaration(declared(crib.state_keys), vault.numbers() if vault.given else [])
    row = await store.session(LOG)
    if row is None and not (own.keys or own.secrets):
        return []
    noted = [] if row is None else await store.read(LOG, max(0, row.seq - LAST))
    differences = await _differences(crib, noted, own)
    for text in differences:
        log.warning(text)
    last = noted[-1].fields if noted else {}
    if not noted or _declaration(noted[-1]) != own or not await store.alive(last["worker"]):
        now = crib.pipeline.clock.now()
        await store.open(LOG, OWNER, now)
        declaration = StateKeysDeclared(crib.pipeline.worker, own.keys, own.secrets)
        await store.commit(Write(LOG, [draft(now, None, declaration)]))
    return differences


class _Declaration(NamedTuple):
    keys: dict[str, Any]
    secrets: list[str]


def _declaration(event: Event) -> _Declaration:
    return _Declaration(event.fields["keys"], event.fields.get("secrets", []))


async def _differences(crib: CribPort, noted: list[Event], own: _Declaration) -> list[str]:
    """Where living processes differ, else what has changed since the last start."""
    others = {event.fields["worker"]: _declaration(event) for event in noted}
    living = [(name, other) for name, other in others.items() if other != own and await crib.store.alive(name)]
    differing = [
        f"state_keys differ from those of {name}, which uses the same store: {_told(other.keys, own.keys)}"
        for name, other in living
        if other.keys != own.keys
    ]
    if not differing and noted and noted[-1].fields["keys"] != own.keys:
        differing.append(f"state_keys have changed, and hold from now on: {_told(noted[-1].fields['keys'], own.keys)}")
    mine = own.secrets or crib.pipeline.vault.numbers()
    return differing + [
        f"secret_key differs from that of {name}, which uses the same store: calls with secret arguments that one of "
        f"them keeps cannot go on at the other; {SAME}"
        for name, other in living
        if other.secrets and not _opens(mine, other.secrets)
    ]


def _opens(own: list[str], other: list[str]) -> bool:
    """True if each of two processes can read what the other encrypts."""
    return bool(own) and own[0] in other and other[0] in own


def _told(theirs: dict[str, Any], own: dict[str, Any]) -> str:
    names = sorted(name for name in theirs.keys() | own.keys() if theirs.get(name) != own.get(name))
    return ", ".join(f"{name} is {_mode(theirs.get(name))} there and {_mode(own.get(name))} here" for name in names)


def _mode(declaration: Any) -> str:
    if isinstance(declaration, dict):
        return f"{declaration['mode']} for a run"
    return str(declaration or "exclusive")

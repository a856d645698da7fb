"""How the processes of one store declare the keys of the state: whoever starts is told where others differ."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from toolcrib.events import StateKeysDeclared
from toolcrib.state import declared
from toolcrib.store import OWNER, Write, draft

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.events import Event

LOG = f"{OWNER}.state"
"""The crib's own log of who declared what."""

LAST = 200
"""Starts that are looked at; one further back is hardly alive, and would be told of by its own next start."""

log = logging.getLogger("toolcrib")


async def announce(crib: Crib) -> list[str]:
    """Notes the declarations of this process, and logs a warning for each that differs; the warnings."""
    store, own, worker = crib.store, declared(crib.state_keys), crib.pipeline.worker
    row = await store.session(LOG)
    if row is None and not own:
        return []
    noted = [] if row is None else await store.read(LOG, max(0, row.seq - LAST))
    found = await _differences(crib, noted, own)
    for text in found:
        log.warning(text)
    last = noted[-1].fields if noted else {}
    if last.get("keys") != own or not await store.alive(last["worker"]):
        now = crib.pipeline.clock.now()
        await store.open(LOG, OWNER, now)
        await store.commit(Write(LOG, [draft(now, None, StateKeysDeclared(worker, own))]))
    return found


async def _differences(crib: Crib, noted: list[Event], own: dict[str, Any]) -> list[str]:
    """Where living processes differ, else what has changed since the last start."""
    others = {event.fields["worker"]: event.fields["keys"] for event in noted}
    living = [(name, keys) for name, keys in others.items() if keys != own and await crib.store.alive(name)]
    found = [
        f"state_keys differ from those of {name}, which uses the same store: {_told(keys, own)}"
        for name, keys in living
    ]
    if not found and noted and noted[-1].fields["keys"] != own:
        found.append(f"state_keys have changed, and hold from now on: {_told(noted[-1].fields['keys'], own)}")
    return found


def _told(theirs: dict[str, Any], own: dict[str, Any]) -> str:
    names = sorted(name for name in theirs.keys() | own.keys() if theirs.get(name) != own.get(name))
    return ", ".join(f"{name} is {_mode(theirs.get(name))} there and {_mode(own.get(name))} here" for name in names)


def _mode(declaration: Any) -> str:
    if isinstance(declaration, dict):
        return f"{declaration['mode']} for a run"
    return str(declaration or "exclusive")

"""Settling a call of which nobody knows whether it ran: somebody looked, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib._call import lifecycle
from toolcrib._call.remote import claimed
from toolcrib.errors import Refused
from toolcrib.events import UNSET, Settled
from toolcrib.store import draft
from toolcrib.types import Failure

if TYPE_CHECKING:
    from toolcrib._call.ports import SessionPort


async def settle(session: SessionPort, call: str, happened: bool, data: Any, reason: str | None, actor: str) -> None:
    """Writes what came of it; of several who say so the first counts.

    Raises:
        Refused: `not_found`; `conflict`, its end is known, or somebody else is settling it.
    """
    async with session._lock:
        row = await session._row(call)
        if row.state != "done" or row.code != "unknown":
            raise Refused(
                "conflict", f"What came of call {call} is known", "only a call that ended `unknown` is settled"
            )
        if not await claimed(session, f"settle:{call}"):
            raise Refused("conflict", f"Somebody else settles call {call}")
        failure = Failure("failed", f"It did not run{f': {reason}' if reason else ''}", retryable=True)
        settled = Settled(
            ok=happened,
            failure=None if happened else failure,
            data=data if happened else UNSET,
            metadata={"settled_by": actor} | ({"reason": reason} if reason else {}),
            duration_ms=0,
        )
        event = draft(session.pipeline.clock.now(), call, settled)
        code = None if happened else failure.code
        await session.crib.store.commit(lifecycle.settle(row, code, [event]))

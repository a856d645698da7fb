"""Taking up what a dead process has left of the runs and messages of all sessions, again and again.

A lease whose holder lives is looked at again later: nobody has to send anything for a run to go on.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from toolcrib._session.recovery import recover
from toolcrib.agent.conversation import AgentRun
from toolcrib.agent.loop import Loop
from toolcrib.agent.run_log import LeaseLost
from toolcrib.store import Row

if TYPE_CHECKING:
    from toolcrib.agent.driver import Driver
    from toolcrib.agent.runtime import Agents
    from toolcrib.crib import Crib

EVERY_S = 1.0
"""How often to look where the system itself tells at once that a process has died."""

MOST = 1000

log = logging.getLogger("toolcrib.agent")


def take_over(agents: Agents, crib: Crib) -> None:
    """From now on looks as long as the crib runs; several processes may, and the store lets one take each run."""
    every = crib.store.lease_s / 2 or EVERY_S

    async def again() -> float:
        await look(agents, crib)
        return every * random.uniform(0.75, 1.0)

    crib.rescue.add(again)


async def look(agents: Agents, crib: Crib) -> None:
    """Goes on with what nobody goes on with now."""
    alive: dict[str, bool] = {}
    for row in await crib.store.calls(None, ("held",), limit=MOST):
        worker = row.worker or ""
        if worker not in alive:
            alive[worker] = bool(worker) and await crib.store.alive(worker)
        if worker == crib.pipeline.worker:
            stuck = crib._session_table.at_hand(row.session)
            if stuck is not None and row.tool == "run":
                agents.driver(stuck).retry()
        elif not alive[worker]:
            await _take_up(agents, crib, row)


async def _take_up(agents: Agents, crib: Crib, row: Row) -> None:
    session = await crib._session_table.attached(row.session)
    if session is None or session._left_by_owner:
        return
    if crib.pipeline.engine is None:
        await recover(crib, await crib.store.calls(row.session, ("queued", "running"), limit=1_000_000))
    driver = agents.driver(session)
    await driver.log.catch_up()
    if row.tool == "message" and all(one.seq != row.accepted_seq for one in driver.conversation.queue):
        driver.log.settle(row)
        return
    log.info("session %s: %s held by %s is taken up", row.session, row.id, row.worker)
    driver.notify()


async def end_abandoned(driver: Driver, run: AgentRun) -> None:
    """Ends a child run whose call has ended without it."""
    assert run.parent is not None
    if await _is_done(driver, run.parent):
        try:
            await Loop(driver, run).cancelled()
        except LeaseLost:
            await driver.log.catch_up()  # another process has ended it


async def _is_done(driver: Driver, call: str) -> bool:
    """True if the call of a run is over. Nothing is noted of one that a client made and waits for."""
    note = driver.conversation.calls.get(call)
    if note is not None:
        return note.state == "done"
    if call in driver.session.live:
        return False
    row = await driver.log.store.call(call)
    return row is not None and row.state == "done"

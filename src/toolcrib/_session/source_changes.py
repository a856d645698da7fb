"""What sources are given when they come to a crib, and how one ends that is no longer there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from toolcrib._call.abandoned_tasks import PART_S, bounded
from toolcrib._session.account_calls import resume_connected
from toolcrib.catalog.fingerprints import Fingerprints

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.pipeline import Pipeline
    from toolcrib._call.ports import CribPort
    from toolcrib.accounts import Accounts, AccountSettings
    from toolcrib.catalog.registry import SourceRegistry
    from toolcrib.sources import Source
    from toolcrib.tool import Tool


def fingerprints(crib: CribPort, sources: Iterable[Source]) -> Fingerprints | None:
    """Where it is kept what tools of strangers look like, if it is: as the policy says, else where a server says it."""
    pin = crib.pipeline.policy.pin
    pinned = pin != "off" if pin is not None else any(source.pinned for source in sources)
    return Fingerprints(lambda: crib.store, crib.pipeline.clock.now) if pinned else None


def make_accounts(crib: CribPort, settings: Iterable[AccountSettings]) -> Accounts:
    """The accounts that owners of a crib can connect."""
    from toolcrib.accounts import Accounts
    from toolcrib.accounts.account_log import AccountLog

    pipeline = crib.pipeline
    clock = pipeline.clock  # whose time a store may bring at the start
    kept = AccountLog(lambda: crib.store, pipeline.vault, clock, lambda: pipeline.worker)
    made = Accounts(settings, kept, clock)
    made.listen(partial(resume_connected, crib))
    return made


def use_accounts(pipeline: Pipeline, accounts: Accounts, sources: Iterable[Source]) -> None:
    """Gives sources the accounts that they are used with; one that nobody described is described by its source."""
    from toolcrib.accounts import AccountSettings

    for source in sources:
        wanted = source.account
        if wanted is not None:
            if wanted["name"] not in accounts:
                accounts.declare(AccountSettings(**wanted))
            source.use_accounts(accounts)
    pipeline.accounts = accounts if accounts.settings else None


def retire(
    pipeline: Pipeline,
    registry: SourceRegistry,
    calls: Callable[[], list[LiveCall]],
    gone: Iterable[tuple[Source, Iterable[Tool]]],
) -> None:
    """Has sources stopped that are no longer there, each when the calls of its tools have ended."""
    for source, tools in gone:
        pipeline.aside(_stop(registry, source, tools, calls))


async def _stop(
    registry: SourceRegistry, source: Source, tools: Iterable[Tool], calls: Callable[[], list[LiveCall]]
) -> None:
    gone = {id(tool) for tool in tools}
    if left := [live for live in calls() if id(live.tool) in gone]:
        await asyncio.wait([asyncio.ensure_future(live.ended()) for live in left])
    async with registry.changing:
        if source not in registry.sources:  # it may have been enabled again
            await bounded(registry.stop_source(source), PART_S, f"source {source.name}")

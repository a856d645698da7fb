"""Whatever two owners do, and in whatever order, neither ever uses what the other connected."""

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.accounts.place import KEY, connect, shop, whoami
from tests.accounts.service import Service, running
from tests.requirements import requirement
from toolcrib import Crib, Refused

OWNERS = ("ada", "bob")
STEPS = st.lists(
    st.tuples(st.sampled_from(OWNERS), st.sampled_from(["connect", "call", "call", "expire", "revoke", "remove"])),
    min_size=3,
    max_size=8,
)


async def step(crib: Crib, service: Service, owner: str, what: str) -> None:
    match what:
        case "connect":
            await connect(crib, owner, f"{owner}@shop")
        case "call":
            session = await crib.open(f"s-{owner}", owner=owner)
            for call in [await session.submit("whoami", {}) for _ in range(2)]:
                async for event in session.events(call=call.id):
                    if event.kind in ("waiting", "done"):
                        break
        case "expire":
            service.expire()
        case "revoke":
            service.revoke_all()
        case "remove":
            try:
                await crib.accounts.remove(owner, "shop")
            except Refused:
                assert not await crib.accounts.connected(owner)


async def play(steps: list[tuple[str, str]]) -> None:
    async with running() as service:
        options: dict[str, Any] = {"secret_key": KEY, "deps": {"api": service.api}}
        async with Crib([whoami], accounts=[shop(service)], **options) as crib:
            for owner, what in steps:
                await step(crib, service, owner, what)
            for owner in OWNERS:  # what waits goes on, each with their own
                await connect(crib, owner, f"{owner}@shop")
                for row in await crib.store.calls(f"s-{owner}"):
                    result = await (await crib.open(f"s-{owner}", owner=owner)).result(row.id)
                    assert result.data["login"] == f"{owner}@shop"


@requirement("accounts.owner.1")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_no_call_is_ever_made_with_what_another_owner_connected(steps: list[tuple[str, str]]) -> None:
    asyncio.run(play(steps))

"""Tools use keys of the session's owner, which nobody else gets and no log shows."""

import asyncio
import json

import pytest

from tests.contract.conftest import OpenCrib
from toolcrib import Context, ToolFailure, testing, tool

KEYS = {("ada", "bank"): "sk-ada-1234567890", ("bob", "bank"): "sk-bob-1234567890"}


def lookup(owner: str, name: str) -> str | None:
    return KEYS.get((owner, name))


async def later(owner: str, name: str) -> str | None:
    await asyncio.sleep(0)
    return lookup(owner, name)


@tool(namespace="default")
async def pay(ctx: Context) -> dict[str, str]:
    """Pay."""
    key = await ctx.credential("bank")
    ctx.progress(f"with {key}")
    ctx.output(f"key {key}\n")
    return {"key": key, "length": str(len(key))}


@tool(namespace="default", name="pay_plainly")
def plainly(ctx: Context) -> str:
    """Pay, in a thread."""
    key: str = ctx.credential("bank")  # type: ignore[assignment]
    raise ToolFailure("failed", f"{key} was refused")


@pytest.mark.parametrize("credentials", [lookup, later])
async def test_each_owner_has_their_own_and_the_log_shows_none(open_crib: OpenCrib, credentials: object) -> None:
    crib = await open_crib(pay, plainly, credentials=credentials)
    for owner in ("ada", "bob"):
        session = await crib.open(owner, owner=owner)
        result = await session.call("pay", {})
        assert result.ok
        assert result.data["length"] == str(len(KEYS[owner, "bank"]))
        failed = await session.call("pay_plainly", {})
        assert failed.failure is not None
        assert failed.failure.message.endswith("was refused")
        log = json.dumps([event.fields async for event in session.events(follow=False)])
        assert "sk-" not in log + json.dumps(result.data) + failed.failure.message


async def test_who_has_none_is_told(open_crib: OpenCrib) -> None:
    crib = await open_crib(pay, credentials=lookup)
    result = await (await crib.open("s", owner="eve")).call("pay", {})
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == ("denied", "There is no credential 'bank' of eve")


async def test_a_crib_without_any_says_so(open_crib: OpenCrib) -> None:
    crib = await open_crib(pay)
    result = await (await crib.open("s", owner="ada")).call("pay", {})
    assert result.failure is not None
    assert "without `credentials`" in (result.failure.hint or "")


async def test_a_test_gives_them_by_name() -> None:
    ctx = testing.context(credentials={"bank": "sk-1"}, owner="ada")
    assert (await testing.run(pay, {}, ctx)).data["length"] == "4"
    without = await testing.run(pay, {}, testing.context(owner="ada"))
    assert without.failure is not None
    assert without.failure.code == "denied"

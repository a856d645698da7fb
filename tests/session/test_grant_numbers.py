"""A session has so many grants and no more, whichever way they come."""

import pytest

from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import Crib, CribLimits, Refused, tool
from toolcrib.policy import loader

LIMITS = CribLimits(grants_per_session=3)


def grants(number: int, of: str = "a") -> dict[str, list[str]]:
    return {"allow": [f"fs:read:{of}{n}" for n in range(number)]}


@requirement("security.fair.5")
async def test_too_many_grants_are_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(*_: object, **__: object) -> None:
        raise AssertionError("they were read")

    monkeypatch.setattr(loader, "load", unread)
    async with Crib() as crib:
        with pytest.raises(Refused, match="A session has at most 256 grants, not 50000") as refused:
            await crib.open(owner="ada", grants=grants(50_000))
        assert refused.value.code == "too_large"
        assert "fs:read:docs/**" in (refused.value.hint or "")
        with pytest.raises(Refused, match="A grant has at most 4096 characters"):
            await crib.open(owner="ada", grants=[f"fs:read:{'x' * 5000}"])


@requirement("security.fair.5")
async def test_grants_that_add_up_are_counted_together(place: Place) -> None:
    async with place.crib(limits=LIMITS) as crib:
        session = await crib.open("s", owner="ada", grants=grants(2), allowed=["default"])
        with pytest.raises(Refused, match="at most 3 grants, not 4"):
            await crib.open("s", owner="ada", grants=grants(2, "b"), allowed=["default"])
        assert (await crib.open("s", owner="ada", grants=grants(1, "b"), allowed=["default"])).grants == (
            grants(2),
            grants(1, "b"),
        )
        with pytest.raises(Refused, match="at most 3 grants, not 4"):
            await session.narrow(grants=grants(1, "c"))
        assert session.grants == (grants(2), grants(1, "b"))


@requirement("security.fair.5")
async def test_approvals_for_a_session_are_counted_too() -> None:
    @tool(destructive=True)
    async def drop(name: str) -> str:
        """Drop something."""
        return name

    async with Crib([drop], limits=CribLimits(grants_per_session=1)) as crib:
        session = await crib.open(owner="ada")
        for name in ("a", "b"):
            await session.submit("drop", {"name": name})
        first, second = await session.questions()
        await session.answer(first.id, "accept", scope="session")
        with pytest.raises(Refused, match="1 approvals hold for this session already"):
            await session.answer(second.id, "accept", scope="session")
        assert (await session.answer(second.id, "accept")).accepted

"""Whole sessions through the client: exported and deleted by their owner, with the names of `Crib`."""

import pytest

from tests.client.place import served
from tests.requirements import requirement
from toolcrib import Refused


@requirement("reliability.keep.7", "reliability.keep.8")
async def test_a_session_is_exported_and_deleted_through_the_client() -> None:
    async with served() as place, await place.remote("ada") as crib:
        session = await crib.open("s-1")
        lines = [line async for line in crib.export_session(session.id)]
        with pytest.raises(Refused) as caught:
            await crib.import_session(lines, id="s-2")
        assert caught.value.code == "denied"
        stone = await crib.delete_session(session.id)
        assert (stone.session, stone.actor, await crib.deleted_sessions()) == ("s-1", "ada", [stone])
        taken_in = await place.crib.import_session(lines)
        assert (taken_in.id, taken_in.owner) == ("s-1", "ada")
        with pytest.raises(Refused):
            await crib.delete_session("never-was")

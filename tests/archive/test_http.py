"""Archived sessions over HTTP, as the console asks for them."""

from pathlib import Path

from tests.archive.test_archive import archived, look
from tests.requirements import requirement
from tests.serve.api.place import desk
from toolcrib import Crib
from toolcrib.testing import FakeClock


@requirement("scale.archive.2")
async def test_an_archived_session_is_read_and_called_over_http(tmp_path: Path, folder_url: str) -> None:
    clock = FakeClock()
    crib = Crib([look], store=f"sqlite:///{tmp_path / 'log.db'}", archive=folder_url, clock=clock)
    assert crib.archiver is not None
    async with desk(crib, namespaces=["default"]) as served:
        session = await served.open("s-1")
        await served.call(session, "look", {"size": 3})
        assert await crib.archiver.put_away(clock.now() + 1, clock.now()) == 1
        assert await archived(crib) == ["s-1"]
        assert (await served.get("/sessions/s-1"))["id"] == "s-1"
        assert await crib.archiver.put_away(clock.now() + 1, clock.now()) == 1
        again = await served.call("s-1", "look", {"size": 4})
        assert again["data"] == "xxxx"
        assert await archived(crib) == []

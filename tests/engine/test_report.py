"""A test that waits in vain says what the nodes stood at."""

import pytest

from tests.engine import place
from tests.engine.place import Log, cluster, nats_of


async def test_who_waits_in_vain_is_told_what_the_nodes_stand_at(
    postgres_url: str, nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    async with cluster((postgres_url, nats_url), log) as (api, worker):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.hold", {"order": "A"})
        await log.until_running(1)
        monkeypatch.setattr(place, "SOON_S", 0.01)
        with pytest.raises(AssertionError) as told:
            await log.until_ran(("w1", "B"))
        report = str(told.value)
        assert f"node w1 ({worker.pipeline.worker}), stopping: False\n  runs {call.id} of shop.hold" in report
        assert f"lane default: 1 of {nats_of(worker).slots} held" in report
        assert "1 not acknowledged" in report
        assert f"'id': '{call.id}'" in report
        assert "_wait_for_msgs" in report

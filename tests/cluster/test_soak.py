"""A short soak: `make soak` is the long one."""

from pathlib import Path

from tests.cluster.soak import LEAST_ACKNOWLEDGED, LEAST_KILLED, soak, table
from tests.requirements import requirement


@requirement("engine.4", "engine.6", "store.9")
async def test_a_cluster_whose_parts_are_killed_at_random_loses_and_doubles_nothing(tmp_path: Path) -> None:
    run, counts = await soak(tmp_path, 12, seed=3, rate=40, tell=print)
    print("\n".join(table(run.killed, counts)))
    assert run.killed.total() > LEAST_KILLED
    assert (counts.lost, counts.doubled) == ([], [])
    assert counts.done == counts.acknowledged > LEAST_ACKNOWLEDGED

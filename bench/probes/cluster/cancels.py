"""Usage: cancels <count>. Milliseconds from a cancel here to the body on the worker, and to the call's end here."""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from bench.probes.cluster.measures import lags
from bench.probes.cluster.node import node
from toolcrib import Session

WARM = 5


async def _cancel(session: Session, note: Path) -> tuple[float, float]:
    call = await session.submit("hold", {"note": str(note)})
    async for event in session.events(call=call.id):
        if event.kind == "output":
            break
    before = time.time()
    stopped = await session.cancel(call.id)
    returned = time.time()
    assert stopped, "there was nothing to stop"
    return float(note.read_text()) - before, returned - before  # noqa: ASYNC240 - nothing else runs here


async def main(count: int) -> None:
    """One after the other."""
    with tempfile.TemporaryDirectory() as folder:
        async with node() as crib:
            session = await crib.open("cancel", owner="bench")
            found = [await _cancel(session, Path(folder) / str(n)) for n in range(WARM + count)]
    body, done = zip(*found[WARM:], strict=True)
    print(json.dumps({"body": lags(list(body)), "done": lags(list(done))}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

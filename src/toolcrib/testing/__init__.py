"""What users test their tools, answers and stores with. Nothing here is needed to run a crib, and nothing needs pytest.

    async with testing.crib(refund) as crib:                      # in memory, with a clock of its own
        session = await crib.open(owner="ada")
        async with testing.answers(session, {"default.refund": "accept"}):
            result = await session.call("refund", {"order": "A-7"})
        await crib.clock.advance(24 * 3600)                       # a day goes by at once

    ctx = testing.context(answers={"Which name?": "Bob"})         # one tool by itself
    result = await testing.run(refund, {"order": "A-7"}, ctx)
    assert ctx.told == [("progress", {"status": "running", "message": "talking to the bank"})]

    class TestMyStore(testing.StoreSuite): ...                    # the promise of a store, test by test
"""

from toolcrib.testing.answerer import Answers, answers
from toolcrib.testing.clock import ClockedCrib, FakeClock, crib
from toolcrib.testing.index import check_index
from toolcrib.testing.recording import Ended, RecordingContext, RecordingThreadContext, context, thread_context
from toolcrib.testing.running import run
from toolcrib.testing.script import Reply, Script
from toolcrib.testing.stores import StoreSuite

__all__ = [
    "Answers",
    "ClockedCrib",
    "Ended",
    "FakeClock",
    "RecordingContext",
    "RecordingThreadContext",
    "Reply",
    "Script",
    "StoreSuite",
    "answers",
    "check_index",
    "context",
    "crib",
    "run",
    "thread_context",
]

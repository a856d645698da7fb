"""What users test their tools, answers and stores with. Nothing here is needed to run a crib, and nothing needs pytest.

One tool by itself:

    ctx = testing.context(answers={"Which name?": "Bob"})
    result = await testing.run(refund, {"order": "A-7"}, ctx)
    assert ctx.text == "one two"

A crib in memory, with a clock of its own and somebody who answers:

    async with testing.crib(refund) as crib:
        session = await crib.open(owner="ada")
        async with testing.answers(session, {"default.refund": "accept"}):
            result = await session.call("refund", {"order": "A-7"})
        await crib.clock.advance(24 * 3600)

An agent, with a model that says what it was told to, or what another one said before:

    model = testing.ScriptedModel({"main": [{"text": "hello"}]})
    model = testing.record(real, "script.json")

A chain, and the services that know it, on this machine:

    with testing.anvil() as chain, testing.shapes(chain.url, {token: testing.Artifact(...)}) as web:
        chains = Chains([Chain(chain.chain_id, "anvil", chain.url, local=True)], **web.chains)

A store, promise by promise: `class TestMyStore(testing.StoreSuite)`, see `toolcrib.testing.stores`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolcrib.testing.clock import ClockedCrib, FakeClock, crib
from toolcrib.testing.index_check import check_index
from toolcrib.testing.recording_context import (
    CallEnded,
    RecordingContext,
    RecordingThreadContext,
    context,
    thread_context,
)
from toolcrib.testing.script import Reply, Script
from toolcrib.testing.scripted_answers import Answers, answers
from toolcrib.testing.stores import StoreSuite
from toolcrib.testing.tool_runner import run

if TYPE_CHECKING:
    from toolcrib.agent.scripted_model import ScriptedModel, ScriptExhausted, record
    from toolcrib.testing.chain import anvil
    from toolcrib.testing.fake_services import Artifact, shapes

__all__ = [
    "Answers",
    "Artifact",
    "CallEnded",
    "ClockedCrib",
    "FakeClock",
    "RecordingContext",
    "RecordingThreadContext",
    "Reply",
    "Script",
    "ScriptExhausted",
    "ScriptedModel",
    "StoreSuite",
    "answers",
    "anvil",
    "check_index",
    "context",
    "crib",
    "record",
    "run",
    "shapes",
    "thread_context",
]

_LATER = {
    **dict.fromkeys(("ScriptExhausted", "ScriptedModel", "record"), "toolcrib.agent.scripted_model"),
    "anvil": "toolcrib.testing.chain",
    **dict.fromkeys(("Artifact", "shapes"), "toolcrib.testing.fake_services"),
}


def __getattr__(name: str) -> Any:
    """What not every test needs: models, a chain, and what knows it."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)

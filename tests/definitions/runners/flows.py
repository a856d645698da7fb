"""A crib with a workflow of three steps, to be killed after one of them.

Arguments: the store, the file of effects, and where to stop: after the step `first` or `second`, in the middle of the
`third`, or `none` for one that goes on to the end.
"""

import asyncio
import sys
from pathlib import Path

from tests.definitions.runners.made import definition, tool_of
from tests.durability.effects import append, say
from tests.durability.processes import lines
from toolcrib import Context, Crib, tool
from toolcrib.definitions.runners import RunnerSettings

STORE, EFFECTS, WHERE = sys.argv[1:]
STEPS = {"first": 1, "second": 2}
FLOW = """
meta_specific:
  aggregates: [default]
  workflow:
    - {step: first, tool: default, command: work, input: {text: "{{args.text}}"}}
    - {step: second, tool: default, command: work, input: {text: "{{steps.first.data}}!"}}
    - {step: third, tool: default, command: work, input: {text: "{{args.text}}"}}
"""


async def held(text: str) -> None:
    """Goes no further once so many steps are done, before the next is so much as accepted."""
    if len(lines(Path(EFFECTS))) == STEPS.get(WHERE):
        say(WHERE)
        await asyncio.Event().wait()


@tool(validate=held)
async def work(ctx: Context, text: str) -> str:
    """Work once, and leave a trace."""
    append(EFFECTS, f"{ctx.parent is not None} {text}")
    if WHERE == "third" and len(lines(Path(EFFECTS))) == 3:
        say(WHERE)
        await asyncio.Event().wait()
    return text


async def main() -> None:
    async with Crib([work, tool_of(definition("meta", FLOW), "run", RunnerSettings())], store=STORE) as crib:
        session = await crib.open("s", owner="ada", namespaces=["*"])
        if WHERE == "none":
            (call,) = await crib.store.calls("s", parent=None, limit=1)
            result = await session.result(call.id)
            steps = [event.fields["key"] async for event in session.events(follow=False) if event.kind == "step"]
            say([result.data, None if result.failure is None else result.failure.code, steps])
            return
        await session.call("made.run", {"text": "x"})


asyncio.run(main())

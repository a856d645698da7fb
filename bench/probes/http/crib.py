"""Usage: crib <port> <store>. A crib with `add` and an agent whose model follows a script, served as users serve it."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import uvloop

from bench.probes.mcp.crib import add
from bench.probes.place import place
from toolcrib import Crib
from toolcrib.agent import Agent, Agents, CompletionRequest
from toolcrib.agent.models import Delta, Finish, Model, ModelCall, Text
from toolcrib.serve.api import ServeLimits
from toolcrib.serve.http import Site, server, settle

MANY = 10_000  # all readers are the same principal here


class Calling(Model):
    """Calls first, answers second."""

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        """What the model says."""
        if request.messages[-1].role == "tool":
            yield Text("all done")
        else:
            yield ModelCall("c1", "add", '{"a":1,"b":2}')
        yield Finish("stop")


async def main(port: int, store: str) -> None:
    """Serves until it is told to stop."""
    agents = Agents([Agent(name="turns", instructions="x")], model=Calling())
    limits = ServeLimits(streams_each=MANY)
    site = Site(Crib([add], store=store, agents=agents), limits=limits)
    settle()
    serving = server(site, lambda: print("ready", flush=True), port=port, timeout_keep_alive=60)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.handle_exit, signal.SIGTERM, None)
    await serving.serve()


if __name__ == "__main__":
    with place(sys.argv[2]) as url:
        uvloop.run(main(int(sys.argv[1]), url))

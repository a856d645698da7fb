"""How every HTTP server of a measurement is run: uvicorn with uvloop and httptools, one process, no logs."""

import signal
import sys
from typing import Any

import uvicorn


class _Said(uvicorn.Server):
    """A server that says `ready`."""

    async def startup(self, *arguments: Any, **more: Any) -> None:
        await super().startup(*arguments, **more)
        print("ready", flush=True)


def serve(app: Any) -> None:
    """Serves an application on the port that the command line names.

    When it is told to end, uvicorn passes the signal on: that must end the program, not kill it with its folder.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    config = uvicorn.Config(
        app,
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=60,
        backlog=20_000,
    )
    _Said(config).run()

"""A node of the measured cluster: `toolcrib worker --crib bench.probes.cluster.node:crib` is a worker of it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.probes.cluster.tools import TOOLS
from toolcrib import Crib
from toolcrib.engine.nats import Nats
from toolcrib.types import CribLimits

SLOTS = 256
# More than the 16 that a session runs at once by default, so that no session's limit is what is measured.
LIMITS = CribLimits(per_session=64)


def store_url() -> str:
    """The database of this measurement."""
    return os.environ["TOOLCRIB_STORE"]


def engine_url() -> str:
    """The NATS server."""
    return os.environ["TOOLCRIB_ENGINE"]


def crib() -> Crib:
    """What a worker runs; the command line gives it its store and its engine."""
    return Crib(TOOLS, limits=LIMITS)


@asynccontextmanager
async def node(*, work: bool = False) -> AsyncIterator[Crib]:
    """A node in this process, which runs calls itself only if it is to work."""
    engine = Nats(engine_url(), work=work, slots=SLOTS)
    async with Crib(TOOLS, store=store_url(), engine=engine, limits=LIMITS) as crib:
        yield crib

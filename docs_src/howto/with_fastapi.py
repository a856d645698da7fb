from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from toolcrib import Crib, tool
from toolcrib.console import console
from toolcrib.serve.http import Site


@tool(read_only=True)
async def find(order: str) -> dict[str, str]:
    """Find an order."""
    return {"order": order, "state": "paid"}


crib = Crib([find])
site = Site(crib)
site.mount("/", console())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with crib:
        await site.open()
        yield
        await site.quiet()


app = FastAPI(lifespan=lifespan)
app.mount("/crib", site)

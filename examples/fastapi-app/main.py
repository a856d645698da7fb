"""A FastAPI application with a crib inside: it has its own routes and sign-in, and the crib runs what is risky.

`uvicorn main:app` serves it; as a program it tries itself out.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
from fastapi import FastAPI, Header, HTTPException

from toolcrib import Context, Crib, Refused, tool


@tool(namespace="shop", destructive=True)
async def refund(ctx: Context, order: str, cents: int) -> str:
    """Pay money back."""
    return f"{cents} cents back for {order}, asked by {ctx.owner}"


crib = Crib([refund], store="sqlite:///shop.db")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the crib with the application, and let it finish with it."""
    async with crib:
        yield


app = FastAPI(lifespan=lifespan)
User = Annotated[str, Header(alias="X-User")]
"""Who asks, as your own sign-in knows it."""


@app.post("/refunds/{order}", status_code=202)
async def ask(order: str, cents: int, user: User) -> dict[str, Any]:
    """Ask for a refund; it waits for somebody who agrees."""
    session = await crib.open(f"shop-{user}", owner=user, namespaces=["shop"])
    call = await session.submit("shop.refund", {"order": order, "cents": cents})
    async for event in session.events(call=call.id):
        if event.kind == "waiting":
            return {"call": call.id, "question": event.data.question.id}
    return {"call": call.id}


@app.post("/questions/{customer}/{question}")
async def agree(customer: str, question: str, user: User) -> dict[str, Any]:
    """Agree, and tell what came of it."""
    if user != "bob":
        raise HTTPException(403, "only bob agrees to refunds")
    session = await crib.open(f"shop-{customer}", owner=customer)
    [call] = [one.call for one in await session.questions() if one.id == question]
    try:
        await session.answer(question, "accept", actor=user)
    except Refused as refused:
        raise HTTPException(409, refused.message) from None
    return {"result": (await session.result(call)).data}


async def main() -> None:
    transport = httpx.ASGITransport(app)
    async with lifespan(app), httpx.AsyncClient(transport=transport, base_url="http://shop") as http:
        asked = (await http.post("/refunds/A-7?cents=500", headers={"X-User": "ada"})).json()
        for user in ("eve", "bob"):
            answer = await http.post(f"/questions/ada/{asked['question']}", headers={"X-User": user})
            print(user, answer.status_code, answer.json())


if __name__ == "__main__":
    asyncio.run(main())

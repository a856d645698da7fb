"""What tests of accounts share."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from tests.accounts.service import Service
from toolcrib import Context, Crib, Question, Session, ToolFailure, tool
from toolcrib.accounts import AccountSettings, AuthorizationReply
from toolcrib.sources.mcp import Mcp

OpenCrib = Callable[..., Awaitable[Crib]]
RETURN = "http://localhost:9/callback"
KEY = "k" * 40


@tool(namespace="default", name="whoami", effect="read")
async def whoami(ctx: Context, scope: str = "") -> dict[str, str]:
    """Ask the service who we are, and renew what it does not take."""
    api = ctx.deps.api
    query = f"?scope={scope}" if scope else ""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        token = await ctx.credential("shop")
        answer = await http.get(f"{api}{query}", headers=await ctx.authorization("shop", api))
        if answer.status_code == 401:
            token = await ctx.credential("shop", refused=token)
            answer = await http.get(f"{api}{query}", headers=await ctx.authorization("shop", api))
        if answer.status_code == 403:
            await ctx.credential("shop", scope=scope)
            answer = await http.get(f"{api}{query}", headers=await ctx.authorization("shop", api))
    if answer.status_code != 200:
        raise ToolFailure("failed", f"HTTP {answer.status_code} with {token}")
    ctx.output(f"with {token}\n")
    return {"login": answer.json()["login"], "token": token}


def shop(service: Service, **more: Any) -> AccountSettings:
    return AccountSettings(name="shop", resource=service.api, **more)


@contextlib.asynccontextmanager
async def cribs(store: str, key: Path) -> AsyncIterator[OpenCrib]:
    """Opens cribs over one store; each further one is what comes after a restart."""
    running: list[Crib] = []
    key.write_text(KEY)

    async def opened(service: Service, *accounts: AccountSettings, **more: Any) -> Crib:
        while running:
            await running.pop().stop(grace=0)
        given: dict[str, Any] = {"store": store, "secret_key": key, "deps": {"api": service.api}} | more
        crib = Crib([whoami, *given.pop("sources", ())], accounts=accounts or [shop(service)], **given)
        await crib.start()
        running.append(crib)
        return crib

    yield opened
    while running:
        await running.pop().stop(grace=0)


async def visit(url: str, login: str, **more: str) -> AuthorizationReply:
    """What a browser comes back with, whose user is signed in at the service as `login`."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        answer = await browser.get(url, params={**dict(httpx.URL(url).params), "login": login, **more})
    return AuthorizationReply.of(answer.headers["location"])


async def connect(crib: Crib, owner: str, login: str, scope: str | None = None) -> None:
    """Connects the account of an owner, as a person would."""
    url = await crib.accounts.begin(owner, "shop", RETURN, scope=scope)
    await crib.accounts.finish(await visit(url, login))


async def connect_and_list(crib: Crib, source: Mcp, owner: str, login: str) -> None:
    """The same; returns when the server has listed what it has for the owner."""
    await connect(crib, owner, login)
    if (listing := source.prepare(owner)) is not None:
        await asyncio.wait({listing})


async def question(session: Session, call: str) -> Question:
    """What a call waits for, as soon as it does."""
    async for event in session.events(call=call):
        if event.kind == "waiting":
            (found,) = [one for one in await session.crib.questions() if one.call == call]
            return found
    raise AssertionError("it ended")


async def all_text(crib: Crib) -> str:
    """All that the logs of a crib hold, its own included."""
    texts: list[Any] = []
    for row in [*await crib.store.sessions(limit=1000)]:
        seq = 0
        while page := await crib.store.read(row.id, seq):
            texts += [[event.kind, event.fields] for event in page]
            seq = page[-1].seq
    return json.dumps(texts, default=str)

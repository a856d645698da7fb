"""A process with a call that waits for an account, and a request for access under way; it ends by being killed."""

import asyncio
import sys

from tests.accounts.place import KEY, RETURN, question, whoami
from toolcrib import Crib
from toolcrib.accounts import AccountSettings


async def main(store: str, api: str) -> None:
    accounts = [AccountSettings(name="shop", resource=api)]
    async with Crib([whoami], store=store, accounts=accounts, secret_key=KEY, deps={"api": api}) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("whoami", {})
        await question(session, call.id)
        print(call.id, await crib.accounts.begin("ada", "shop", RETURN), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

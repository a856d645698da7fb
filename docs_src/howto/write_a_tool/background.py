import asyncio

from toolcrib import Context, Crib, tool


@tool(namespace="files", background=True, wake="wake", timeout=600)
async def backup(ctx: Context, folder: str) -> dict[str, str]:
    """Back up a folder; the caller does not wait for it."""
    ctx.progress("copying")
    await asyncio.sleep(0.5)
    return {"saved": folder}


async def main() -> None:
    async with Crib([backup]) as crib:
        session = await crib.open(owner="ada", namespaces=["files", "builtin"])
        answer = await session.call("backup", {"folder": "photos"})
        print(answer.data["status"])

        status = await session.call("builtin.call_status", {"id": answer.data["id"]})
        print(status.data["tool"], status.data["status"])

        result = await session.result(answer.data["id"])
        print(result.data)


asyncio.run(main())

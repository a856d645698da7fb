import asyncio

from toolcrib import Context, Crib, tool


@tool(read_only=True, timeout=10)
async def export(ctx: Context, rows: int) -> str:
    """Export some rows."""
    ctx.progress("reading", loaded=0, total=rows)
    for row in range(1, rows + 1):
        ctx.output(f"row {row}\n")
        await asyncio.sleep(0.15)
        ctx.progress("reading", loaded=row, total=rows)
    return f"{rows} rows"


async def main() -> None:
    async with Crib([export]) as crib:
        session = await crib.open("demo", owner="ada")
        call = await session.submit("export", {"rows": 2})
        async for event in session.events(call=call.id):
            print(event.seq, event.kind, short(event.fields))
        print((await session.status(call.id)).status)


def short(data: dict[str, object]) -> dict[str, object]:
    kept = ("tool", "attempt", "progress", "message", "delta", "ok", "data")
    return {name: data[name] for name in kept if name in data}


asyncio.run(main())

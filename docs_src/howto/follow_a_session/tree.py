import asyncio

from toolcrib import Context, Crib, tool


@tool
async def build(ctx: Context, parts: int) -> int:
    """Build something of parts."""
    for part in range(1, parts + 1):
        await ctx.call("make_part", {"part": part})
        ctx.progress("building", loaded=part, total=parts)
    return parts


@tool(read_only=True)
async def make_part(ctx: Context, part: int) -> str:
    """Make one part."""
    ctx.progress(f"part {part}", 1.0)
    return f"part {part}"


async def main() -> None:
    async with Crib([build, make_part]) as crib:
        session = await crib.open(owner="ada")
        await session.call("build", {"parts": 2})
        for node in await session.progress():
            depth = "  " if "parent_call_id" in node else ""
            print(f"{depth}{node['tool_name']}: {node['status']}, {node['message']}, {node['progress']}")


asyncio.run(main())

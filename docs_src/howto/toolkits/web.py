import asyncio

from toolcrib import Crib
from toolcrib.toolkits import http


async def main() -> None:
    kit = http.tools(deny_hosts=["*.ads.example"])
    async with Crib([kit], policy={"grants": {"allow": ["net:egress:*"]}}) as crib:
        session = await crib.open(owner="ada", namespaces=["http"])
        for url in ("http://169.254.169.254/latest/meta-data/", "http://2130706433/", "https://x.ads.example/"):
            print((await session.call("http_fetch", {"url": url})).text.splitlines()[0])


asyncio.run(main())

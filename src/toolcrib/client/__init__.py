"""A crib on another machine, with the names of one in the program: what it does goes over the HTTP API.

async with RemoteCrib("http://127.0.0.1:8000", key="tc_...") as crib:
    session = await crib.open("s-1", namespaces=["shop"])
    result = await session.call("shop.refund", {"order": "A-7", "cents": 500})
"""

from toolcrib.client.codec import Inbox, Listed, RemoteTool, Why
from toolcrib.client.crib import RemoteCrib
from toolcrib.client.session import RemoteSession

__all__ = ["Inbox", "Listed", "RemoteCrib", "RemoteSession", "RemoteTool", "Why"]

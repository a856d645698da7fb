"""A shop in a process of its own, and a page of a browser that looks at it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
from playwright.async_api import BrowserContext, ConsoleMessage, Locator, Page, Request, Route, expect

ROOT = Path(__file__).parents[2]
SOON_S = 60
SCREENS = (
    "overview",
    "tools",
    "live",
    "inbox",
    "sessions",
    "agents",
    "sources",
    "accounts",
    "cluster",
    "audit",
    "policy",
)
AWAY = "ERR_(CONNECTION_REFUSED|CONNECTION_RESET|INCOMPLETE_CHUNKED_ENCODING|CONTENT_LENGTH_MISMATCH|EMPTY_RESPONSE)"
UNKNOWN = r"status of 401"
REFUSED = r"status of 40[0349]"
UNFOUND = r"status of 404"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Shop:
    """A served crib. It can be ended in any way and comes back at the same place."""

    def __init__(self, store: Path | str, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        place = f"sqlite:///{store}/shop.db" if isinstance(store, Path) else store
        self._argv = [sys.executable, "-m", "tests.console.shop", str(self.port), place, *options]
        self._process: subprocess.Popen[str] | None = None
        self.http = httpx.Client(base_url=f"{self.url}/v1", timeout=SOON_S)

    def start(self) -> None:
        self._process = subprocess.Popen(self._argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def servers(self) -> list[psutil.Process]:
        """The processes that it started."""
        assert self._process is not None
        found: list[psutil.Process] = psutil.Process(self._process.pid).children()
        return found

    def kill(self) -> None:
        """Ends it as a crash would."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(SOON_S)
        self._process.stdout.close()

    def close(self) -> None:
        self.kill()
        self.http.close()

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        answer = self.http.request(method, path, json=body, params=query)
        assert answer.is_success, (answer.status_code, answer.text)
        return answer.json()

    def call(self, session: str, tool: str, args: Any = None, wait: float | bool = True) -> Any:
        """The result of a call, or the call where nobody waits for it."""
        self.ask("POST", "/sessions", {"id": session})
        return self.ask("POST", f"/sessions/{session}/calls", {"tool": tool, "args": args or {}, "wait": wait})

    def begin(self, session: str, tool: str, args: Any = None, state: str = "running") -> str:
        """A call that has come so far."""
        id: str = self.call(session, tool, args, wait=False)["id"]
        path = f"/sessions/{session}/events"
        kinds = {"running": "started", "waiting": "waiting", "done": "done"}
        with self.http.stream("GET", path, params={"call": id, "follow": True}) as answer:
            assert any(line == f"event: {kinds[state]}" for line in answer.iter_lines())
        return id


@contextmanager
def shop_at(store: Path | str, *options: str) -> Iterator[Shop]:
    """A shop that keeps its log in a folder, or in a store."""
    shop = Shop(store, *options)
    shop.start()
    try:
        yield shop
    finally:
        shop.close()


class Visit:
    """A page, and all that a browser complains of while it is open. `expected` is what it may complain of.

    `others` are addresses beside the server's own that it may go to.
    """

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.strange: list[str] = []
        self.expected = ""
        self.others: tuple[str, ...] = ()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    async def guard(self, context: BrowserContext) -> None:
        """Lets no request out but to the server."""

        async def look(route: Route, request: Request) -> None:
            if request.url.startswith((f"{self.url}/", "blob:", "data:", *self.others)):
                await route.continue_()
            else:
                self.strange.append(request.url)
                await route.abort()

        await context.route("**/*", look)

    def check(self) -> None:
        """Nothing was complained of, and nobody else was asked for anything."""
        assert self.strange == []
        heard = [one for one in self.complaints if not (self.expected and re.search(self.expected, one))]
        assert not heard, heard

    async def go(self, *parts: str) -> None:
        """Goes to a screen, and waits until it is there."""
        await self.page.goto(f"{self.url}/#/{'/'.join(parts)}")
        await expect(self.page.get_by_role("main")).to_be_visible()

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    def call(self, name: str) -> Locator:
        """The card of a call, by its tool and how it stands."""
        return self.page.get_by_role("article", name=name, exact=True)

    def text(self, text: str) -> Locator:
        return self.page.get_by_text(text)

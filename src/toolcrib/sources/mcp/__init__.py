"""Tools of MCP servers: `Mcp` is the source of them, `McpClient` what talks to one.

A server's tools are tools like any other, under the name that the program gives to the server. What a server says of
them is a hint from a stranger: it counts only where the configuration trusts that server. The SDK is imported when the
first server is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolcrib.errors import BadTool, ToolcribError, ToolFailure
from toolcrib.findings import Finding
from toolcrib.sources import Health, Source, left_out
from toolcrib.sources.mcp.account import NOBODY, AccountBinding
from toolcrib.sources.mcp.owner_lists import OwnerLists
from toolcrib.sources.mcp.request_tools import request_tools
from toolcrib.sources.mcp.results import OfferedTool, ServerDescription
from toolcrib.sources.mcp.sampler import Sampler
from toolcrib.sources.mcp.server import McpClient
from toolcrib.sources.mcp.settings import McpClientSettings, is_address, legal, name_of
from toolcrib.sources.mcp.skill_tool import skill_tool
from toolcrib.sources.mcp.tool_list import describe
from toolcrib.tool import Tool
from toolcrib.types import Limits, Result

__all__ = ["Mcp", "McpClient", "McpClientSettings", "OfferedTool", "Sampler", "ServerDescription", "as_tool"]

RETRY_S = 5.0

log = logging.getLogger("toolcrib.mcp")


class Mcp(Source):
    """The tools of one MCP server: `Mcp("npx", "-y", "some-server")`, or `Mcp("https://host/mcp")`.

    `name` is the namespace of its tools; without one it is made of the command or the address, never of what the server
    calls itself. `trusted` says that what the server tells of its tools is true. `limits` are those of each tool,
    `repeat` among them, the breaker; `timeout` is short for `timeout_s` there. A crib waits for a `required` server,
    and does not start without it; for any other it does not wait long. With an `account` each owner connects their own:
    one of the crib by its name, or one that is described here, named like the server unless said. The rest stands in
    `McpClientSettings`.
    """

    def __init__(
        self,
        *command: str,
        name: str | None = None,
        trusted: bool = False,
        timeout: float | None = None,
        required: bool = False,
        limits: Limits | None = None,
        account: bool | str | Mapping[str, Any] = False,
        **settings: Any,
    ) -> None:
        if not command:
            raise BadTool(name or "?", "mcp", "say the command of the server, or its address", name)
        self.name = name_of(command) if name is None else legal(name)
        self.pinned = True  # what it says may be something else tomorrow
        self.namespaces = (self.name,)  # which may be opened also while the server is away
        self.trusted = trusted
        self.required = required
        self.background = not required
        self._limits = limits or Limits()
        if timeout is not None:
            self._limits = replace(self._limits, timeout_s=timeout)
        url = command[0] if is_address(command[0]) and len(command) == 1 else None
        at: dict[str, Any] = {"command": command} if url is None else {"url": url}
        _check_kind(self.name, url, settings)
        self.account = _account(account, self.name, url)
        binding = None if self.account is None else AccountBinding(self.account["name"])
        self._binding = binding
        at |= {} if binding is None else {"auth": binding.auth}
        self.server = McpClient(McpClientSettings(name=self.name, **at, **settings), account=binding)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._changed: Callable[[Iterable[Tool]], None] | None = None
        self._newest: list[OfferedTool] | None = None
        self._left_out: tuple[str, ...] = ()
        self._skills: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self._owner_lists = OwnerLists(self._list_for)
        self._made_of: dict[str, list[tuple[OfferedTool, Tool]]] = {}

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Its tools now. Where the server cannot be asked, it is tried again later, and the crib starts without it.

        Raises:
            ToolcribError: it is required, and cannot be asked.
        """
        self.server.changed = self._note_change
        self.server.skills_changed = self._note_skills
        try:
            tools = await self._current()
        except ToolFailure as error:
            if self.required:
                raise ToolcribError(f"A required MCP server is missing: {error.message}") from None
            log.warning("%s", error.message)
            tools = []
            self._tasks["retry"] = asyncio.create_task(self._retry(changed))
        if (wanted := await self.wanted_account()) is not None:
            log.warning(
                "%s shows its tools to whoever has connected an account: `toolcrib connect %s`", self.name, wanted
            )
        self._changed = changed
        if self._newest is not None:  # it changed while the first were made
            self._note_change(self._newest)
        return tools

    async def findings(self) -> Sequence[Finding]:
        """Return that the program of the server is not there to be started, and which of its tools are not taken."""
        settings = self.server.settings
        program = settings.command[0] if settings.command else None
        if program is None or _is_program(program, settings):
            return left_out(self, (*self.server.left_out, *self._left_out))
        message = f"{self.name}: there is no program {program}"
        return [Finding("NO_PROGRAM", "warning", message, "config", setting=("mcp",))]

    async def wanted_account(self) -> str | None:
        """The account that somebody has to connect before the server shows its tools; None where that is not why."""
        return self._binding.name if self._binding is not None and await self._binding.vacant() else None

    def use_accounts(self, accounts: Any) -> None:
        """Take the accounts of a crib; what an owner is shown is listed anew when they have connected theirs."""
        assert self._binding is not None
        self._binding.use(accounts)
        accounts.listen(self._connected)

    async def _connected(self, account: str, owner: str) -> None:
        """Has the tools listed at once that an owner waits for."""
        if self.account is not None and account == self.account["name"]:
            self.server.forget_connections(owner)
            self._owner_lists.renew(owner)

    def prepare(self, owner: str) -> asyncio.Future[None] | None:
        """Begin to list what the server has for an owner with credentials, where that is not known."""
        settings = self.server.settings
        alike = self._binding is not None and not self._binding.personal
        if (
            self._changed is None
            or not settings.personal
            or alike
            or (settings.tokens and owner not in settings.tokens)
        ):
            return None
        return self._owner_lists.want(owner)

    async def _list_for(self, owner: str) -> float | None:
        """Lists what the server has for an owner; until when that holds, None where they have not connected.

        Raises:
            ToolFailure: the server cannot be asked, or refuses.
        """
        if self._binding is not None and await self._binding.token(owner) is None:
            return None
        until = await self.server.list_for(owner)
        if "skills" in self.server.features:
            await self._list_skills(owner)
            self._note_change(await self.server.tools())
        await self._renewed()
        return until

    async def _renewed(self) -> None:
        """Returns when the tools that are known are in the catalog."""
        if (renewing := self._tasks.get("renew")) is not None:
            await asyncio.wait({renewing})

    async def _list_now(self) -> None:
        """Lists the tools for somebody who waits for them."""
        tools = await self._current()
        if self._changed is not None:
            self._changed(tools)

    async def _current(self) -> list[Tool]:
        offered = await self.server.tools()
        await self._list_skills()
        return await asyncio.to_thread(self._made, offered)

    async def _list_skills(self, owner: str = "") -> None:
        """Has the skills at hand that its tool lists; those of before where the server does not say."""
        if "skills" not in self.server.features:
            self._skills.clear()
        if "skills" not in self.server.features or (self.server.each_owner and not owner):
            return
        try:
            self._skills[owner] = (await self.server.offers(owner or None)).skills
        except ToolFailure as error:
            log.info("the skills of %s could not be listed: %s", self.name, error.message)

    def _note_skills(self) -> None:
        """Has the tool for skills made anew beside all else, where they may have changed."""
        if "skills" in self.server.features and self._changed is not None and _is_over(self._tasks.get("skills")):
            self._tasks["skills"] = asyncio.create_task(self._renew_skills())

    async def _renew_skills(self) -> None:
        try:
            await self._list_now()
        except (ToolFailure, ToolcribError) as error:
            log.info("the skills of %s could not be listed again: %s", self.name, error)

    async def _retry(self, changed: Callable[[Iterable[Tool]], None]) -> None:
        while True:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), RETRY_S)
            try:
                changed(await self._current())
                return
            except (ToolFailure, ToolcribError) as error:
                log.info("%s", error)

    def freshen(self) -> None:
        """Has the tools listed anew beside all else, if the last listing is too old; somebody looks at them."""
        if self.server.stale and self._changed is not None and _is_over(self._tasks.get("freshen")):
            self._tasks["freshen"] = asyncio.create_task(self._freshen())

    async def _freshen(self) -> None:
        try:
            await self.server.refresh()
        except ToolFailure as error:
            log.info("the tools of %s could not be listed again: %s", self.name, error.message)
            await asyncio.sleep(RETRY_S)

    async def refresh(self) -> None:
        """Lists the tools anew.

        Raises:
            ToolFailure: `unavailable`, the server cannot be asked.
        """
        await self.server.refresh()
        self._owner_lists.outdate()
        if "skills" in self.server.features:
            await self._list_now()
        await self._renewed()

    async def restart(self) -> None:
        """Ends all its processes and connections, and lists the tools by a new one.

        Raises:
            ToolFailure: `unavailable`, the server cannot be started.
        """
        await self.server.restart()
        self._owner_lists.outdate()

    def _note_change(self, offered: list[OfferedTool]) -> None:
        """Has the newest tools made beside all else, one time after the other."""
        self._newest = offered
        if self._changed is not None and _is_over(self._tasks.get("renew")):
            self._tasks["renew"] = asyncio.create_task(self._renew(self._changed))

    async def _renew(self, changed: Callable[[Iterable[Tool]], None]) -> None:
        while self._newest is not None:
            offered, self._newest = self._newest, None
            await self._list_skills()
            tools = await asyncio.to_thread(self._made, offered)
            try:
                changed(tools)
            except Exception as error:  # noqa: BLE001 - what others make of the news must not end this
                log.warning("the tools of %s changed and could not be taken: %s", self.name, error)

    def health_of(self, tool: Tool | None) -> Health:
        """How the server is; without a tool also whether some of its tools are left out, and why."""
        health = self.server.health()
        reasons = (*self.server.left_out, *self._left_out)
        if tool is None and reasons and health.status == "ok":
            return Health("degraded", describe(reasons))
        return health

    async def stop(self) -> None:
        """Stops the server."""
        tasks, self._tasks, self._changed, self._newest = list(self._tasks.values()), {}, None, None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._owner_lists.stop()
        self._skills.clear()
        await self.server.close()

    def _made(self, tools: Iterable[OfferedTool]) -> list[Tool]:
        """A tool that does not hold is left out, and the others stay. This takes a while: it runs in a thread."""
        made: dict[tuple[str, frozenset[str] | None], Tool] = {}
        left_out = []
        made_of, self._made_of = self._made_of, {}
        for one in tools:
            try:
                known = next((tool for before, tool in made_of.get(one.name, ()) if before == one), None)
                tool = known or as_tool(self.server, one, trusted=self.trusted, limits=self._limits)
                made[tool.id, tool.owners] = tool
                self._made_of.setdefault(one.name, []).append((one, tool))
            except BadTool as error:
                log.warning("%s", error)
                left_out.append(f"{one.legal_name}: {error.field}: {error.problem}")
        self._left_out = tuple(left_out)
        taken = {id for id, _ in made}
        more = (tool for tool in self._more(list(made.values())) if tool.id not in taken)
        stand_ins = self._stand_ins(made.values()) if self.server.each_owner else ()
        return [*made.values(), *more, *stand_ins]

    def _more(self, tools: Sequence[Tool]) -> Iterator[Tool]:
        """What stands beside the tools of the server: those for skills and for requests, and to connect an account."""
        for owner, skills in list(self._skills.items()):
            tool = skill_tool(self.server, skills, trusted=self.trusted, limits=self._limits)
            if tool is not None:
                yield replace(tool, owners=frozenset({owner})) if self.server.settings.personal else tool
        yield from request_tools(self.server, trusted=self.trusted, limits=self._limits)
        if self._binding is not None and self.server.each_owner:
            connect = self._binding.connect_tool(self.name, self._list_for)
            yield connect
            owners = frozenset[str]().union(*(tool.owners or () for tool in tools))
            yield replace(connect, owners=owners, metadata={**connect.metadata, "listed": False})

    def _stand_ins(self, tools: Iterable[Tool]) -> Iterator[Tool]:
        """For owners without an account: what asks them to connect it, when they call a tool whose name they know."""
        listed = {tool.name for tool in tools if "" in (tool.owners or ())}
        names = {str(tool.metadata["mcp"]["tool"]) for tool in tools if tool.name not in listed}
        for name in sorted(names):
            known = OfferedTool(name, "Connect your account to use it.", input_schema={"type": "object"}, owners=NOBODY)
            tool = as_tool(self.server, known, trusted=self.trusted, limits=self._limits)
            yield replace(tool, metadata={**tool.metadata, "listed": False})

    @property
    def prefix(self) -> str | None:
        """What the names of its tools and prompts begin with for clients, if that is not its own name."""
        return self.server.settings.prefix

    def shown_name(self, name: str) -> str:
        """What clients of the crib call a prompt of the server."""
        return f"{self.name}__{name}" if self.prefix is None else f"{self.prefix}{name}"


def _check_kind(name: str, url: str | None, settings: Mapping[str, Any]) -> None:
    """Refuses settings that only the other kind of server has, and that would do nothing."""
    kinds = {"headers": "only a server at an address takes headers; a program takes `env`"}
    if url is not None:
        kinds = {key: f"only a program takes {key}; a server at an address takes `headers`" for key in ("env", "cwd")}
    for key, problem in kinds.items():
        if settings.get(key):
            raise BadTool(name, key, problem, name)


def _is_program(name: str, settings: McpClientSettings) -> bool:
    """True if it can be started: it is on the path of the server, or the path of a program, seen from its folder."""
    place = str(Path(settings.cwd or "").absolute() / name) if os.sep in name else name
    return shutil.which(place, path=settings.env.get("PATH") or None) is not None


def _account(account: bool | str | Mapping[str, Any], name: str, url: str | None) -> dict[str, Any] | None:
    """The account of a server, as its settings; its resource is the server itself.

    Raises:
        BadTool: the server is a program, which is given its credentials by `env`.
    """
    if account is False:
        return None
    if url is None:
        raise BadTool(name, "account", "only a server at an address can be used with one; a program takes `env`", name)
    settings = {"name": account} if isinstance(account, str) else {} if account is True else dict(account)
    return {"name": name, "resource": url, **settings}


def _is_over(task: asyncio.Task[None] | None) -> bool:
    return task is None or task.done()


def as_tool(server: McpClient, offered: OfferedTool, *, trusted: bool = False, limits: Limits | None = None) -> Tool:
    """A tool of a server as a tool of a crib. Until the server is trusted, each of its tools acts `once`.

    Raises:
        BadTool: its name or a schema does not hold.
    """

    async def run(ctx: Any, values: Mapping[str, Any]) -> Result:
        return await server.call(offered.name, values, ctx, repeatable=tool.does != "once")

    async def reconcile(ctx: Any, **values: Any) -> Result | None:
        return await server.reconcile(ctx)

    name = legal(server.settings.name)
    prefix = server.settings.prefix
    tool: Tool = Tool(
        name=offered.legal_name,
        namespace=name,
        title=offered.title,
        description=offered.description.strip() or offered.title or offered.name,
        input_schema=offered.input_schema,
        output_schema=offered.output_schema,
        annotations=offered.annotations,
        effect=None if trusted else "once",
        limits=limits or Limits(),
        metadata={"mcp": {"server": name, "tool": offered.name, **offered.shown}}
        | ({} if prefix is None else {"prefix": prefix}),
        run=run,
        reconcile=reconcile,
        upstream=name,
        owners=offered.owners,
        source=name,
        trusted=trusted,
    )
    return tool

"""The account that a server is used with: each owner's own, whose tokens a crib keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.context import Context
from toolcrib.errors import StreamClosed, ToolFailure
from toolcrib.sources.functions import as_tool
from toolcrib.tool import Tool

if TYPE_CHECKING:
    import httpx2

NOBODY = frozenset({""})
"""The owners of a tool for whoever has no other tools of its source."""


class OwnerAccounts(Protocol):
    """The accounts of a crib, as far as a source needs them."""

    def named(self, name: str) -> Any:
        """The settings of an account."""

    async def token(self, owner: str, name: str, refused: str | None = None) -> Any:
        """What an owner uses an account with; None where they have to connect it."""

    async def connected(self, owner: str | None = None) -> list[Any]:
        """The accounts that were connected."""

    async def fits(self, owner: str, name: str, scope: str | None = None) -> bool:
        """Whether an owner has connected an account, with these scopes."""

    def challenged(self, name: str, header: str) -> str | None:
        """Keeps in mind what a service said to somebody it did not let in; the scopes that it lacked."""


class AccountBinding:
    """One account for one server. `wanted` are scopes that an owner lacked at their last request."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wanted: dict[str, str] = {}
        self._accounts: OwnerAccounts | None = None

    def use(self, accounts: OwnerAccounts) -> None:
        """Take the accounts of a crib."""
        self._accounts = accounts

    @property
    def personal(self) -> bool:
        """True if each owner connects their own; that of a machine is the same for all."""
        return self._accounts is not None and bool(self._accounts.named(self.name).personal)

    def auth(self, owner: str) -> httpx2.Auth:
        """What goes with the requests of an owner; with nobody's goes what a machine has."""
        from toolcrib.sources.mcp.account_auth import AccountAuth

        return AccountAuth(self, owner)

    async def token(self, owner: str, refused: str | None = None) -> Any:
        """What requests of an owner are made with; None where they have to connect the account.

        Raises:
            ToolFailure: the server of the account does not answer.
        """
        assert self._accounts is not None, "a source with an account belongs into a crib"
        if not owner and self.personal:
            return None
        return await self._accounts.token(owner, self.name, refused)

    async def demand(self, owner: str) -> None:
        """Refuse what nobody may be asked to connect an account for.

        Raises:
            ToolFailure: `denied`, the owner has not connected theirs.
        """
        if await self.token(owner) is None:
            raise ToolFailure("denied", f"{owner} has not connected the account {self.name}")

    async def vacant(self) -> bool:
        """Whether nobody has connected the account yet."""
        if self._accounts is None or not self.personal:
            return False
        return not any(one.account == self.name for one in await self._accounts.connected())

    def challenged(self, owner: str, header: str) -> None:
        """Keep in mind what the server said to a request that it did not take."""
        assert self._accounts is not None
        scope = self._accounts.challenged(self.name, header)
        if scope is not None:
            self.wanted[owner] = scope

    async def look_again(self, ctx: Context, error: ToolFailure) -> None:
        """Ask the owner of a call to connect the account, if that is why it failed."""
        if isinstance(error, StreamClosed) or error.code not in ("denied", "unavailable"):
            return
        scope = self.wanted.pop(ctx.owner, None)
        if self._accounts is not None and not await self._accounts.fits(ctx.owner, self.name, scope):
            await ctx.credential(self.name, scope=scope)

    def connect_tool(self, namespace: str, list_tools: Callable[[str], Awaitable[object]]) -> Tool:
        """A tool for owners who have not connected the account, before which nobody can know their tools."""

        async def connect(ctx: Context) -> str:
            """Connect your account. The other tools of this server are there when you have."""
            await ctx.credential(self.name)
            try:
                await list_tools(ctx.owner)
            except ToolFailure:
                if (scope := self.wanted.pop(ctx.owner, None)) is not None:
                    await ctx.credential(self.name, scope=scope)
                raise
            return "The account is connected, and the tools of the server are there."

        tool = as_tool(connect, namespace=namespace, effect="read")
        return replace(tool, source=namespace, upstream=namespace, owners=NOBODY)

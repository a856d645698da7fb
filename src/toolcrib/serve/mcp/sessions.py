"""The sessions that principals use: one for each a day and, on connections of older revisions, one for each."""

from __future__ import annotations

from toolcrib._call.request import subject_of
from toolcrib.catalog import CatalogView
from toolcrib.crib import Crib
from toolcrib.serve.api.reach import within
from toolcrib.serve.mcp.library import SOURCE, McpLibrary
from toolcrib.serve.mcp.signed_state import Signer
from toolcrib.serve.principal import Principal
from toolcrib.session import Session
from toolcrib.store import Row
from toolcrib.tool import Tool

DAY_S = 86400.0


class Visibility:
    """What all principals see for whom the same is open and the same is hidden; a name never changes its meaning."""

    def __init__(self, hidden: tuple[str, ...]) -> None:
        self.named: dict[str, Tool] = {}
        self.ids: frozenset[str] = frozenset()
        self.pages: dict[tuple[object, ...], tuple[object, bytes]] = {}
        self._hidden = frozenset(hidden)
        self._taken: dict[str, str] = {}
        self._view: CatalogView | None = None

    def hides(self, tool: Tool) -> bool:
        """True if the policy hides a tool."""
        return tool.id in self._hidden

    def look(self, view: CatalogView) -> None:
        """Takes the tools of now."""
        if view is self._view:
            return
        named = view.model_names(taken=self._taken)
        self._taken.update((name, tool.id) for name, tool in named.items())
        self.named = {
            name: tool for name, tool in named.items() if tool.source != SOURCE and tool.id not in self._hidden
        }
        self.ids = frozenset(tool.id for tool in self.named.values())
        self.pages = {}
        self._view = view


class McpSession:
    """A principal's session of one day, and what it sees there."""

    def __init__(self, session: Session, until: float, sights: dict[object, Visibility]) -> None:
        self.session = session
        self.until = until
        self._sights = sights
        self._sight = Visibility(())
        self._view: CatalogView | None = None
        self._policy: object = None

    @property
    def sight(self) -> Visibility:
        """What the principal sees now."""
        view, policy = self.session._view, self.session.policy
        if view is not self._view or policy is not self._policy:
            subject = subject_of(self.session)
            hidden = tuple(tool.id for tool in view.all if policy.hides(tool, subject))
            key = (self.session.namespaces, hidden, self.session.owner if view.own else None)
            self._sight = self._sights.setdefault(key, Visibility(hidden))
            self._view, self._policy = view, policy
        self._sight.look(view)
        return self._sight

    def shows(self, tool: Tool) -> bool:
        """True if that very tool is open here, and the policy does not hide it."""
        return self.session._sees(tool) and not self.sight.hides(tool)

    def tool(self, name: str) -> Tool | None:
        """The tool of that name or id, unless it is hidden or none."""
        sight = self.sight
        tool = sight.named.get(name)
        if tool is None:
            known = self.session.tool(name)
            tool = known if known is not None and known.id in sight.ids else None
        return tool


class McpSessions:
    """Finds the session of whoever asks, and the calls that are theirs."""

    def __init__(
        self, crib: Crib, seal: Signer, library: McpLibrary | None, namespaces: tuple[str, ...] | None
    ) -> None:
        self._crib = crib
        self._clock = crib.pipeline.clock
        self._seal = seal
        self._more = () if library is None else library.namespaces
        self._namespaces = namespaces
        self._sessions: dict[Principal, McpSession] = {}
        self._sights: dict[object, Visibility] = {}

    async def of(self, principal: Principal) -> McpSession:
        """What a principal can see, and the session that it uses today."""
        mcp_session = self.known(principal)
        if mcp_session is None:
            now = self._clock.now()
            self._sweep(now)
            day = int(now // DAY_S)
            place = self._seal.place(principal.name, *(principal.namespaces or ()))
            session = await self._open(f"mcp-{place}-{day}", principal)
            mcp_session = self._sessions[principal] = McpSession(session, (day + 1) * DAY_S, self._sights)
        return mcp_session

    def _sweep(self, now: float) -> None:
        """Lets go of what belongs to days before; a session where something still runs stays until it is through."""
        for principal, mcp_session in list(self._sessions.items()):
            if now >= mcp_session.until and not mcp_session.session.live:
                del self._sessions[principal]
                self._crib._session_table.forget(mcp_session.session)

    def known(self, principal: Principal) -> McpSession | None:
        """The same, where it was opened today already."""
        mcp_session = self._sessions.get(principal)
        if mcp_session is None or self._clock.now() >= mcp_session.until or mcp_session.session._left_by_owner:
            return None
        return mcp_session

    async def session(self, principal: Principal, connection: str) -> Session:
        """The session of a connection, opened when it is first used."""
        session = self._crib._session_table.at_hand(connection)
        return await self._open(connection, principal) if session is None or session._left_by_owner else session

    async def _open(self, id: str, principal: Principal) -> Session:
        return await self._crib.open(id, owner=principal.name, namespaces=self._opened(principal))

    def _opened(self, principal: Principal) -> list[str]:
        """The namespaces that are open to a principal; one whose key opens none has only what everybody has here."""
        namespaces = self._namespaces or self._crib.default_namespaces
        if principal.namespaces is not None:
            namespaces = principal.namespaces
        return [*namespaces, *(name for name in self._more if name not in namespaces)]

    def owns(self, session: Session, principal: Principal) -> bool:
        """True if a session is this principal's, and no more was open in it than their key opens."""
        bounded = principal.namespaces is not None
        return session.owner == principal.name and (not bounded or within(session.reach, self._opened(principal)))

    async def task(self, task: str, principal: Principal) -> tuple[Session, Row] | None:
        """The call that a task of this principal is; somebody else's is as unknown as one that never was."""
        call = self._seal.named(task, principal.name)
        row = None if call is None else await self._crib.store.call(call)
        session = None if row is None else await self._crib._session_table.attached(row.session)
        if row is None or session is None or not self.owns(session, principal):
            return None
        return session, row

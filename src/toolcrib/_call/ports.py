"""What calls and the parts of a session need of `Session`, `Crib` and `Agents`, which stand above them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from toolcrib.catalog import Catalog, CatalogView
from toolcrib.events import Event, EventData, StateRecord
from toolcrib.findings import Finding
from toolcrib.keywords import AnswerKeywords
from toolcrib.policy import Policy
from toolcrib.state import Key, Mode, State
from toolcrib.store import Row, SessionRow, Store
from toolcrib.tool import Tool
from toolcrib.types import Answer, Question, Result, Schedule

if TYPE_CHECKING:
    from toolcrib._call.call_facts import Caller
    from toolcrib._call.clearances import Clearance
    from toolcrib._call.history import History
    from toolcrib._call.host import CallHost
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.pipeline import Pipeline
    from toolcrib._call.remote import RemoteResults
    from toolcrib._call.request import CallOptions, CallRequest, Origin
    from toolcrib.catalog.registry import SourceRegistry


class SessionPort(Protocol):
    """A session as its calls see it."""

    id: str
    owner: str
    user: Mapping[str, Any]
    namespaces: tuple[str, ...]
    grants: tuple[Any, ...]
    offers: tuple[str, ...]
    ceiling: tuple[str, ...] | None
    opened: Mapping[str, Tool]
    clearances: dict[str, Clearance]
    pipeline: Pipeline
    state: State
    live: dict[str, LiveCall]
    running: int
    closing: bool
    shut: bool
    moved: int
    news: int
    known: int
    looked_for: str
    judge: Policy | None
    loops: Any
    origin_log: Any

    @property
    def crib(self) -> CribPort:
        """The crib that it belongs to."""

    @property
    def policy(self) -> Policy:
        """What judges its calls."""

    @property
    def folders(self) -> Any:
        """Where the paths of its calls start."""

    @property
    def _view(self) -> CatalogView:
        """The tools it may use, as of now."""

    @property
    def _awaited(self) -> RemoteResults:
        """The ends of calls that others may run."""

    @property
    def _lock(self) -> asyncio.Lock:
        """Held while what belongs to the session itself is changed or looked up."""

    def tools(self) -> list[Tool]:
        """The tools it may use, sorted by id."""

    def tool(self, name: str) -> Tool | None:
        """The tool of that name."""

    def _sees(self, tool: Tool) -> bool:
        """True if that very tool is open to it."""

    async def _history(self, row: Row, until: int | None = None) -> History:
        """What the log says of one call."""

    async def result(self, call: str) -> Result:
        """The result of a call, once it is done."""

    async def questions(self) -> list[Question]:
        """What is open, in order of acceptance."""

    async def answer(self, question: str, action: str, value: Any = None, **more: Unpack[AnswerKeywords]) -> Answer:
        """Answers a question."""

    def events(self, after: int = 0, call: str | None = None, *, follow: bool = True) -> AsyncIterator[Event]:
        """Replays its log, then follows it."""

    def _request(
        self,
        tool: str,
        args: Any,
        options: Mapping[str, Any] | CallOptions = ...,
        *,
        id: str | None = None,
        origin: Origin = ...,
    ) -> CallRequest:
        """A call that nobody has looked at yet."""

    async def _accept(self, request: CallRequest, caller: Caller = ...) -> LiveCall:
        """Takes a call."""

    async def _row(self, call: str) -> Row:
        """The index row of one of its calls."""

    async def _log(self, data: EventData) -> None:
        """Appends an event that concerns the session itself."""

    async def _elsewhere(self) -> list[Row]:
        """Its calls that wait for somebody, and those that are not run by this process."""

    async def _call_child(self, parent: CallHost, tool: str, args: Any) -> Result:
        """A call made by another call."""

    async def _schedule_for(self, maker: LiveCall, wanted: Schedule, key: str) -> str:
        """A call that another call wants to be made later."""

    async def _trace_origins(self, instructions: str | None = None) -> None:
        """Takes in where values come from."""

    async def _reload_state(self) -> None:
        """Takes from the log what others changed."""

    def _changed_state(self, commit: StateRecord, call: str) -> None:
        """Applies what was just committed."""

    def _remember_outcome(self, live: LiveCall, outcome: Result) -> None:
        """Counts calls that come again with the same outcome."""

    def _calls_in_turn(self, turn: str) -> int:
        """How many calls that model turn has made, this one included."""

    def _approved(self, offer: str) -> None:
        """A person allowed more calls like one."""


class SessionTablePort(Protocol):
    """The sessions in the memory of a crib, and those that are made from their logs."""

    def at_hand(self, id: str) -> Any:
        """The session of that id, if it is in memory."""

    async def attached(self, id: str) -> SessionPort | None:
        """The session of that id: the open one, else one made from its log."""

    async def attach(self, row: SessionRow) -> Any:
        """The session of that row, from memory or else made from its log."""

    async def refresh(self, session: Any, revision: int) -> None:
        """Takes in what others did to a session since it was last looked at."""

    async def renew(self, session: Any) -> None:
        """Takes in what others did to a session up to now."""

    def changed_elsewhere(self, id: str) -> None:
        """Another node changed what belongs to a session itself."""


class CribPort(Protocol):
    """A crib as sessions and engines see it."""

    store: Store
    catalog: Catalog
    pipeline: Pipeline
    registry: SourceRegistry
    state_keys: dict[str, Mode | Key]
    ending: bool
    recovering: set[str]
    watched: set[str]
    moved: Callable[[], int] | None
    rescue: Any

    @property
    def _session_table(self) -> SessionTablePort:
        """Its sessions."""

    @property
    def agents(self) -> AgentRunner | None:
        """Its agents, where it has some."""

    def _let_go(self, id: str) -> None:
        """The session of that id is not in the store any more."""

    async def _look_for_expiry(self) -> None:
        """Looks when the next call that waits expires."""

    async def _expire(self) -> None:
        """Ends what has expired."""

    async def sweep(self, *, dry_run: bool = False) -> int:
        """Deletes sessions that were not used for the retention time; how many."""

    async def _sweep_sometimes(self) -> None:
        """Sweeps old sessions, unless that was done lately."""

    def share(self) -> None:
        """Has owners share the seats."""


class AgentScope(Protocol):
    """What the run of an agent gives to its calls: its tools, what judges them, and who called whom."""

    @property
    def policy(self) -> Policy:
        """What judges a call: the session's policy, narrowed by the agent's."""

    @property
    def instructions(self) -> str:
        """What the agent was told by whoever wrote it."""

    def tool(self, request: Any) -> Tool | None:
        """The tool that the name of a call means here."""

    def sees(self, tool: Tool) -> bool:
        """True if that very tool is open to the agent."""

    def names(self) -> list[str]:
        """The names that could have been meant."""

    def path(self) -> list[str]:
        """The agents from the top down to the one that called."""

    def run(self, call: Any) -> Any:
        """The run as a tool sees it."""

    def finished(self, call: Any, result: Result) -> Result:
        """The result of one of its calls, as it counts for the run."""


class AgentRunner(Protocol):
    """What runs agents over the sessions of a crib."""

    def scope(self, call: Any) -> AgentScope | None:
        """What the run of a call gives to it."""

    def policy_of(self, session: Any, agent: str) -> Policy:
        """What judges the calls of an agent in a session."""

    def news(self, session: Any, call: Any = None) -> None:
        """Something happened that a run may have waited for: a call ended or was answered, a session was opened."""

    @property
    def registry(self) -> Iterable[str]:
        """The names of its agents."""

    def findings(self, tools: Iterable[Tool]) -> list[Finding]:
        """What is wrong with its agents, held against the tools that there are."""

    def built_in(self) -> Mapping[str, Tool]:
        """The tools that are built into agents, by id."""

    def start(self, crib: Any) -> None:
        """A crib has started: what dead processes left of its runs is taken up, now and later."""

    def take_over(self, other: Any) -> None:
        """Goes on with the definitions and models of other agents; runs keep what they began with."""

    async def load(self, session: Any) -> None:
        """Takes in what the log of a session says of its runs."""

    def driver(self, session: Any) -> Any:
        """Returns what drives the runs of a session, and takes messages to it."""

    def halt(self, session: Any) -> Awaitable[None]:
        """Stops the model of the run that is being interrupted; the end of the run can be awaited."""

    def leave(self, session: Any) -> None:
        """A session is being closed: what its run has left to do is done when it is opened again."""

    async def stop(self) -> None:
        """Lets go of all runs, without a word in the log."""

    async def close(self) -> None:
        """Lets go of all else, when nothing runs any more."""

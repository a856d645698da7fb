"""Events of sessions, and of what a crib writes down for itself."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from toolcrib.events.values import EventData, Number
from toolcrib.types import Failure


class Opened(EventData, frozen=True):
    """The session was opened.

    Attributes:
        owner: Who it belongs to.
        namespaces: Namespaces whose tools it may use.
        tools: Ids of these tools.
        restored: Whether it existed before.
        grants: Rights that it was opened with.
    """

    kind: ClassVar[str] = "opened"

    owner: str
    namespaces: tuple[str, ...]
    tools: list[str]
    restored: bool
    grants: list[Any] | None = None


class NamespacesChanged(EventData, frozen=True):
    """The session may use other tools from now on.

    Attributes:
        namespaces: Namespaces whose tools it may use.
        tools: Ids of these tools.
        narrowed: Whether rights were taken away, which only a caller who may open everything gives back.
        widened: Whether such a caller gave them back.
        grants: All grants that narrow it.
    """

    kind: ClassVar[str] = "namespaces"

    namespaces: tuple[str, ...]
    tools: list[str]
    narrowed: bool = False
    widened: bool = False
    grants: list[Any] | None = None


class ToolsChanged(EventData, frozen=True):
    """The tools of the session changed.

    Attributes:
        tools: Ids of the tools that it may use.
        client: Definitions of the tools that its client runs, where those changed.
    """

    kind: ClassVar[str] = "tools_changed"

    tools: list[str]
    client: list[dict[str, Any]] | None = None


class UserState(EventData, frozen=True):
    """What the client says of its user. The data of the event is `values` itself.

    Attributes:
        values: What `set_user` was given.
    """

    kind: ClassVar[str] = "user_state"

    values: dict[str, Any]


class Notice(EventData, frozen=True):
    """A line for people; the model does not read it. In the data of the event `more` stands beside `text`.

    Attributes:
        text: The line.
        more: Whatever was said with it.
    """

    kind: ClassVar[str] = "notice"

    text: str = ""
    more: dict[str, Any] = field(default_factory=dict)


class ErrorNotice(EventData, frozen=True):
    """A line for people and for the model. In the data of the event `more` stands beside `text`.

    Attributes:
        text: The line.
        more: Whatever was said with it.
    """

    kind: ClassVar[str] = "error"

    text: str = ""
    more: dict[str, Any] = field(default_factory=dict)


class InputGiven(EventData, frozen=True):
    """An MCP client answered one of several requests that a question holds.

    Attributes:
        question: Id of the question.
        name: Name of the request within the question.
        response: What the client answered.
        actor: Who answered.
    """

    kind: ClassVar[str] = "input"

    question: str
    name: str
    response: Any
    actor: str


class RunEnded(EventData, frozen=True):
    """What lived in the state for a run is gone.

    Attributes:
        run: Id of the run.
    """

    kind: ClassVar[str] = "run_ended"

    run: str


class Approved(EventData, frozen=True):
    """A person allowed more calls like one for the whole session.

    Attributes:
        offer: Rule that was added.
        actor: Who allowed it.
        question: Id of the question that was answered so.
    """

    kind: ClassVar[str] = "approved"

    offer: str
    actor: str
    question: str


class Interrupted(EventData, frozen=True):
    """The calls and the run in the foreground were stopped.

    Attributes:
        background: Whether calls in the background were stopped too.
    """

    kind: ClassVar[str] = "interrupted"

    background: bool


class StopWanted(EventData, frozen=True):
    """Another process that runs a call is asked to stop it.

    Attributes:
        call: Id of the call.
        failure: How the call is to end.
    """

    kind: ClassVar[str] = "stop_wanted"

    call: str
    failure: Failure


class SessionClosing(EventData, frozen=True):
    """A logout began.

    Attributes:
        timeout_s: Seconds after which what still runs is ended.
    """

    kind: ClassVar[str] = "closing"

    timeout_s: Number


class SessionClosed(EventData, frozen=True):
    """A logout is over.

    Attributes:
        finished: Calls that ended meanwhile.
        timed_out: Calls that were ended.
        waiting: Calls that wait for somebody.
        undelivered: Results that the model has not read.
    """

    kind: ClassVar[str] = "closed"

    finished: int
    timed_out: int
    waiting: int
    undelivered: int


class ToolPinned(EventData, frozen=True):
    """What a tool of a stranger looks like; in the session `toolcrib.pins`.

    Attributes:
        tool: Id of the tool.
        parts: Digest of each part.
        by: Who accepted it; absent where it was seen for the first time.
        owner: To whom it was shown, where its server lists tools for each owner.
    """

    kind: ClassVar[str] = "pinned"

    tool: str
    parts: dict[str, str]
    by: str | None = None
    owner: str | None = None


class StateKeysDeclared(EventData, frozen=True):
    """What a process declared of state keys when it started; in the session `toolcrib.state`.

    Attributes:
        worker: Name of the process.
        keys: How each key may be changed.
        secrets: Numbers of its keys for secret arguments, where it was given some; the first encrypts.
    """

    kind: ClassVar[str] = "state_keys"

    worker: str
    keys: dict[str, Any]
    secrets: list[str] = field(default_factory=list)


class SessionDeleted(EventData, frozen=True):
    """What is left of a session that was deleted; in the session `toolcrib.deleted`.

    Attributes:
        session: Id of the session.
        owner: Who it belonged to.
        actor: Who deleted it.
        at: When, in seconds since 1970.
        events: How many events it had.
        calls: How many calls it had.
        sha256: Digest of its log.
        namespaces: All namespaces that were ever open in it.
    """

    kind: ClassVar[str] = "deleted"

    session: str
    owner: str
    actor: str
    at: Number
    events: int
    calls: int
    sha256: str
    namespaces: tuple[str, ...] | None = None


class KeyAdded(EventData, frozen=True):
    """An API key was made; in the session `toolcrib.keys`.

    Attributes:
        id: Id of the key.
        digest: Digest of the key, which itself is kept nowhere.
        owner: Whose sessions it opens.
        by: Who made it.
        name: Name for people.
        scopes: What it may be used for.
        expires_at: When it expires, in seconds since 1970.
        namespaces: Namespaces that it opens; null for all.
    """

    kind: ClassVar[str] = "key_added"

    id: str
    digest: str
    owner: str
    by: str
    name: str
    scopes: tuple[str, ...]
    expires_at: Number | None
    namespaces: tuple[str, ...] | None


class KeyUsed(EventData, frozen=True):
    """An API key was used; written once an hour at most, in the session `toolcrib.keys`.

    Attributes:
        id: Id of the key.
    """

    kind: ClassVar[str] = "key_used"

    id: str


class KeyRevoked(EventData, frozen=True):
    """An API key opens nothing any more; in the session `toolcrib.keys`.

    Attributes:
        id: Id of the key.
        by: Who revoked it.
    """

    kind: ClassVar[str] = "key_revoked"

    id: str
    by: str


class AccountConnected(EventData, frozen=True):
    """An owner connected an account; in the session `toolcrib.accounts`.

    Attributes:
        account: Name of the account.
        owner: Whose calls use it.
        by: Who connected it.
        scopes: What its server allows with it.
        expires_at: When its token expires, in seconds since 1970.
        secret: Under which id the tokens are kept, encrypted.
    """

    kind: ClassVar[str] = "account_connected"

    account: str
    owner: str
    by: str
    scopes: tuple[str, ...]
    expires_at: Number | None
    secret: str


class AccountRenewed(EventData, frozen=True):
    """The token of an account was replaced by a newer one; in the session `toolcrib.accounts`.

    Attributes:
        account: Name of the account.
        owner: Whose it is.
        expires_at: When the new token expires, in seconds since 1970.
        secret: Under which id the tokens are kept from now on, encrypted.
    """

    kind: ClassVar[str] = "account_renewed"

    account: str
    owner: str
    expires_at: Number | None
    secret: str


class AccountDisconnected(EventData, frozen=True):
    """An account is not connected any more; in the session `toolcrib.accounts`.

    Attributes:
        account: Name of the account.
        owner: Whose it was.
        by: Who removed it; `toolcrib` where its server gave no new token.
        reason: Why: `removed`, or what the server said.
    """

    kind: ClassVar[str] = "account_disconnected"

    account: str
    owner: str
    by: str
    reason: str


class AccountRequested(EventData, frozen=True):
    """An owner was led to the server of an account, to agree there; in the session `toolcrib.accounts`.

    Attributes:
        account: Name of the account.
        owner: Who has to agree.
        by: Who began it.
        secret: Under which id is kept, encrypted, what is needed when they come back.
    """

    kind: ClassVar[str] = "account_requested"

    account: str
    owner: str
    by: str
    secret: str


class AccountRegistered(EventData, frozen=True):
    """This program was registered with the server of an account; in the session `toolcrib.accounts`.

    Attributes:
        account: Name of the account.
        issuer: Server that registered it.
        redirect_uri: Address that people come back to.
        secret: Under which id is kept, encrypted, as whom it was registered.
    """

    kind: ClassVar[str] = "account_registered"

    account: str
    issuer: str
    redirect_uri: str
    secret: str


class SourceAdded(EventData, frozen=True):
    """An administrator added a source while the crib ran; in the session `toolcrib.sources`.

    Attributes:
        id: Id of this addition.
        name: Name of the source.
        entry: Its settings; secrets stand in it as references.
        by: Who added it.
    """

    kind: ClassVar[str] = "source_added"

    id: str
    name: str
    entry: dict[str, Any]
    by: str


class SourceSwitched(EventData, frozen=True):
    """An administrator disabled or enabled a source; in the session `toolcrib.sources`.

    Attributes:
        name: Name of the source.
        enabled: Whether its tools can be used from now on.
        by: Who did it.
    """

    kind: ClassVar[str] = "source_switched"

    name: str
    enabled: bool
    by: str


class SourceRemoved(EventData, frozen=True):
    """An administrator removed a source that had been added; in the session `toolcrib.sources`.

    Attributes:
        name: Name of the source.
        by: Who removed it.
    """

    kind: ClassVar[str] = "source_removed"

    name: str
    by: str

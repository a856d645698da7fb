"""What the code of a tool may do while it prepares and checks arguments: the call itself has not begun."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from toolcrib._call.credentials import find_credential, find_token
from toolcrib._call.request import CallRequest
from toolcrib.context import Deps, OutsideCrib
from toolcrib.errors import ToolFailure
from toolcrib.state import Snapshot
from toolcrib.tool import Tool
from toolcrib.types import Answer, Credentials, Result, Schedule

if TYPE_CHECKING:
    from toolcrib.accounts import Accounts


class CheckHost(OutsideCrib):
    """The host of the context that `prepare` and `validate` of a tool get. It reads, and neither asks nor writes."""

    stopping: str | None = None
    fenced = False

    def __init__(  # noqa: PLR0913 - what a check sees
        self,
        request: CallRequest,
        tool: Tool,
        deadline: float,
        secrets: list[str],
        deps: Deps,
        credentials: Credentials | None,
        accounts: Accounts | None = None,
    ) -> None:
        self.request = request
        self.session = self.this_session = request.session
        self.tool = tool
        self.deps = deps
        self._secrets = secrets
        self._deadline = deadline
        self._credentials = credentials
        self._accounts = accounts

    @property
    def id(self) -> str:
        """The id of the call."""
        return self.request.id

    @property
    def facts(self) -> dict[str, Any]:
        """Who and where."""
        scope = self.request.scope()
        facts = self.request.facts(self.tool, 1, self._deadline)
        return facts if scope is None else {**facts, "run": scope.run(self)}

    def snapshot(self) -> Snapshot:
        """The state of now."""
        return self.session.state.snapshot(self.request.run)

    def heed(self) -> None:
        """Nobody else has it: it was not accepted yet."""

    def told(self, kind: str, data: dict[str, Any]) -> None:
        """Before the body runs nobody listens."""

    async def credential(self, name: str, refused: str | None = None, scope: str | None = None) -> str:
        """What the owner of the session brings under that name; nobody can be asked to connect anything yet."""
        if self._accounts is not None and name in self._accounts:
            token = await find_token(self._accounts, self.session.owner, name, refused)
            if token is None:
                raise ToolFailure("denied", f"{self.session.owner} has not connected {name}")
            self._secrets.append(token.value)
            return token.value
        credential = await find_credential(self._credentials, self.session.owner, name)
        self._secrets.append(credential)
        return credential

    async def ask(self, question: dict[str, Any]) -> Answer:
        """Nothing can be asked yet."""
        self._refuse("ask")

    async def step(self, key: str, do: Callable[[], Any]) -> Any:
        """No step can be recorded yet."""
        self._refuse("step")

    async def child(self, tool: str, args: Any) -> Result:
        """Nothing can be called yet."""
        self._refuse("call")

    async def schedule(self, wanted: Schedule, key: str) -> str:
        """Nothing can be scheduled yet."""
        self._refuse("schedule")

    async def stopped(self) -> None:
        """A check is not stopped, only given up."""
        self._refuse("wait_cancelled")

    def _refuse(self, name: str) -> NoReturn:
        raise RuntimeError(f"ctx.{name} is not there while arguments are checked: the call has not begun")

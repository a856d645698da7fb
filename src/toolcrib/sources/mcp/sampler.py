"""Turns of a model for servers that ask for one, under a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolcrib.context import Context
from toolcrib.errors import ToolFailure

MOST_SESSIONS = 10_000

TakeTurn = Callable[[Context, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Has a model take a turn: the parameters and the result are those of `sampling/createMessage`."""


class Sampler:
    """A model for a server: `take` asks it, at most `turns` times in a session and for `max_tokens` each time."""

    def __init__(self, take: TakeTurn, *, turns: int = 20, max_tokens: int = 4096) -> None:
        self._take = take
        self._turns = turns
        self._max_tokens = max_tokens
        self._taken: OrderedDict[str, int] = OrderedDict()

    async def __call__(self, ctx: Context, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take one turn for a call.

        Raises:
            ToolFailure: `rate_limited`, the session has used up its turns.
        """
        taken = self._taken.get(ctx.session, 0)
        if taken >= self._turns:
            raise ToolFailure("rate_limited", f"The server asked for more than {self._turns} turns of a model")
        self._taken[ctx.session] = taken + 1
        self._taken.move_to_end(ctx.session)
        if len(self._taken) > MOST_SESSIONS:
            self._taken.popitem(last=False)
        wanted = params.get("maxTokens")
        most = min(wanted, self._max_tokens) if isinstance(wanted, int) else self._max_tokens
        return await self._take(ctx, {**params, "maxTokens": most})

"""Who has the word in a session: a fold of its log, at any event, and for sessions that are not in memory too."""

from __future__ import annotations

from collections.abc import Iterable

from toolcrib.events import Event, HandedOver, RunStarted
from toolcrib.store import SessionRow, Store

KEPT = 20_000


class ActiveAgent:
    """The agent that a message goes to, up to the event that was read last. Child runs talk among themselves."""

    def __init__(self) -> None:
        self.agent: str | None = None
        self.seq = 0
        self._children: set[str] = set()

    def take(self, events: Iterable[Event]) -> None:
        """Takes the next events."""
        for event in events:
            self.seq = event.seq
            match event.data:
                case RunStarted(run=run, agent=agent, call=call):
                    if call is None:
                        self.agent = agent
                    else:
                        self._children.add(run)
                case HandedOver(run=run, to=to) if run not in self._children:
                    self.agent = to


class ActiveAgents:
    """What logs told is kept: a log only grows, so the next look goes on where the last one ended."""

    def __init__(self) -> None:
        self._words: dict[tuple[str, float], ActiveAgent] = {}

    async def of(self, store: Store, row: SessionRow) -> str | None:
        """Who has the word in a session."""
        key = row.id, row.created_at  # one that was swept may come again
        word = self._words.pop(key, None) or ActiveAgent()
        while word.seq < row.seq and (page := await store.read(row.id, word.seq, call="", limit=1000)):
            word.take(page)
        word.seq = max(word.seq, row.seq)
        self._words[key] = word
        if len(self._words) > KEPT:
            del self._words[next(iter(self._words))]
        return word.agent

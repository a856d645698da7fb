"""Spans and numbers of agents: `invoke_agent AGENT` for a run, `turn` within, `chat MODEL` for a request to a model.

They follow the semantic conventions for generative AI. A run that waits ends its spans; who goes on with it, on
whichever machine, makes new ones below the same parent, with a link to what had it go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from toolcrib.agent.definition import Agent
from toolcrib.agent.loop import Loop
from toolcrib.agent.models import CompletionRequest
from toolcrib.agent.replies import ModelReply, ReplyStream, replied
from toolcrib.agent.traced_model import TracedModel, provider_of
from toolcrib.telemetry import Telemetry, failed

MEASURED = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.agent.name", "gen_ai.request.model")
"""The attributes that numbers have too: few values each."""


class TracedLoop(Loop):
    """The loop of a run, with spans."""

    _turn_span: Any = None

    @property
    def telemetry(self) -> Telemetry:
        """What the program has set up."""
        spans = self.driver.session.pipeline.spans
        assert spans is not None
        return spans.telemetry

    async def go(self) -> None:
        """Return when the run is over, or waits for somebody."""
        attributes = self._facts()
        parent, links = self._place()
        begun = time.perf_counter()
        with self.telemetry.tracer.start_as_current_span(
            f"invoke_agent {self.run.agent}",
            parent,
            attributes=attributes,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            measured = {name: attributes[name] for name in MEASURED if name in attributes}
            try:
                await super().go()
            finally:
                self._end_turn()
                measured |= self._tell_end(span)
                self.telemetry.instruments.agent_duration.record(time.perf_counter() - begun, measured)

    def _place(self) -> tuple[Any, list[Any]]:
        """The context that the span of the run stands below, and what else had it go on."""
        from opentelemetry import context

        trace, telemetry = self.run.trace, self.telemetry
        if self.parent is not None:
            return context.get_current(), []
        if trace is None:  # whatever goes on here has not asked for it
            return context.Context(), telemetry.links(None)
        return telemetry.parent(trace), telemetry.links(trace) if self.run.turn else []

    def _facts(self) -> dict[str, Any]:
        run, session = self.run, self.driver.session.id
        agent = self.driver.registry(run).get(run.agent)
        model = None if agent is None else run.overrides.model or agent.model
        facts = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": provider_of(model),
            "gen_ai.agent.name": run.agent,
            "gen_ai.conversation.id": session,
            "session.id": session,
            "toolcrib.run.id": run.id,
            "toolcrib.run.origin": run.origin,
        }
        if agent is not None and agent.description:
            facts["gen_ai.agent.description"] = agent.description
        return facts | ({"gen_ai.request.model": model.rpartition(":")[2]} if isinstance(model, str) else {})

    def _tell_end(self, span: Any) -> dict[str, Any]:
        """Tells the span of a run what became of it; what the numbers say of that."""
        run, usage = self.run, self.run.usage
        span.set_attributes({"gen_ai.usage.input_tokens": usage.input, "gen_ai.usage.output_tokens": usage.output})
        span.set_attribute("toolcrib.run.turns", run.turn)
        if run.finished is None:
            span.set_attribute("toolcrib.run.paused", True)
            return {}
        span.set_attribute("toolcrib.run.outcome", run.finished.reason)
        if run.finished.reason != "failed":
            return {}
        failed(span, run.finished.code or "failed")
        return {"error.type": run.finished.code or "failed"}

    # Turns

    async def _turn(self, agent: Agent) -> None:
        self._end_turn()
        await super()._turn(agent)

    async def _ask(self, agent: Agent) -> None:
        with self._in_turn():
            await super()._ask(agent)

    async def _calls(self, agent: Agent) -> Literal["done", "waiting", "again"]:
        with self._in_turn():
            return await super()._calls(agent)

    async def _conclude(self, agent: Agent) -> None:
        with self._in_turn():
            await super()._conclude(agent)
        self._end_turn()

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Makes what happens within part of the turn."""
        from opentelemetry.trace import use_span

        if self._turn_span is None:
            run = self.run
            attributes: dict[str, Any] = {
                "gen_ai.agent.name": run.agent,
                "gen_ai.conversation.id": self.driver.session.id,
                "session.id": self.driver.session.id,
                "toolcrib.run.id": run.id,
                "toolcrib.run.turn": run.turn,
            }
            self._turn_span = self.telemetry.tracer.start_span("turn", attributes=attributes)
        with use_span(self._turn_span, record_exception=False, set_status_on_exception=False):
            yield

    def _end_turn(self) -> None:
        if self._turn_span is not None:
            self._turn_span.end()
            self._turn_span = None

    async def _replied(self, stream: ReplyStream, request: CompletionRequest, agent: Agent) -> ModelReply:
        model = TracedModel(self.driver.model(agent, self.run), self.telemetry)
        try:
            return await replied(stream, model, request, agent)
        finally:
            self._requests += stream.requests

"""Models of providers, by name: `openai:gpt-5`, `anthropic:claude-sonnet-5`, `google:gemini-2.5-flash`.

Requests go out through the clients of `pydantic-ai-slim`, which is imported when a model is asked for the first time
and comes with the extra `toolcrib[models]`. Nothing of its agents is used: runs, tools and retries are ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NamedTuple

from toolcrib.agent.models import CompletionRequest, Delta, Finish, MediaIntake, Model, ModelError, ProviderData
from toolcrib.agent.providers import failures, file_inputs, wire
from toolcrib.agent.providers.endpoint import ModelEndpoint, problems_of, read_options, read_settings
from toolcrib.tool import canonical

_CALLING = ("stop", "tool_call")
"""Why a reply with calls ended, in the words of providers."""


class _Line(NamedTuple):
    """A model that can be asked, in the event loop that its connections belong to."""

    loop: asyncio.AbstractEventLoop
    model: asyncio.Task[Any]


class ProviderModel(Model):
    """A model of a provider. It holds connections: `aclose` them, or use it in an `async with` block.

    `options` say how to reach the provider, where its environment variables do not; `model_settings.provider` of an
    agent goes before them, and takes their place where it says another address.
    """

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self._address = ModelEndpoint.read(name, options or {})
        self._lines: dict[bytes, _Line] = {}

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        """What the provider's model says, while it says it.

        Raises:
            ModelError: `rate_limited` and `unavailable` may pass; `denied` by key or account, `not_found`,
                `too_large` for the model, `timeout`; `invalid_arguments` and `failed` want something to be set right.
        """
        address, model = await self._reached(request.settings)
        settings = read_settings(address, request.settings)
        names = wire.ToolNames(tool.name for tool in request.tools)
        begun = False
        try:
            async with wire.stream(model, request, settings, names) as stream:
                async for event in stream:
                    begun = True
                    delta = wire.told(event)
                    if delta is not None:
                        yield delta
                response = stream.get()
        except Exception as error:
            raise failures.of(error, address, begun) from error
        for last in _rest(response, names, address):
            yield last

    def problems(self, settings: Mapping[str, Any]) -> Iterable[tuple[str | None, str, str | None]]:
        """A provider and settings that are almost others; the provider's package is not imported for that."""
        return problems_of(self._address, settings)

    async def window(self, settings: Mapping[str, Any]) -> int | None:
        """How many tokens it takes in one request, its reply included; None where nobody knows.

        Raises:
            ModelError: it cannot be reached in that way.
        """
        _, model = await self._reached(settings)
        window: int | None = model.context_window
        return window

    async def media(self, settings: Mapping[str, Any]) -> MediaIntake:
        """The files that it takes: what `model_settings.media` lists, else what is known of it and its provider.

        Raises:
            ModelError: it cannot be reached in that way; `invalid_arguments`, the setting is no list of media types.
        """
        address, model = await self._reached(settings)
        return file_inputs.intake(address.kind, model.profile, settings.get("media"))

    async def _reached(self, settings: Mapping[str, Any]) -> tuple[ModelEndpoint, Any]:
        """The model as `model_settings` reach it, and where that is."""
        options = read_options(settings)
        address = self._address.with_options(options)
        return address, await self._model(address, canonical(options))

    async def _model(self, address: ModelEndpoint, key: bytes) -> Any:
        """The model at an address, connected once for each event loop."""
        loop = asyncio.get_running_loop()
        line = self._lines.get(key)
        if line is None or line.loop is not loop:
            line = self._lines[key] = _Line(loop, loop.create_task(_connected(address)))
        try:
            return await asyncio.shield(line.model)
        except ModelError:
            if self._lines.get(key) is line:  # the next request looks again: a variable may be set by then
                del self._lines[key]
            raise

    async def aclose(self) -> None:
        """Closes its connections; it can be used again."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            if line.loop is asyncio.get_running_loop():
                await asyncio.wait([line.model])
                if not line.model.cancelled() and line.model.exception() is None:
                    await line.model.result().__aexit__(None, None, None)

    async def __aenter__(self) -> ProviderModel:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class Providers:
    """Finds models by name, for `Agents(models=...)`; without it `Agents` uses one that knows the environment alone.

    `places` adds providers by a name of one's own, or says how to reach a known one:
    `{"local": {"provider": "openai-chat", "base_url": "http://127.0.0.1:8000/v1"}}` makes `local:any-model` work.
    """

    def __init__(self, places: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._places = dict(places or {})
        self._models: dict[str, ProviderModel] = {}

    def __call__(self, name: str) -> ProviderModel:
        """The model of that name.

        Raises:
            ModelError: `invalid_arguments`, it does not say which provider.
        """
        if name not in self._models:
            provider = ModelEndpoint.read(name, {}).provider
            self._models[name] = ProviderModel(name, self._places.get(provider))
        return self._models[name]

    async def aclose(self) -> None:
        """Closes the connections of all its models; they can be used again."""
        for model in self._models.values():
            await model.aclose()


async def _connected(address: ModelEndpoint) -> Any:
    """The model at an address, ready to be asked. Its packages are slow to import, so another thread does."""
    try:
        model = await asyncio.to_thread(address.model)
    except Exception as error:
        raise failures.of_setup(error, address) from error
    await model.__aenter__()
    return model


def _rest(response: Any, names: wire.ToolNames, address: ModelEndpoint) -> list[Delta]:
    """What is only known when a reply is over.

    Raises:
        ModelError: it is none.
    """
    calls, finish = wire.calls(response, names), wire.finish(response)
    if finish is None:
        raise failures.broken_off(address)
    if not calls and not any(part.part_kind == "text" and part.content for part in response.parts):
        if finish == "content_filter":
            raise ModelError("denied", f"The content filter of {address.provider} stopped the reply")
        if finish == "error":
            raise ModelError("unavailable", f"{address.provider} ended the reply with an error")
    kept = wire.kept(response)
    rest: list[Delta] = [*calls, wire.usage(response), Finish("calls" if calls and finish in _CALLING else finish)]
    return [*rest, ProviderData(kept)] if kept is not None else rest


__all__ = ["ProviderModel", "Providers"]

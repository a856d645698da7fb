"""Where a model is: its name taken apart, the options that reach its provider, and the settings of a request."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from toolcrib.agent.models import ModelError
from toolcrib.agent.problems import meant
from toolcrib.schema import nearest

OURS = ("retries", "backoff_s", "window", "provider", "media")
"""The keys of `model_settings` that are not for the provider."""

_UNSTOPPABLE = ("bedrock", "huggingface", "xai")
"""Providers whose clients do not let themselves be told how often to try again."""

VARIABLES = {
    "azure": ("AZURE_OPENAI_API_KEY",),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_SECRET_ACCESS_KEY"),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "openai": ("OPENAI_API_KEY",),
}
"""Where the clients of providers look for a key, unless it is `<PROVIDER>_API_KEY`."""

PROVIDERS = (
    *("alibaba", "anthropic", "azure", "azure-responses", "bedrock", "bedrock-mantle", "cerebras", "cohere", "crusoe"),
    *("deepseek", "elevenlabs", "fireworks", "github", "github-copilot", "google", "google-cloud", "google-decisions"),
    *("groq", "heroku", "huggingface", "litellm", "meta", "mistral", "moonshotai", "nebius", "ollama", "openai"),
    *("openai-chat", "openai-chatgpt", "openai-codex", "openai-decisions", "openai-responses", "openrouter"),
    *("ovhcloud", "sambanova", "sentence-transformers", "snowflake", "system-one", "together", "typesafe", "vercel"),
    *("vllm", "voyageai", "xai", "zai"),
)
"""Providers that there are: their names are known without their package, and others are held against them."""

SETTINGS = (
    *("cache", "citations", "extra_body", "extra_headers", "first_event_timeout", "framing_announcement"),
    *("frequency_penalty", "logit_bias", "max_retries", "max_tokens", "parallel_tool_calls", "presence_penalty"),
    *("request_timeout", "seed", "service_tier", "stop_sequences", "temperature", "thinking", "timeout"),
    *("tool_choice", "top_k", "top_p"),
)
"""Settings that models of all providers know, for the same; a newer package is asked for its own."""

_SIGNED = ("bedrock", "google-cloud")
"""Providers whose clients sign requests with a key, or exchange it, instead of sending it wherever they are told to."""

_ELSEWHERE = ("provider", "base_url", "api_base", "azure_endpoint")
"""The options that say where requests go."""

_OPTIONS = (*_ELSEWHERE, "api_key_env", "api_version", "location", "project", "region_name")

_NAME = re.compile(r"(?P<provider>(?:gateway/)?[A-Za-z0-9_-]+)[:/](?P<model>.+)", re.DOTALL)
_SETTING = re.compile(r"(anthropic|bedrock|google|openai|openrouter|groq|mistral|cohere|xai|huggingface)_\w+")


class ModelEndpoint(NamedTuple):
    """A model of a provider, and how to reach that. `kind` is what speaks its protocol."""

    provider: str
    kind: str
    name: str
    options: Mapping[str, Any]

    @classmethod
    def read(cls, name: str, options: Mapping[str, Any]) -> ModelEndpoint:
        """Takes a name such as `openai:gpt-5` or `openai/gpt-5` apart.

        Raises:
            ModelError: `invalid_arguments`, it is none.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            raise ModelError("invalid_arguments", f"'{name}' is no model: name it as provider:model-name")
        provider = match["provider"]
        return cls(provider, provider, match["model"], {}).with_options(options)

    def with_options(self, options: Mapping[str, Any]) -> ModelEndpoint:
        """The same, reached in another way where these say so.

        Who says where to send requests says all of it, so that no key goes where nobody meant it to go.
        """
        anew = any(key in options for key in _ELSEWHERE)
        changed = {key: value for key, value in options.items() if key != "provider"}
        return self._replace(
            kind=options.get("provider", self.kind), options=changed if anew else {**self.options, **changed}
        )

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that its key may stand in."""
        if "api_key_env" in self.options:
            return (self.options["api_key_env"],)
        plain = self.kind.removeprefix("gateway/")
        first = plain.partition("-")[0]
        return VARIABLES.get(first) or (f"{plain.replace('-', '_').upper()}_API_KEY",)

    def hidden(self, text: str) -> str:
        """A text in which its key is not to be seen."""
        keys = [self.options.get("api_key"), *(os.environ.get(name) for name in self.variables)]
        for key in keys:
            text = text.replace(key, "[key]") if key else text
        return text

    def model(self) -> Any:
        """The model that its name and options mean. Imports the packages of the provider."""
        import pydantic_ai.direct  # noqa: F401  # what a request needs is imported along with the rest
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import infer_provider, infer_provider_class

        def connect(kind: str) -> Any:
            if not self.options:
                return infer_provider(kind)
            made = infer_provider_class(kind)
            return made(**self._given(made))

        infer_provider_class(self.kind)  # an unknown one is told before its model is looked for
        return infer_model(f"{self.kind}:{self.name}", provider_factory=connect)

    def _given(self, made: Any) -> dict[str, Any]:
        """The options as the provider takes them, with the key that a variable holds.

        That of the provider's own variable is for the provider itself, and not for another address.
        """
        import inspect

        settings = {key: value for key, value in self.options.items() if key != "api_key_env"}
        known = list(inspect.signature(made.__init__).parameters)[1:]
        for key in settings:
            if key not in known:
                raise ModelError("invalid_arguments", f"{self.kind} has no option '{key}'{meant(key, known)}")
        if "api_key_env" in self.options:
            settings["api_key"] = self._key(self.options["api_key_env"])
        elif "base_url" in settings and "api_key" in known and self.kind not in _SIGNED:
            settings.setdefault("api_key", "none")
        return settings

    def _key(self, variable: str) -> str:
        key = os.environ.get(variable)
        if not key:
            raise ModelError("denied", f"{self.provider} needs a key: set {variable}")
        return key


def read_options(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """How `model_settings` say that the provider is reached.

    Raises:
        ModelError: `invalid_arguments`, they are none, or a key stands in them.
    """
    options = settings.get("provider") or {}
    if not isinstance(options, Mapping):
        raise ModelError(
            "invalid_arguments", f"model_settings.provider is no mapping such as {{base_url: ...}}: {options!r}"
        )
    if "api_key" in options:
        advice = "it would be kept with the log; name the variable that holds it as api_key_env"
        raise ModelError("invalid_arguments", f"model_settings.provider takes no api_key: {advice}")
    return options


def read_settings(address: ModelEndpoint, texts: Mapping[str, Any]) -> dict[str, Any]:
    """`model_settings` as a request takes them.

    Unless they say otherwise the provider may cache, since the history of an agent is sent again and again, and its
    client does not try again by itself, since the loop does.

    Raises:
        ModelError: `invalid_arguments`, there is no such setting.
    """
    from pydantic_ai.settings import ModelSettings

    settings = {key: value for key, value in texts.items() if key not in OURS}
    known = ModelSettings.__annotations__
    for key in settings:
        if key not in known and not _SETTING.fullmatch(key):
            raise ModelError("invalid_arguments", f"A model has no setting '{key}'{meant(key, known)}")
    retries = {} if address.kind in _UNSTOPPABLE else {"max_retries": 0}
    return {"cache": True, **retries, **settings}


def problems_of(address: ModelEndpoint, settings: Mapping[str, Any]) -> Iterator[tuple[str | None, str, str | None]]:
    """Yield a provider, settings and options that there are none of, which no request would get an answer with."""
    options = settings.get("provider")
    options = options if isinstance(options, Mapping) else {}
    kind = str(options.get("provider", address.kind))
    if not _is_provider(kind):
        yield None, f"'{kind}' is no provider", _close(kind, PROVIDERS)
    known = (*OURS, *SETTINGS)
    for key in settings:
        if key not in known and not _SETTING.fullmatch(key) and key not in _package_settings():
            yield key, "a model has no such setting", _close(key, known)
    for place, keys in ((None, address.options), ("provider", options)):
        for key in keys:
            close = _close(key, _OPTIONS)
            if key not in _OPTIONS and not _is_option(kind, key, unless=close is not None):
                yield place, f"a provider has no option '{key}'", close


def _close(name: str, known: Iterable[str]) -> str | None:
    close = nearest(name, known, 1)
    return close[0] if close else None


def _is_provider(kind: str) -> bool:
    """True if there is such a provider; one that is not listed here may be of a newer package, which is then asked."""
    if kind.removeprefix("gateway/") in PROVIDERS:
        return True
    try:
        from pydantic_ai.providers import infer_provider_class
    except ImportError:
        return False
    try:
        infer_provider_class(kind)
    except ImportError:  # it is one whose own package is missing
        return True
    except Exception:  # noqa: BLE001 - whatever it raises, it makes no provider of that name
        return False
    return True


def _package_settings() -> Iterable[str]:
    try:
        from pydantic_ai.settings import ModelSettings
    except ImportError:
        return ()
    return ModelSettings.__annotations__


def _is_option(kind: str, key: str, *, unless: bool) -> bool:
    """True if a provider has that option; where its package cannot tell, `unless` it is almost another."""
    import inspect

    try:
        from pydantic_ai.providers import infer_provider_class

        made: Any = infer_provider_class(kind)
    except Exception:  # noqa: BLE001 - without the package nobody knows all options
        return not unless
    return key in inspect.signature(made.__init__).parameters

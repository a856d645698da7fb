"""`agents` of a `crib.yaml`: where their definitions are, and the models that they speak with.

agents: [team/]                                 # files and folders of definitions, or with more to say:
agents:
  files: [team/, desk.md]
  default: support                              # who answers where nobody is asked for; the first, unless said
  models:                                       # by the name in a definition, or a glob over such names
    fast: openai:gpt-5                          # a model of a provider
    "test/*": {scripted: script.yaml}           # what it says stands in a file
    own: {python: "shop.models:model"}          # a Model, or a function that makes one
  providers: {local: {provider: openai-chat, base_url: "http://127.0.0.1:8000/v1"}}   # makes local:any-model work
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.agent.models import ModelError
from toolcrib.agent.providers import Providers
from toolcrib.cli.config.mistakes import Mistake
from toolcrib.cli.config.model import AgentsSection, ModelEntry
from toolcrib.schema import nearest
from toolcrib.yaml import Path as Place

if TYPE_CHECKING:
    from toolcrib.agent import Agents, Model

Tell = Callable[[Mistake], None]


def places(agents: list[str] | AgentsSection, folder: Path) -> list[tuple[Path, Place]]:
    """The files and folders of definitions that the key names, each with its place."""
    listed, above = (agents.files, ("agents", "files")) if isinstance(agents, AgentsSection) else (agents, ("agents",))
    return [(folder / name, (*above, index)) for index, name in enumerate(listed)]


def agents_of(value: list[str] | AgentsSection, folder: Path, tell: Tell) -> Agents | None:
    """Return the agents that the key describes; every mistake is reported with its place."""
    from toolcrib.agent import Agents, BadAgent
    from toolcrib.errors import Refused

    files = places(value, folder)
    section = value if isinstance(value, AgentsSection) else None
    models = dict(_models(section, folder, tell)) if section is not None else {}
    providers = section.providers if section is not None else {}
    _check_providers(models, providers, tell)
    default = section.default if section is not None else None
    empty = [Mistake(f"agents: there is no {_near(path)}", place) for path, place in files if not path.exists()]
    for mistake in empty:
        tell(mistake)
    if empty:
        return None
    where: Place = ("agents",) if section is None else ("agents", "files")
    try:
        return Agents([path for path, _ in files], models=Models(models, providers), default=default)
    except BadAgent as error:
        for line in error.lines:
            tell(Mistake(f"agents: {line.removeprefix(f'{Path.cwd()}{os.sep}')}", where))
    except Refused as refused:
        message = "there are no definitions in these files" if default is None else refused.message
        tell(Mistake(f"agents: {message}", ("agents",) if default is None else ("agents", "default")))
    return None


def _check_providers(models: Mapping[str, Any], providers: Mapping[str, Mapping[str, Any]], tell: Tell) -> None:
    """Tell of models of no provider, and of options that a provider does not have, used or not."""
    kinds = {name: {key: one[key] for key in one if key == "provider"} for name, one in providers.items()}
    named = [(providers, f"{name}:any", ("agents", "providers", name)) for name in providers]
    named += [(kinds, model, ("agents", "models", name)) for name, model in models.items() if isinstance(model, str)]
    for known, model, place in named:
        try:
            problems = list(Models({}, known)(model).problems({}))
        except ModelError as error:
            problems = [(None, error.message, None)]
        for _, problem, close in problems:
            tell(Mistake(f"{'.'.join(place)}: {problem}{_guess(close)}", place))


def _guess(close: str | None) -> str:
    return "" if close is None else f", did you mean '{close}'?"


def _near(path: Path) -> str:
    """A path as it is read from here."""
    return str(path).removeprefix(f"{Path.cwd()}{os.sep}")


def _models(section: AgentsSection, folder: Path, tell: Tell) -> Iterator[tuple[str, Any]]:
    for name, value in section.models.items():
        try:
            yield name, _model(value, folder)
        except Mistake as mistake:
            tell(Mistake(f"agents.models.{name}: {mistake}", ("agents", "models", name)))


def _model(value: str | ModelEntry, folder: Path) -> Any:
    """A model, or the name of one that a provider has."""
    if isinstance(value, str):
        return value
    if value.scripted is not None:
        return script(folder / value.scripted)
    assert value.python is not None
    return _made(value.python, folder)


def model_finder(
    value: str | ModelEntry, folder: Path, section: AgentsSection | None
) -> tuple[Callable[[], Model], str]:
    """Return what finds a model when it is needed, and its name: one that `agents` has, or one of a provider.

    Raises:
        Mistake: there can be no such model.
    """
    if not isinstance(value, str):
        model = _model(value, folder)
        return (lambda: model), str(value.scripted or value.python)
    known = {} if section is None else {name: _model(one, folder) for name, one in section.models.items()}
    models = Models(known, {} if section is None else section.providers)
    try:
        problems = list(models(value).problems({}))
    except ModelError as error:
        raise Mistake(error.message) from None
    for _, problem, close in problems:
        raise Mistake(f"{problem}{_guess(close)}")
    return (lambda: models(value)), value


def script(path: Path) -> Model:
    """The model that says what stands in a file.

    Raises:
        Mistake: it is no script.
    """
    from toolcrib.agent import ScriptedModel

    try:
        return ScriptedModel.load(path)
    except OSError as error:
        raise Mistake(f"cannot read {_near(path)}: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise Mistake(f"{_near(path)} is no script of turns by agent: {error}") from None


def _made(name: str, folder: Path) -> Model:
    from toolcrib.agent import Model
    from toolcrib.cli.command import where
    from toolcrib.cli.imports import BadSource, from_module, importable

    importable(folder)
    try:
        value: Any = from_module(name)
    except BadSource as error:
        raise Mistake(str(error)) from None
    if callable(value) and not isinstance(value, Model):
        try:
            value = value()
        except Exception as error:
            raise Mistake(f"{name} failed: {where(error)}") from error
    if not isinstance(value, Model):
        raise Mistake(f"{name} is a {type(value).__name__}, and no Model: derive its class from toolcrib.agent.Model")
    return value


class Models(Providers):
    """Finds models by the names that definitions give: those of the file, else those of providers."""

    def __init__(self, known: Mapping[str, Any], places: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(places)
        self._known = known

    def __call__(self, name: str) -> Any:
        """The model of that name.

        Raises:
            ModelError: `invalid_arguments`, it is in nobody's hands.
        """
        model = self._known.get(name) or self._fitting(name) or name
        try:
            return super().__call__(model) if isinstance(model, str) else model
        except ModelError as error:
            close = nearest(name, self._known, 1)
            raise error if not close else ModelError(error.code, f"{error.message}{_guess(close[0])}") from None

    def _fitting(self, name: str) -> Any:
        from toolcrib.policy import globs

        fit = (value for key, value in self._known.items() if globs.is_pattern(key) and globs.text(key)(name))
        return next(fit, None)

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

import yaml

from toolcrib.agent.providers import Providers
from toolcrib.cli import nodes
from toolcrib.cli.nodes import Wrong

if TYPE_CHECKING:
    from toolcrib.agent import Agents, Model

KEYS = ("files", "models", "providers", "default")
Tell = Callable[[Wrong, yaml.Node], None]


def places(node: yaml.Node, folder: Path) -> list[tuple[Path, yaml.Node]]:
    """The files and folders of definitions that the key names.

    Raises:
        Wrong: it names none.
    """
    if isinstance(node, yaml.MappingNode):
        given = nodes.known(node, *KEYS)
        if "files" not in given:
            raise Wrong("agents: expected files, such as {files: [team/]}", node)
        node = given["files"]
    listed = nodes.items(node) if isinstance(node, yaml.SequenceNode) else [node]
    return [(folder / nodes.text(item), item) for item in listed]


def agents_of(node: yaml.Node, folder: Path, tell: Tell) -> Agents | None:
    """The agents that the key describes; what is wrong is told, each thing with its node.

    Raises:
        Wrong: its form is not known.
    """
    from toolcrib.agent import Agents, BadAgent
    from toolcrib.errors import Refused

    found = places(node, folder)
    given = nodes.known(node, *KEYS) if isinstance(node, yaml.MappingNode) else {}
    models = dict(_models(given["models"], folder, tell)) if "models" in given else {}
    providers = dict(_providers(given["providers"], tell)) if "providers" in given else {}
    default = nodes.text(given["default"]) if "default" in given else None
    empty = [Wrong(f"agents: there is no {_near(path)}", item) for path, item in found if not path.exists()]
    for wrong in empty:
        tell(wrong, node)
    if empty:
        return None
    try:
        return Agents([path for path, _ in found], models=Models(models, providers), default=default)
    except BadAgent as error:
        for line in error.lines:
            tell(Wrong(f"agents: {line.removeprefix(f'{Path.cwd()}{os.sep}')}", given.get("files", node)), node)
    except Refused as refused:
        where = "there are no definitions in these files" if default is None else refused.message
        tell(Wrong(f"agents: {where}", given.get("default", node)), node)
    return None


def _near(path: Path) -> str:
    """A path as it is read from here."""
    return str(path).removeprefix(f"{Path.cwd()}{os.sep}")


def _models(node: yaml.Node, folder: Path, tell: Tell) -> Iterator[tuple[str, Any]]:
    for key, value in nodes.pairs(node):
        try:
            yield str(key.value), _model(value, folder)
        except Wrong as wrong:
            tell(Wrong(f"agents.models.{key.value}: {wrong}", wrong.node or value), value)


def _providers(node: yaml.Node, tell: Tell) -> Iterator[tuple[str, Any]]:
    for key, value in nodes.pairs(node):
        said = nodes.plain(value)
        if not isinstance(said, dict):
            tell(Wrong(f"agents.providers.{key.value}: expected a mapping such as {{base_url: ...}}", value), value)
        elif "api_key" in said:
            advice = "name the variable that holds it, as api_key_env"
            tell(Wrong(f"agents.providers.{key.value}: no key stands in a file: {advice}", value), value)
        else:
            yield str(key.value), said


def _model(node: yaml.Node, folder: Path) -> Any:
    """A model, or the name of one that a provider has."""
    if not isinstance(node, yaml.MappingNode):
        return nodes.text(node)
    given = nodes.known(node, "scripted", "python")
    if len(given) != 1:
        raise Wrong("expected a name such as openai:gpt-5, {scripted: FILE} or {python: MODULE:NAME}", node)
    if "scripted" in given:
        return script(folder / nodes.text(given["scripted"]))
    return _made(nodes.text(given["python"]), folder)


def script(path: Path) -> Model:
    """The model that says what stands in a file.

    Raises:
        Wrong: it is no script.
    """
    from toolcrib.agent import ScriptedModel

    try:
        return ScriptedModel.load(path)
    except OSError as error:
        raise Wrong(f"can not read {_near(path)}: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise Wrong(f"{_near(path)} is no script of turns by agent: {error}") from None


def _made(name: str, folder: Path) -> Model:
    from toolcrib.cli.command import where
    from toolcrib.cli.importing import BadSource, from_module, importable

    importable(folder)
    try:
        value: Any = from_module(name)
    except BadSource as error:
        raise Wrong(str(error)) from None
    if callable(value) and (isinstance(value, type) or not hasattr(value, "respond")):
        try:
            value = value()
        except Exception as error:
            raise Wrong(f"{name} failed: {where(error)}") from error
    if not hasattr(value, "respond"):
        raise Wrong(f"{name} is a {type(value).__name__}, and no Model: it has no respond")
    return value  # type: ignore[no-any-return]


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
        found = self._known.get(name) or self._fitting(name) or name
        return super().__call__(found) if isinstance(found, str) else found

    def _fitting(self, name: str) -> Any:
        from toolcrib.policy import globs

        fit = (value for key, value in self._known.items() if globs.is_pattern(key) and globs.text(key)(name))
        return next(fit, None)

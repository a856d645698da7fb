"""What an entry of `sources` in a `crib.yaml` means, where that is no Python: files, a document, or an MCP server."""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from toolcrib.cli import nodes
from toolcrib.cli.nodes import Wrong

if TYPE_CHECKING:
    from toolcrib.sources.files.roots import Root
    from toolcrib.sources.files.source import FileSource
    from toolcrib.sources.mcp import Mcp
    from toolcrib.sources.openapi import OpenApi

log = logging.getLogger("toolcrib.cli")
_DEFINITIONS = (".yaml", ".yml")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Files(NamedTuple):
    """Definition files that a `crib.yaml` names: folders or single files, and what goes with them."""

    roots: tuple[Root | Path, ...]
    packs: tuple[str, ...] = ()
    trusted_packs: tuple[str, ...] = ()
    registry: Path | None = None
    values: dict[str, dict[str, str]] = {}  # noqa: RUF012 - nobody changes it
    workspace: Path | None = None


def file_source(given: Files, project: Path) -> FileSource:
    """The definition files as a source; packs are looked for in the project, and programs start in the workspace.

    Raises:
        Refused: there is no such pack.
    """
    from toolcrib.sources.files.registry import OVERRIDES, load
    from toolcrib.sources.files.roots import pack_roots
    from toolcrib.sources.files.source import FileSource

    packs = [root for pack in given.packs for root in pack_roots(pack, [project], given.trusted_packs)]
    over = next((file for root in packs if (file := root.path.parent / OVERRIDES).is_file()), None)
    registry = load(given.registry, over) if given.registry is not None or over is not None else None
    if registry is not None and registry.warning is not None:
        log.warning("%s", registry.warning)
    return FileSource(
        [*packs, *given.roots], workspace=given.workspace or project, values=given.values, registry=registry
    )


def files_of(item: yaml.Node, folder: Path) -> Files | None:
    """The definition files that an entry means; None where it means something else.

    Raises:
        Wrong: they are not there, or something is wrong with the entry.
    """
    if isinstance(item, yaml.MappingNode):
        return _chosen(item, folder) if any(key.value == "files" for key, _ in nodes.pairs(item)) else None
    given = nodes.text(item)
    if given.endswith(_DEFINITIONS) or ("/" in given and not given.endswith(".py")):
        return Files((_there(folder / given, item),))
    # A folder of modules is a package.
    path = folder / given
    return Files((path,)) if path.is_dir() and not any(path.glob("*.py")) else None


def _chosen(item: yaml.Node, folder: Path) -> Files:
    given = nodes.known(item, "files", "pack", "trusted_packs", "registry", "values")
    return Files(
        tuple(_there(folder / root, given["files"]) for root in nodes.texts(given["files"])),
        nodes.texts(given["pack"]) if "pack" in given else (),
        nodes.texts(given["trusted_packs"]) if "trusted_packs" in given else (),
        folder / nodes.text(given["registry"]) if "registry" in given else None,
        {key.value: _filled(value) for key, value in nodes.pairs(given["values"])} if "values" in given else {},
    )


def server_of(item: yaml.Node) -> Mcp:
    """The server that an entry means.

    Raises:
        Wrong, BadTool: something is wrong with the entry.
    """
    from toolcrib.sources.mcp import Mcp
    from toolcrib.sources.mcp.settings import is_address

    given = nodes.known(item, "mcp", "name", "trusted", "required", "env", "headers", "timeout")
    command = nodes.texts(given["mcp"]) if "mcp" in given else ()
    if len(command) == 1 and not is_address(command[0]):
        command = _words(given["mcp"])
    return Mcp(
        *command,
        name=nodes.text(given["name"]) if "name" in given else None,
        trusted=_flag(given["trusted"], "trusted") if "trusted" in given else False,
        required=_flag(given["required"], "required") if "required" in given else False,
        timeout=nodes.number(given["timeout"], float, "timeout") if "timeout" in given else None,
        **{key: _filled(given[key]) for key in ("env", "headers") if key in given},
    )


def document_of(item: yaml.Node, folder: Path) -> OpenApi | None:
    """The OpenAPI document that an entry means; None where it means something else.

    Raises:
        Wrong, BadTool: something is wrong with the entry.
    """
    if not any(key.value == "openapi" for key, _ in nodes.pairs(item)):
        return None
    from toolcrib.sources.openapi import OpenApi
    from toolcrib.sources.openapi.loading import is_address

    given = nodes.known(item, "openapi", *_OF_DOCUMENT)
    place = nodes.text(given.pop("openapi"))
    settings = {key: _OF_DOCUMENT[key](node) for key, node in given.items()}
    if "uploads" in given:
        settings["uploads"] = _there(folder / settings["uploads"], given["uploads"])
    return OpenApi(place if is_address(place) else _there(folder / place, item), **settings)


def _flag(node: yaml.Node, name: str = "trusted") -> bool:
    flag = nodes.plain(node)
    if not isinstance(flag, bool):
        raise Wrong(f"{name}: expected true or false, got {flag!r}", node)
    return flag


def _words(node: yaml.Node) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(nodes.text(node)))
    except ValueError as error:
        raise Wrong(f"mcp: this is no command: {error}", node) from None


def _filled(node: yaml.Node) -> dict[str, str]:
    """Texts by name; `${NAME}` in one is a variable of the environment, so that no secret need stand in the file."""
    return {key.value: _expanded(value) for key, value in nodes.pairs(node)}


def _expanded(node: yaml.Node) -> str:
    check_variables(node)
    return expanded(nodes.text(node))


def check_variables(node: yaml.Node) -> None:
    """Each variable that a node or something below it names is set.

    Raises:
        Wrong: one is not, at its place.
    """
    for scalar in nodes.scalars(node):
        for found in _VARIABLE.finditer(scalar.value):
            if found[1] not in os.environ:
                raise Wrong(f"the variable {found[1]} is not set", scalar, found[0])


def expanded(text: str) -> str:
    """A text with the values of its variables, which are set."""
    return _VARIABLE.sub(lambda found: os.environ[found[1]], text)


def _credentials(node: yaml.Node) -> dict[str, Any]:
    """Credentials by the name of a scheme: a text, or texts by name."""
    return {
        key.value: _filled(value) if isinstance(value, yaml.MappingNode) else _expanded(value)
        for key, value in nodes.pairs(node)
    }


def _there(path: Path, node: yaml.Node) -> Path:
    if not path.exists():
        raise Wrong(f"there is no file or folder {path}", node)
    return path


_OF_DOCUMENT: dict[str, Callable[[yaml.Node], Any]] = {
    "namespace": nodes.text,
    "trusted": _flag,
    "include": nodes.texts,
    "exclude": nodes.texts,
    "limit": lambda node: nodes.number(node, int, "limit"),
    "base_url": _expanded,
    "variables": _filled,
    "auth": _credentials,
    "headers": _filled,
    "uploads": nodes.text,
    "refs": nodes.texts,
    "timeout": lambda node: nodes.number(node, float, "timeout"),
    "refresh_s": lambda node: nodes.number(node, float, "refresh_s"),
}
"""What an entry of a document may say beside it, and how each is read."""

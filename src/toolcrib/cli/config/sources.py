"""What an entry of `sources` in a `crib.yaml` means, where that is no Python: files, a document, or an MCP server."""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.cli.config.mistakes import Mistake
from toolcrib.cli.config.model import (
    AgentsSection,
    FilesEntry,
    McpEntry,
    OpenApiEntry,
    SamplingSection,
    SkillsEntry,
)
from toolcrib.types import Limits
from toolcrib.yaml import Path as Place

if TYPE_CHECKING:
    from toolcrib.definitions.roots import DefinitionRoot
    from toolcrib.definitions.source import FileSource
    from toolcrib.sources.mcp import Mcp, Sampler
    from toolcrib.sources.openapi import OpenApi
    from toolcrib.sources.skills import Skills

log = logging.getLogger("toolcrib.cli")
_DEFINITIONS = (".yaml", ".yml")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Files(NamedTuple):
    """Definition files that a `crib.yaml` names: folders or single files, and what goes with them."""

    roots: tuple[DefinitionRoot | Path, ...]
    packs: tuple[str, ...] = ()
    trusted_packs: tuple[str, ...] = ()
    registry: Path | None = None
    values: dict[str, dict[str, str]] = {}  # noqa: RUF012 - nobody changes it
    workspace: Path | None = None


def file_source(files: Files, project: Path) -> FileSource:
    """The definition files as a source; packs are looked for in the project, and programs start in the workspace.

    Raises:
        Refused: there is no such pack.
    """
    from toolcrib.definitions.registry import OVERRIDES, load
    from toolcrib.definitions.roots import pack_roots
    from toolcrib.definitions.source import FileSource

    packs = [root for pack in files.packs for root in pack_roots(pack, [project], files.trusted_packs)]
    over = next((file for root in packs if (file := root.path.parent / OVERRIDES).is_file()), None)
    registry = load(files.registry, over) if files.registry is not None or over is not None else None
    if registry is not None and registry.warning is not None:
        log.warning("%s", registry.warning)
    return FileSource(
        [*packs, *files.roots], workspace=files.workspace or project, values=files.values, registry=registry
    )


def files_of(entry: Any, folder: Path, place: Place) -> Files | None:
    """The definition files that an entry means; None where it means something else.

    Raises:
        Mistake: they are not there, or something is wrong with the entry.
    """
    if isinstance(entry, FilesEntry):
        from toolcrib.definitions.roots import DefinitionRoot

        for number, pack in enumerate(entry.trusted_packs):
            if pack not in entry.pack:
                problem = f"trusted_packs: '{pack}' is no `pack` of this entry"
                raise Mistake(problem, (*place, "trusted_packs", number))
        roots = (_there(folder / root, (*place, "files")) for root in entry.files)
        return Files(
            tuple(DefinitionRoot(root, soft_checks=entry.soft_checks) for root in roots),
            tuple(entry.pack),
            tuple(entry.trusted_packs),
            None if entry.registry is None else folder / entry.registry,
            {id: filled(values, (*place, "values", id)) for id, values in entry.values.items()},
        )
    if not isinstance(entry, str):
        return None
    if entry.endswith(_DEFINITIONS) or ("/" in entry and not entry.endswith(".py")):
        return Files((_there(folder / entry, place),))
    # A folder of modules is a package.
    path = folder / entry
    return Files((path,)) if path.is_dir() and not any(path.glob("*.py")) else None


_SERVER_SETTINGS = (
    *("share", "connections", "start_s", "idle_s", "revision", "tasks", "prefix"),
    *("message_bytes", "message_parts", "most_tools", "most_offers"),
)


def server_of(entry: McpEntry, folder: Path, place: Place = (), agents: AgentsSection | None = None) -> Mcp:
    """The server that an entry of a file in a folder means; `agents` may name the model that takes turns for it.

    Raises:
        Mistake, BadTool: something is wrong with the entry.
    """
    from toolcrib.sources.mcp import Mcp
    from toolcrib.sources.mcp.settings import is_address

    command = entry.mcp
    if len(command) == 1 and not is_address(command[0]):
        try:
            command = shlex.split(command[0])
        except ValueError as error:
            raise Mistake(f"mcp: this is no command: {error}", (*place, "mcp")) from None
    more: dict[str, Any] = {
        key: filled(getattr(entry, key), (*place, key)) for key in ("env", "headers") if getattr(entry, key)
    }
    more |= {key: value for key in _SERVER_SETTINGS if (value := getattr(entry, key)) is not None}
    if entry.account:
        more["account"] = entry.account
    if entry.sampling is not None:
        more["sampler"] = _sampler(entry.sampling, folder, place, agents)
    if entry.cwd is not None:
        more["cwd"] = str(_there(folder / entry.cwd, (*place, "cwd")))
    bounds = {} if entry.limits is None else entry.limits.model_dump(exclude_unset=True)
    if entry.breaker is not None:
        bounds["repeat"] = entry.breaker or None
    more["limits"] = Limits(**bounds)
    return Mcp(*command, name=entry.name, trusted=entry.trusted, required=entry.required, timeout=entry.timeout, **more)


def _sampler(section: SamplingSection, folder: Path, place: Place, agents: AgentsSection | None) -> Sampler:
    """What takes the turns of a model for a server.

    Raises:
        Mistake: there can be no such model.
    """
    from toolcrib.agent.model_sampler import ModelSampler
    from toolcrib.cli.config.agents import model_finder
    from toolcrib.sources.mcp import Sampler

    try:
        find, name = model_finder(section.model, folder, agents)
    except Mistake as mistake:
        raise Mistake(f"sampling.model: {mistake}", (*place, "sampling", "model")) from None
    return Sampler(ModelSampler(find, name), turns=section.turns, max_tokens=section.max_tokens)


def document_of(entry: OpenApiEntry, folder: Path, place: Place) -> OpenApi:
    """The OpenAPI document that an entry means.

    Raises:
        Mistake, BadTool: something is wrong with the entry.
    """
    from toolcrib.sources.openapi import OpenApi
    from toolcrib.sources.openapi.loader import is_address

    settings = {key: getattr(entry, key) for key in entry.model_fields_set - {"openapi"}}
    for key in {"base_url", "variables", "auth", "headers"} & settings.keys():
        settings[key] = filled(settings[key], (*place, key))
    if "uploads" in settings:
        settings["uploads"] = _there(folder / settings["uploads"], (*place, "uploads"))
    document = entry.openapi if is_address(entry.openapi) else _there(folder / entry.openapi, place)
    return OpenApi(document, **settings)


def skills_of(entry: SkillsEntry, folder: Path, place: Place) -> Skills:
    """The skills that an entry means.

    Raises:
        Mistake: a folder is not there.
    """
    from toolcrib.sources.skills import Skills

    folders = [_there(folder / one, (*place, "skills")) for one in entry.skills]
    return Skills(*folders, name=entry.name, trusted=entry.trusted)


def filled(value: Any, place: Place) -> Any:
    """The same with the variables of the environment, `${NAME}`, so that no secret need stand in the file.

    Raises:
        Mistake: a variable is not set; it names its place.
    """
    if isinstance(value, Mapping):
        return {key: filled(one, (*place, key)) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, (*place, index)) for index, one in enumerate(value)]
    if not isinstance(value, str):
        return value
    for variable in _VARIABLE.finditer(value):
        if variable[1] not in os.environ:
            raise Mistake(f"the variable {variable[1]} is not set", place, variable[0])
    return _VARIABLE.sub(lambda variable: os.environ[variable[1]], value)


def _there(path: Path, place: Place) -> Path:
    if not path.exists():
        raise Mistake(f"there is no file or folder {path}", place)
    return path

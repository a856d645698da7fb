"""What the shell offers while a command is typed. It is quick and never complains."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from toolcrib.cli.terminal import Choice

if TYPE_CHECKING:
    from toolcrib.crib import Crib


def complete_tool(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of tools that begin like that, and bare names that are enough."""
    crib = _crib(ctx)
    if crib is None:
        return []
    names = crib.catalog.view(("*",)).names
    fit = [(name, tool) for name, tool in names.items() if name.startswith(incomplete) and (incomplete or "." in name)]
    return [(name, tool.description.partition("\n")[0]) for name, tool in fit]


def complete_definition(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of definition files that begin like that."""
    from toolcrib.cli.definitions.selection import DefinitionSelection, source_of

    choice = _choice(ctx)._replace(store=None)
    try:
        source = source_of(DefinitionSelection(choice, ctx.params.get("root") or (), ctx.params.get("pack") or ()))
        definitions = [(one.id, one.description) for one in source.library.list()]
    except Exception:  # noqa: BLE001 - as below
        return []
    return [(id, text.partition("\n")[0]) for id, text in definitions if id.startswith(incomplete)]


def complete_shown(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Whatever can be shown: tools, and definition files."""
    return [*complete_tool(ctx, incomplete), *complete_definition(ctx, incomplete)]


def complete_agent(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Names of agents that begin like that."""
    from toolcrib.agent import Agents

    crib = _crib(ctx)
    if crib is None or not isinstance(crib.agents, Agents):
        return []
    registry = crib.agents.registry
    return [(name, registry[name].description.partition("\n")[0]) for name in registry if name.startswith(incomplete)]


def complete_session(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of the sessions that were used last."""
    try:
        return asyncio.run(_sessions(_choice(ctx), incomplete))
    except Exception:  # noqa: BLE001 - a shell that completes nothing is better than one that shows errors
        return []


def complete_question(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of the questions that are open."""
    try:
        return asyncio.run(_questions(_choice(ctx), incomplete))
    except Exception:  # noqa: BLE001 - as above
        return []


def _crib(ctx: typer.Context) -> Crib | None:
    from toolcrib.cli.crib_choice import chosen

    try:
        return chosen(_choice(ctx)._replace(store=None))
    except Exception:  # noqa: BLE001 - as above
        return None


def _choice(ctx: typer.Context) -> Choice:
    """The crib and the store that were named so far."""
    root = ctx.find_root()
    return Choice(*(ctx.params.get(name) or root.params.get(name) for name in ("crib", "store")))


async def _sessions(choice: Choice, incomplete: str) -> list[tuple[str, str]]:
    from toolcrib._session.session_list import sessions_of
    from toolcrib.cli.store_choice import reading_store

    async with reading_store(choice) as store:
        rows = await sessions_of(store, limit=100)
    return [(row.id, f"of {row.owner}") for row in rows if row.id.startswith(incomplete)]


async def _questions(choice: Choice, incomplete: str) -> list[tuple[str, str]]:
    from toolcrib._session.call_lists import open_questions
    from toolcrib.cli.store_choice import reading_store

    async with reading_store(choice) as store:
        questions = await open_questions(store)
    return [(question.id, question.prompt) for question in questions if question.id.startswith(incomplete)]

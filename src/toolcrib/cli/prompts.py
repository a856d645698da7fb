"""Questions to the person at the terminal. Reading blocks nothing, so that an answer from elsewhere is noticed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.cli.display.schemas import in_words
from toolcrib.cli.terminal import Terminal, compact, exact
from toolcrib.origins.passages import passages, without_passages

if TYPE_CHECKING:
    from toolcrib.types import Question

_SKIPPED: Any = object()
_BOOLEANS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


class PromptAnswer(NamedTuple):
    """The answer of a person to a question."""

    action: str
    value: Any = None
    arguments: Mapping[str, Any] | None = None
    reason: str | None = None


class LeftOpen(Exception):
    """The person leaves the question open."""


LEAVE = "Ctrl-D leaves it waiting, Ctrl-C cancels the call."


def explain(terminal: Terminal, question: Question, note: str = LEAVE) -> None:
    """Show the question, its arguments, and how to leave it."""
    terminal.say(f"? {question.prompt}", "bold yellow")
    for name, value in question.arguments.items():
        terminal.say(f"    {name} = {exact(value)}")
    for line in passages(question.data):
        terminal.say(f"    seen in {line}", "yellow")
    if (more := without_passages(question.data)) is not None:
        terminal.say(f"    {exact(more)}")
    terminal.say(f"  {note}", "dim")


async def ask(terminal: Terminal, question: Question) -> PromptAnswer:
    """Asks until there is an answer.

    Raises:
        LeftOpen: the person wants to answer later.
    """
    if question.kind == "confirm":
        return await _confirm(terminal, question)
    if question.kind == "input":
        return PromptAnswer("accept", await value_for(terminal, question.schema))
    choice = await pick(terminal, "Send a result?", {"y": "yes", "f": "it failed", "n": "decline", "l": "later"})
    if choice == "y":
        return PromptAnswer("accept", await value_for(terminal, question.schema, "result"))
    return await _refusal(terminal, {"f": "fail", "n": "decline"}[choice])


async def _confirm(terminal: Terminal, question: Question) -> PromptAnswer:
    choice = await pick(terminal, "Allow it?", {"y": "yes", "n": "no", "e": "edit", "l": "later"})
    if choice == "y":
        return PromptAnswer("accept")
    if choice == "n":
        return await _refusal(terminal, "decline")
    while True:
        changes = _json(await line(terminal, 'What changes, as JSON ({"name": value}): '))
        if isinstance(changes, dict):
            return PromptAnswer("accept", arguments={**question.arguments, **changes})
        terminal.say("That is no JSON object.", "red")


async def _refusal(terminal: Terminal, action: str) -> PromptAnswer:
    reason = await line(terminal, "Why? (Enter says nothing) ")
    return PromptAnswer(action, reason=reason.strip() or None)


async def pick(terminal: Terminal, prompt: str, choices: Mapping[str, str]) -> str:
    """One of some choices, by its letter or its word; `later` leaves.

    Raises:
        LeftOpen: the choice is `later`.
    """
    shown = ", ".join(
        f"[{letter}]{word[1:]}" if word.startswith(letter) else f"[{letter}] {word}" for letter, word in choices.items()
    )
    while True:
        typed = (await line(terminal, f"{prompt} {shown}: ")).strip().lower()
        letter = next((letter for letter, word in choices.items() if typed in (letter, word)), None)
        if letter == "l":
            raise LeftOpen
        if letter is not None:
            return letter


async def value_for(terminal: Terminal, schema: Any, name: str = "answer") -> Any:
    """Prompt for a value that a schema describes, field by field."""
    from toolcrib.schema import llm_schema

    view = llm_schema(schema) if isinstance(schema, Mapping) else {}
    return await _value(terminal, view, (name,), required=True)


async def _value(terminal: Terminal, schema: Mapping[str, Any], path: tuple[str, ...], *, required: bool) -> Any:
    from toolcrib.schema import output_check

    if schema.get("type") == "object" and schema.get("properties"):
        return await _object(terminal, schema, path)
    fits = output_check(dict(schema))
    while True:
        text = await line(terminal, _prompt(schema, path, required))
        if not text and not required:
            return schema.get("default", _SKIPPED)
        value = _read(text, schema)
        problem = fits(value)
        if problem is None:
            return value
        terminal.say(f"  {problem}", "red")


def _prompt(schema: Mapping[str, Any], path: tuple[str, ...], required: bool) -> str:
    name = ".".join(path[1:] or path)
    described = f" ({schema['description']})" if schema.get("description") else ""
    kind = f" <{in_words(schema)}>" if schema else ""
    default = f"takes {compact(schema['default'])}" if "default" in schema else "leaves it out"
    return f"{name}{described}{kind}{'' if required else f', Enter {default}'}: "


async def _object(terminal: Terminal, schema: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    data: dict[str, Any] = {}
    for name, what in schema["properties"].items():
        inner = what if isinstance(what, Mapping) else {}
        value = await _value(terminal, inner, (*path, name), required=name in required)
        if value is not _SKIPPED:
            data[name] = value
    return data


def _read(text: str, schema: Mapping[str, Any]) -> Any:
    """What somebody typed, as the schema wants it; whether it fits is checked after."""
    if "enum" in schema:
        return next((value for value in schema["enum"] if text.strip() in (value, compact(value))), text)
    if schema.get("type") == "string":
        return text
    if schema.get("type") == "boolean":
        return _BOOLEANS.get(text.strip().lower(), text)
    value = _json(text)
    return text if value is _SKIPPED else value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _SKIPPED


async def line(terminal: Terminal, prompt: str) -> str:
    """One line that a person types.

    Raises:
        LeftOpen: the person ended the input with Ctrl-D.
    """
    from toolcrib.cli.terminal import styled

    terminal.err.print(styled(prompt, "bold"), end="")
    terminal.err.file.flush()
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bytes] = loop.create_future()
    stdin = sys.stdin.fileno()

    def take() -> None:
        loop.remove_reader(stdin)
        if not ready.done():
            ready.set_result(os.read(stdin, 65536))

    loop.add_reader(stdin, take)
    try:
        typed = await ready
    finally:
        loop.remove_reader(stdin)
    if not typed:
        terminal.say("")
        raise LeftOpen
    return typed.decode("utf-8", "replace").rstrip("\r\n")


async def first(*works: Coroutine[Any, Any, PromptAnswer]) -> PromptAnswer:
    """What the first to finish gives; the others are stopped."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""How much a reader of one call has to cross, and how large the object of a call is. The limits only go down."""

import ast
import asyncio
import itertools
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

import toolcrib
from toolcrib import Crib, tool
from toolcrib.store.sqlite.store import SqliteStore

SOURCE = Path(toolcrib.__file__).parent
LIVE = {"live_call": "LiveCall", "call_parts": "CallParts", "fence": "Fence", "call_facts": "CallFacts"}
"""The classes that make up the object of a call in flight, by their modules."""

ATTRIBUTES = 12
"""Attributes of the object of a call in flight; others assign none of them."""


class Walk(NamedTuple):
    """What one warm call crosses."""

    files: int
    lines: int
    jumps: int


LIMITS = {
    ("memory", "read"): Walk(7, 500, 15),
    ("memory", "once"): Walk(7, 590, 26),
    ("sqlite", "read"): Walk(9, 680, 24),
    ("sqlite", "once"): Walk(9, 810, 53),
}
"""Those on SQLite have some room: its thread does more while it waits, and the test waits for it."""


@tool(namespace="shop", read_only=True)
async def read(item: str) -> dict[str, str]:
    """Read something."""
    return {"item": item}


@tool(namespace="shop")
async def once(item: str) -> dict[str, str]:
    """Do something."""
    return {"item": item}


Place = tuple[str, int]


async def walked(store: str, name: str) -> list[Place]:
    """The functions of the package that one warm call enters, in order: file and first line."""
    entered: list[Place] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            entered.append((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    threading.settrace(trace)  # before the store starts its thread
    try:
        async with Crib([read, once], store=store) as crib:
            session = await crib.open("s", owner="ada", namespaces=["shop"])
            await session.call(f"shop.{name}", {"item": "x"})
            await crib.store.flush()
            if isinstance(crib.store, SqliteStore):
                crib.store._moves.rest()  # its looks come by time, and no call makes them
            entered.clear()
            sys.settrace(trace)
            await session.call(f"shop.{name}", {"item": "x"})
            if crib.store.url != "memory:":
                await crib.store.flush()
            sys.settrace(None)
            return list(entered)
    finally:
        sys.settrace(None)
        threading.settrace(None)


def lines_of(place: Place) -> int:
    """How many lines the function has that begins there."""
    for node in ast.walk(ast.parse(Path(place[0]).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            if place[1] in (first, node.lineno):
                return (node.end_lineno or node.lineno) - node.lineno + 1
    return 1


@pytest.mark.parametrize(("store", "name"), LIMITS)
def test_a_reader_of_one_call_crosses_no_more_than_so_much(store: str, name: str, tmp_path: Path) -> None:
    url = "memory:" if store == "memory" else f"sqlite:///{tmp_path}/log.db"
    entered = asyncio.run(walked(url, name))
    functions = set(entered)
    files = len({place[0] for place in functions})
    jumps = sum(one[0] != two[0] for one, two in itertools.pairwise(entered))
    walk = Walk(files, sum(map(lines_of, functions)), jumps)
    assert files > 3
    assert all(found <= limit for found, limit in zip(walk, LIMITS[store, name], strict=True)), walk


def assigned(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a piece of code assigns."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield inner


def attributes() -> set[str]:
    """The attributes of the object of a call in flight, wherever its classes declare or assign them."""
    found: set[str] = set()
    for module, name in LIVE.items():
        for node in ast.parse((SOURCE / "_call" / f"{module}.py").read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                found |= {
                    one.attr for one in assigned(node) if isinstance(one.value, ast.Name) and one.value.id == "self"
                }
                for part in node.body:
                    targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
                    found |= {one.id for one in targets if isinstance(one, ast.Name)}
    return found


def outside() -> set[str]:
    """Those that other modules assign: of `live`, of a seat, of a host, of a parent or a maker."""
    found, known = set[str](), attributes()
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "_call" and path.stem in LIVE:
            continue
        for one in assigned(ast.parse(path.read_text())):
            owner = one.value.id if isinstance(one.value, ast.Name) else getattr(one.value, "attr", "")
            if owner in ("live", "host", "parent", "maker", "seat", "_call", "_live") and one.attr in known:
                found.add(one.attr)
    return found


def test_the_object_of_a_call_in_flight_has_no_more_attributes() -> None:
    assert 0 < len(attributes()) <= ATTRIBUTES


def test_no_attribute_of_a_call_in_flight_is_assigned_from_outside() -> None:
    assert outside() == set()

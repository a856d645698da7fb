"""The multi-turn tasks of BFCL: their right calls, made straight to the suite's back ends and through a crib.

Each task has back ends of its own (a file system, a shop, a car) on both sides. Afterwards both have to be in the
same state, and each call has to have told the same.
"""

import ast
import asyncio
import copy
import importlib
import json
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.score.suite import from_pypi
from toolcrib import Crib, Session, Tool

TASKS = ("base", "long_context", "miss_func", "miss_param")
LIBRARY = "mpmath==1.3.0"
"""What a back end needs beside the standard library."""


def replay(archive: zipfile.ZipFile, wheel: Path, plain: Any) -> tuple[Counter[str], list[str]]:
    """Carry out all tasks; what was counted, and which came out otherwise. `plain` gives a schema the types of JSON."""
    counts: Counter[str] = Counter()
    failed: list[str] = []
    with _importable(wheel, from_pypi(LIBRARY)):
        config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
        described = {
            name: _lines(archive, f"bfcl_eval/data/multi_turn_func_doc/{file}")
            for name, file in config.MULTI_TURN_FUNC_DOC_FILE_MAPPING.items()
        }
        for kind in TASKS:
            name = f"BFCL_v4_multi_turn_{kind}.json"
            answers = {
                one["id"]: one["ground_truth"] for one in _lines(archive, f"bfcl_eval/data/possible_answer/{name}")
            }
            for task in _lines(archive, f"bfcl_eval/data/{name}"):
                tools = [one for made in task["involved_classes"] for one in described[made]]
                sides = [_back_ends(config, task) for _ in range(2)]
                calls = [call for turn in answers[task["id"]] for call in turn]
                problem = asyncio.run(_compare(calls, sides, tools, plain, counts))
                counts["tasks"] += 1
                counts["same"] += problem is None
                if problem is not None:
                    failed.append(f"{task['id']}: {problem}")
    return counts, failed


async def _compare(calls: list[str], sides: Any, functions: Any, plain: Any, counts: Counter[str]) -> str | None:
    """Make the calls on both sides; what came out otherwise, or None."""
    direct, behind = sides
    problem = None
    async with Crib(list(_tools(behind, functions, plain))) as crib:
        session = await crib.open("task", owner="bfcl")
        for call in calls:
            counts["calls"] += 1
            name, arguments = _parsed(call, functions)
            there = _told(getattr(_owner(direct, name), name), arguments)
            here = await _through(session, name, arguments)
            counts["alike"] += here == there
            if here != there and problem is None:
                problem = f"{call}: {here}, not {there}"[:300]
    for back_end in direct:
        if _state(direct[back_end]) != _state(behind[back_end]):
            return f"{back_end} is in another state" if problem is None else problem
    return problem


async def _through(session: Session, name: str, arguments: dict[str, Any]) -> Any:
    result = await session.call(name, arguments)
    return result.data if result.ok else f"refused: {result.failure}"


def _told(method: Any, arguments: dict[str, Any]) -> Any:
    """Return what a back end tells, as JSON has it."""
    return json.loads(json.dumps(method(**arguments), default=str))


def _tools(back_ends: dict[str, Any], functions: list[dict[str, Any]], plain: Any) -> Iterator[Tool]:
    for function in functions:
        method = getattr(_owner(back_ends, function["name"]), function["name"])

        async def run(_: Any, values: Any, method: Any = method) -> Any:
            return _told(method, dict(values))

        yield Tool(
            name=function["name"],
            description=function["description"],
            input_schema=plain(function["parameters"]),
            run=run,
            effect="idempotent",
        )


def _owner(back_ends: dict[str, Any], name: str) -> Any:
    return next(one for one in back_ends.values() if hasattr(one, name))


def _parsed(call: str, functions: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a call that is written as Python; those without a name are in order."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    name = node.func.id
    [names] = [list(one["parameters"]["properties"]) for one in functions if one["name"] == name]
    values = {key: ast.literal_eval(value) for key, value in zip(names, node.args, strict=False)}
    return name, values | {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}


def _back_ends(config: Any, task: dict[str, Any]) -> dict[str, Any]:
    made = {}
    for name in task["involved_classes"]:
        made[name] = getattr(importlib.import_module(config.CLASS_FILE_PATH_MAPPING[name]), name)()
        if name not in config.STATELESS_CLASSES:
            scenario = copy.deepcopy(task["initial_config"].get(name, {}))
            made[name]._load_scenario(scenario, long_context="long_context" in task["id"])
    return made


def _state(back_end: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(back_end).items() if not name.startswith("_")}


def _lines(archive: zipfile.ZipFile, path: str) -> list[Any]:
    return [json.loads(line) for line in archive.read(path).decode().splitlines() if line.strip()]


@contextmanager
def _importable(*wheels: Path) -> Iterator[None]:
    places = [str(wheel) for wheel in wheels]
    sys.path[:0] = places
    try:
        yield
    finally:
        sys.path[:] = [place for place in sys.path if place not in places]

"""What a tool cannot report: refused where it is made, and not shown to anybody."""

import math
from typing import Any

import pytest

from tests.contract.conftest import OpenCrib
from tests.contract.observers import log
from tests.requirements import requirement
from toolcrib import Context, Schedule, ToolFailure, tool
from toolcrib.testing import context

PROGRESSES = [-0.1, 1.01, 50, math.nan, math.inf, True, "0.5", object()]
STATUSES = ["", "runing", "waiting", "completed", None, 5]
PATCHES: list[Any] = [
    None,
    5,
    "x",
    [],
    {},
    [[]],
    {"op": "add", "path": "/a"},
    {"op": "append", "path": "/a", "value": 1},
    {"op": "replace", "path": "a", "value": 1},
    {"op": "move", "path": "/a"},
    {"op": "copy", "path": "/a", "from": "b"},
    [{"op": "remove", "path": "/a"}, {"op": "remove"}],
    {"op": "remove", "path": "/a~2"},
]
GOOD: list[Any] = [
    {"op": "add", "path": "", "value": None},
    {"op": "test", "path": "/a~1b/~0", "value": 1},
    [{"op": "move", "path": "/a", "from": "/b"}, {"op": "remove", "path": "/-"}],
]


@requirement("contract.ctx.10")
@pytest.mark.parametrize("progress", PROGRESSES)
def test_a_progress_outside_0_to_1_is_refused(progress: Any) -> None:
    ctx = context()
    with pytest.raises(ValueError, match="progress is a number from 0 to 1"):
        ctx.progress("far", progress)
    assert ctx.progress_log == []


@requirement("contract.ctx.10")
@pytest.mark.parametrize("status", STATUSES)
def test_a_status_that_nobody_knows_is_refused(status: Any) -> None:
    ctx = context()
    with pytest.raises(ValueError, match="pending, running, done, failed, cancelled"):
        ctx.progress("far", status=status)
    assert ctx.progress_log == []


@requirement("contract.ctx.10")
@pytest.mark.parametrize("patch", PATCHES, ids=str)
def test_a_delta_that_is_no_patch_is_refused(patch: Any) -> None:
    ctx = context()
    with pytest.raises(ValueError, match="JSON Patch"):
        ctx.activity_delta("plan", patch)
    assert ctx.told == []


@requirement("contract.ctx.10")
def test_what_can_be_is_told() -> None:
    ctx = context()
    for patch in GOOD:
        ctx.activity_delta("plan", patch)
    for progress in (0, 1, 0.5, None):
        ctx.progress("so far", progress)
    ctx.progress(loaded=7, total=5)
    ctx.progress(loaded=-1, total=5)
    assert [one.get("progress") for one in ctx.progress_log] == [0, 1, 0.5, None, 1.0, 0.0]
    assert len(ctx.told) == len(GOOD) + 6


@requirement("contract.ctx.10")
@pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=pytest.mark.process)])
async def test_a_tool_that_reports_nonsense_learns_it_at_that_line(open_crib: OpenCrib, isolate: bool) -> None:
    crib = await open_crib(tool(read_only=True, isolate=isolate)(boast))
    session = await crib.open(owner="ada")
    result = await session.call("boast")
    assert result.failure is not None
    assert "from 0 to 1, not 50" in result.failure.message
    assert [event.kind for event in await log(session) if event.kind == "progress"] == []


def boast(ctx: Context) -> str:
    """Boast."""
    try:
        ctx.progress("half", 50)
    except ValueError as error:
        raise ToolFailure("failed", str(error)) from None
    return "unreached"


def overstate(ctx: Context) -> str:
    """Overstate."""
    ctx.progress("half", 50)
    return "unreached"


def misname(ctx: Context) -> str:
    """Misname."""
    ctx.progress("half", status="runing")
    return "unreached"


def mispatch(ctx: Context) -> str:
    """Mispatch."""
    ctx.activity_delta("plan", {"op": "append", "path": "/a", "value": 1})
    return "unreached"


def misask(ctx: Context) -> str:
    """Misask."""
    ctx.ask("Sure?", kind="confrm")  # type: ignore[arg-type]  # the mistake
    return "unreached"


def miswant(ctx: Context) -> str:
    """Miswant."""
    return str(ctx.deps.nosuch)


def misplan(ctx: Context) -> str:
    """Misplan."""
    ctx.schedule("later", Schedule("nosuch", {}, after=5))
    return "unreached"


MISTAKES = {
    overstate: "progress is a number from 0 to 1, not 50",
    misname: "status is one of pending, running, done, failed, cancelled, not 'runing'",
    mispatch: "operation 0 has no `op` of add",
    misask: "'confrm' is no kind of a question, one of confirm, input",
    miswant: "No dependency named 'nosuch'",
    misplan: "Unknown tool: nosuch",
}


@requirement("contract.ctx.12")
@pytest.mark.parametrize("body", MISTAKES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=pytest.mark.process)])
async def test_a_mistake_of_the_author_is_told_to_whoever_calls(open_crib: OpenCrib, body: Any, isolate: bool) -> None:
    crib = await open_crib(tool(read_only=True, isolate=isolate)(body))
    session = await crib.open(owner="ada")
    failure = (await session.call(body.__name__)).failure
    assert failure is not None
    assert failure.code == "internal"
    assert failure.message.startswith(f"Tool '{body.__name__}' has a mistake: ")
    assert MISTAKES[body] in failure.message

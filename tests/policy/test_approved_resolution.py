"""An approval holds for what a call was resolved to when it was asked; what changed since is asked again."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from tests.contract.observers import code, parked
from tests.requirements import requirement
from toolcrib import Crib, CribLimits, Question, Session, Tool, tool

Place = Annotated[str, Field(json_schema_extra={"x-toolcrib-kind": "path"})]
Line = Annotated[str, Field(json_schema_extra={"x-toolcrib-kind": "command"})]


def tools(ran: list[str]) -> list[Tool]:
    @tool(requires_confirmation=True, capabilities=["fs:delete:{path}"])
    async def wipe(path: str) -> str:
        """Wipe a file."""
        ran.append(path)
        return "wiped"

    @tool(requires_confirmation=True)
    async def touch(path: Place) -> str:
        """Touch a file, of which nothing but its kind is declared."""
        ran.append(path)
        return "touched"

    @tool(requires_confirmation=True)
    async def sh(command: Line) -> str:
        """Run a command."""
        ran.append(command)
        return "run"

    return [wipe, touch, sh]


def swap(folder: Path) -> None:
    """Lets the link lead elsewhere."""
    (folder / "link").unlink()
    (folder / "link").symlink_to(folder / "precious")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("draft", "precious"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "draft")
    return tmp_path


CALLS = [("wipe", {"path": "link"}), ("touch", {"path": "link"}), ("sh", {"command": "cat link"})]


async def the_question(session: Session) -> Question:
    (question,) = await session.questions()
    return question


@requirement("security.approval.1")
@pytest.mark.parametrize(("name", "args"), CALLS)
async def test_a_link_that_was_swapped_after_the_question_asks_again(
    folder: Path, name: str, args: dict[str, Any]
) -> None:
    ran: list[str] = []
    async with Crib(tools(ran), workspace=folder) as crib:
        session = await crib.open("s", owner="ada")
        question = await parked(session, name, args)
        assert str(folder / "draft") in str(question.data)
        swap(folder)
        await session.answer(question.id, "accept")
        again = await the_question(session)
        assert (ran, again.id != question.id) == ([], True)
        assert str(folder / "precious") in again.prompt
        assert str(folder / "precious") in str(again.data)
        await session.answer(again.id, "accept")
        assert (await session.result(question.call)).ok
    assert len(ran) == 1


@requirement("security.approval.1")
@pytest.mark.parametrize(("name", "args"), CALLS)
async def test_what_did_not_change_is_asked_once(folder: Path, name: str, args: dict[str, Any]) -> None:
    ran: list[str] = []
    async with Crib(tools(ran), workspace=folder) as crib:
        session = await crib.open("s", owner="ada")
        question = await parked(session, name, args)
        (folder / "draft").write_text("more")
        await session.answer(question.id, "accept")
        assert (await session.result(question.call)).ok
    assert len(ran) == 1


@requirement("security.approval.1")
async def test_it_is_asked_again_after_a_restart_too_and_may_be_declined(folder: Path, tmp_path: Path) -> None:
    ran: list[str] = []
    url = f"sqlite:///{tmp_path}/log.db"
    async with Crib(tools(ran), store=url, workspace=folder) as crib:
        question = await parked(await crib.open("s", owner="ada"), "wipe", {"path": "link"})
    swap(folder)
    async with Crib(tools(ran), store=url, workspace=folder) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question.id, "accept")
        await session.answer((await the_question(session)).id, "decline")
        assert code(await session.result(question.call)) == "declined"
    assert ran == []


@requirement("security.approval.1")
@pytest.mark.parametrize(("name", "args"), CALLS)
async def test_arguments_that_an_approver_edited_run_at_once_as_long_as_they_lead_where_they_did(
    folder: Path, name: str, args: dict[str, Any]
) -> None:
    ran: list[str] = []
    async with Crib(tools(ran), workspace=folder) as crib:
        session = await crib.open("s", owner="ada")
        question = await parked(session, name, dict.fromkeys(args, "draft"))
        await session.answer(question.id, "accept", arguments=args)
        assert (await session.result(question.call)).ok
    assert ran == list(args.values())


@requirement("security.approval.1")
@pytest.mark.parametrize(("name", "args"), CALLS)
async def test_a_link_in_edited_arguments_that_was_swapped_before_they_ran_asks_again(
    folder: Path, tmp_path: Path, name: str, args: dict[str, Any]
) -> None:
    ran: list[str] = []
    url = f"sqlite:///{tmp_path}/log.db"
    gate = asyncio.Event()

    @tool(read_only=True)
    async def hold() -> int:
        """Keep the only seat."""
        await gate.wait()
        return 1

    limits = CribLimits(per_session=1)
    async with Crib([*tools(ran), hold], store=url, workspace=folder, limits=limits) as crib:
        session = await crib.open("s", owner="ada")
        question = await parked(session, name, dict.fromkeys(args, "draft"))
        await session.submit("hold")
        await session.answer(question.id, "accept", arguments=args)
        await crib.stop(grace=0)
    swap(folder)
    gate.set()
    async with Crib([*tools(ran), hold], store=url, workspace=folder) as crib:
        session = await crib.open("s", owner="ada")
        again = await the_question(session)
        assert (ran, again.id != question.id) == ([], True)
        assert str(folder / "precious") in again.prompt
        assert again.arguments == args
        await session.answer(again.id, "accept")
        assert (await session.result(question.call)).ok
    assert ran == list(args.values())


def _moved(folder: Path) -> dict[str, Any]:
    (folder / "sub").mkdir()
    (folder / "sub" / "link").write_text("another")
    return {"workspace": folder / "sub"}


def _narrowed(folder: Path) -> dict[str, Any]:
    needs = {"capabilities": ["fs:delete:{path}", "net:egress:backup.example.com"]}
    return {"workspace": folder, "declare": {"*wipe": needs}}


@requirement("security.approval.1")
@pytest.mark.parametrize("changed", [_moved, _narrowed])
async def test_another_workspace_or_other_capabilities_ask_again(
    folder: Path, tmp_path: Path, changed: Callable[[Path], dict[str, Any]]
) -> None:
    ran: list[str] = []
    url = f"sqlite:///{tmp_path}/log.db"
    async with Crib(tools(ran), store=url, workspace=folder) as crib:
        question = await parked(await crib.open("s", owner="ada"), "wipe", {"path": "link"})
    async with Crib(tools(ran), store=url, **changed(folder)) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question.id, "accept")
        await crib.store.flush()
        rows = await crib.store.calls("s")
        assert [(row.state, row.code) for row in rows] in ([("waiting", None)], [("done", "denied")])
    assert ran == []

"""Rules, grants and approvals where calls are made: what is granted, asked, denied, narrowed and explained."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Context, Crib, Refused, Session, tool
from toolcrib.types import Question


@tool(namespace="box", capabilities=["fs:write:{path}"])
def put(path: str, text: str = "") -> str:
    """Write a file."""
    return path


@tool(namespace="box", capabilities=["exec:cmd:{command}"])
def shell(command: str) -> str:
    """Run a command."""
    return command


@tool(namespace="box", destructive=True)
def wipe(name: str) -> str:
    """Delete something."""
    return name


TOOLS = [put, shell, wipe]


async def opened(crib: Crib, **more: Any) -> Session:
    return await crib.open("s", owner="ada", namespaces=["box"], **more)


def code(result: Any) -> str | None:
    return None if result.failure is None else result.failure.code


@requirement("policy.order.1")
async def test_what_is_not_granted_at_all_is_denied_before_its_arguments_are_looked_at(tmp_path: Path) -> None:
    async with Crib(TOOLS, policy={"grants": {"allow": ["fs:read:/**"]}}, workspace=tmp_path) as crib:
        result = await (await opened(crib)).call("put", {"nonsense": 1})
        assert code(result) == "denied"
        assert "fs:write is not granted" in str(result.failure)


@requirement("policy.order.1", "policy.why.2")
async def test_a_denial_says_what_is_not_granted_and_what_is(tmp_path: Path) -> None:
    async with Crib(TOOLS, policy={"grants": {"allow": ["fs:write:${workspace}/**"]}}, workspace=tmp_path) as crib:
        session = await opened(crib)
        assert (await session.call("put", {"path": "a.txt"})).ok
        result = await session.call("put", {"path": "../../etc/hosts"})
        assert code(result) == "denied"
        assert "is not granted (granted: " in str(result.failure)


@requirement("policy.order.2")
async def test_a_denied_call_is_in_the_log_with_the_verdict() -> None:
    policy = {"preset": "pro", "rules": [{"id": "no-rm", "deny": "shell(rm *)", "reason": "Use the trash."}]}
    async with Crib(TOOLS, policy=policy) as crib:
        session = await opened(crib)
        assert "Use the trash." in str((await session.call("shell", {"command": "ls; rm x"})).failure)
        done = [event async for event in session.events(follow=False) if event.kind == "done"][-1]
        assert (done.fields["verdict"]["effect"], done.fields["verdict"]["rule"]) == ("deny", "no-rm")


async def test_an_argument_that_cannot_be_judged_is_invalid() -> None:
    async with Crib(TOOLS, policy={"preset": "pro"}) as crib:
        assert code(await (await opened(crib)).call("put", {"path": "a\x00b"})) == "invalid_arguments"


@requirement("policy.order.3")
async def test_grants_of_a_session_only_narrow(tmp_path: Path) -> None:
    async with Crib(TOOLS, policy={"grants": {"allow": ["fs:write:/tmp/a/**"]}}, workspace=tmp_path) as crib:
        session = await opened(crib, grants={"allow": ["fs:write:/tmp/**"]})
        assert (await session.call("put", {"path": "/tmp/a/x"})).ok
        assert code(await session.call("put", {"path": "/tmp/b/x"})) == "denied"


@requirement("policy.ns.2")
async def test_narrowing_takes_effect_for_the_next_call_and_survives_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    async with Crib(TOOLS, store=store, policy={"preset": "pro"}) as crib:
        session = await opened(crib)
        assert (await session.call("put", {"path": "/tmp/x"})).ok
        await session.narrow(grants={"allow": ["fs:write:/srv/**"]})
        assert code(await session.call("put", {"path": "/tmp/x"})) == "denied"
        with pytest.raises(Refused, match="Narrowing opens nothing"):
            await session.narrow(namespaces=["builtin"])
    async with Crib(TOOLS, store=store, policy={"preset": "pro"}) as crib:
        session = await crib.open("s", owner="ada")
        assert code(await session.call("put", {"path": "/tmp/x"})) == "denied"


async def asked(session: Session, command: str) -> Question:
    call = await session.submit("shell", {"command": command})
    return next(question for question in await session.questions() if question.call == call.id)


@requirement("policy.approve.4")
async def test_an_approval_for_the_session_releases_what_it_covers_and_nothing_else(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    async with Crib(TOOLS, store=store) as crib:
        session = await opened(crib)
        first, same, other = [await asked(session, text) for text in ("git status", "git status", "git push")]
        assert first.offer is not None
        await session.answer(first.id, "accept", actor="bob", scope="session")
        assert (await session.result(first.call)).ok
        assert (await session.result(same.call)).ok
        assert [question.call for question in await session.questions()] == [other.call]
    async with Crib(TOOLS, store=store) as crib:
        session = await crib.open("s", owner="ada")
        assert (await session.call("shell", {"command": "git status"})).ok


async def open_questions(session: Session, *prompts: str) -> Sequence[Question]:
    """What is open, as soon as it is that."""
    async with asyncio.timeout(60):
        found = await session.questions()
        while sorted(one.prompt for one in found) != sorted(prompts):
            await asyncio.sleep(0)
            found = await session.questions()
    return found


@requirement("policy.approve.4")
async def test_an_approval_for_the_session_answers_no_question_of_a_tool() -> None:
    @tool(effect="once")
    async def pay(ctx: Context, to: str) -> str:
        """Pay somebody whatever they say."""
        return str((await ctx.ask("How much?", key="much")).value)

    async with Crib([pay], policy={"rules": [{"ask": "pay"}]}) as crib:
        session = await crib.open("s", owner="ada")
        calls = [await session.submit("pay", {"to": "bob"}) for _ in range(2)]
        first, second = await session.questions()
        await session.answer(first.id, "accept")
        await open_questions(session, "How much?", second.prompt)
        await session.answer(second.id, "accept", scope="session")
        await open_questions(session, "How much?", "How much?")
        assert [(await session.status(call.id)).status for call in calls] == ["waiting", "waiting"]


@requirement("policy.approve.4")
async def test_an_opaque_command_is_never_offered_for_the_session() -> None:
    async with Crib(TOOLS) as crib:
        session = await opened(crib)
        assert (await asked(session, "$TOOL --all")).offer is None
        assert (await asked(session, "python3 x.py")).offer is None


@requirement("policy.approve.3")
async def test_edited_arguments_that_the_policy_denies_are_refused_and_the_question_stays() -> None:
    policy = {"grants": {"ask": ["fs:write:/tmp/**"]}}
    async with Crib(TOOLS, policy=policy) as crib:
        session = await opened(crib)
        call = await session.submit("put", {"path": "/tmp/a"})
        (question,) = await session.questions()
        with pytest.raises(Refused) as refused:
            await session.answer(question.id, "accept", arguments={"path": "/etc/passwd"})
        assert refused.value.code == "denied"
        await session.answer(question.id, "accept", arguments={"path": "/tmp/b"})
        assert (await session.result(call.id)).data == "/tmp/b"


@requirement("policy.approve.2")
async def test_a_deny_that_came_after_the_question_holds(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/log.db"
    async with Crib(TOOLS, store=store) as crib:
        question = await asked(await opened(crib), "git push")
    denying = {"grants": {"allow": ["*"]}, "rules": [{"deny": "shell(git push *)"}]}
    async with Crib(TOOLS, store=store, policy=denying) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question.id, "accept")
        assert code(await session.result(question.call)) == "denied"


@requirement("policy.rule.8")
async def test_a_tool_that_is_always_denied_is_not_shown_to_the_model() -> None:
    async with Crib(TOOLS, policy={"preset": "pro", "rules": [{"deny": "wipe"}]}) as crib:
        session = await opened(crib)
        assert sorted(session.model_tools()) == ["put", "shell"]
        assert code(await session.call("wipe", {"name": "x"})) == "denied"


@requirement("policy.preset.2")
async def test_a_preset_bounds_the_calls_of_a_turn_and_the_time_of_each() -> None:
    async with Crib(TOOLS, policy={"preset": "anonymous"}) as crib:
        session = await opened(crib)
        results = [await session.call("wipe", {"name": str(n)}, turn="t", background=True) for n in range(5)]
        assert all(result.ok for result in results)
        beyond = await session.call("wipe", {"name": "6"}, turn="t")
        assert "Too many calls in one turn (limit 5)" in str(beyond.failure)
        assert crib.pipeline.admission.preset is not None
        assert crib.pipeline.admission.preset.max_runtime_s == 30


@requirement("policy.why.1")
async def test_why_tells_the_verdict_and_calls_nothing() -> None:
    async with Crib(TOOLS, policy={"preset": "pro", "rules": [{"ask": "shell(git push *)"}]}) as crib:
        session = await opened(crib)
        found = session.why("shell", {"command": "git status && git push"})
        assert found.verdict.effect == "ask"
        assert any("git push" in line for line in found.lines())
        assert await session.completed() == []
        with pytest.raises(Refused, match="Unknown tool"):
            session.why("nothing", {})

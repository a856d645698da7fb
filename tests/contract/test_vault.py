"""What is kept of secret arguments: encrypted, with a key outside of the store, and only until the call is over."""

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from tests.contract.conftest import OpenCrib
from tests.contract.observers import code, log, next_question, parked, refusal
from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib import Context, Crib, Question, Session, tool
from toolcrib.errors import BadSecretKey, ToolFailure
from toolcrib.store import SECRET
from toolcrib.store.codec import digest
from toolcrib.store.vault import NAME, SealedValue, SecretKey
from toolcrib.testing import FakeClock

Password = Annotated[str, Field(json_schema_extra={"x-toolcrib-kind": "secret"})]
HUNTER = "hunter2-is-a-secret"
KEYS = ["0123456789abcdef" * 4, "fedcba9876543210" * 4]


@tool(requires_confirmation=True)
async def log_in(ctx: Context, password: Password, host: str = "a") -> str:
    """Log in, and ask."""
    await ctx.step("one", lambda: {"with": password})
    answer = await ctx.ask("Which?", key="which")
    return f"{len(password)} {host} {answer.value}"


def on_disk(folder: Path, *texts: str) -> list[str]:
    """The files of a folder in which one of the texts is found."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in found if any(text.encode() in path.read_bytes() for text in texts)]


async def secret_ids(crib: Crib, session: Session) -> list[str]:
    return [id for id in (await crib.store.belongings(session.id))[1] if id.startswith(SECRET)]


@requirement("security.secret.2")
async def test_what_is_kept_is_encrypted_and_opens_after_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with Crib([log_in], store=url) as crib:
        session = await crib.open("s", owner="ada")
        question = await parked(session, "log_in", {"password": HUNTER})
        assert len(await secret_ids(crib, session)) == 1
    assert on_disk(tmp_path, HUNTER) == []
    async with Crib([log_in], store=url) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question.id, "accept", arguments={"password": f"{HUNTER}-edited", "host": "b"})
        second = await next_question(session, question)
        assert len(await secret_ids(crib, session)) == 3  # arguments, edit, step
        await crib.store.flush()
        assert on_disk(tmp_path, HUNTER) == []
        await session.answer(second.id, "accept", "c")
        assert (await session.result(question.call)).data == f"{len(HUNTER) + 7} b c"
        assert await secret_ids(crib, session) == []
    assert on_disk(tmp_path, HUNTER) == []


async def ended(end: str, session: Session, question: Question) -> str | None:
    if end == "cancel":
        await session.cancel(question.call)
    elif end == "decline":
        await session.answer(question.id, "decline")
    else:
        await session.answer(question.id, "accept")
    return code(await session.result(question.call))


@requirement("security.secret.3")
@pytest.mark.parametrize(
    ("end", "said"), [("cancel", "cancelled"), ("decline", "declined"), ("fail", "failed"), ("run", None)]
)
async def test_nothing_is_kept_once_a_call_is_over(open_crib: OpenCrib, end: str, said: str | None) -> None:
    @tool(requires_confirmation=True)
    async def leave(ctx: Context, password: Password) -> str:
        """Leave."""
        await ctx.step("one", lambda: password)
        if end == "fail":
            raise ToolFailure("failed", "no")
        return "left"

    crib = await open_crib(leave)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "leave", {"password": HUNTER})
    assert await secret_ids(crib, session)
    assert await ended(end, session, question) == said
    assert await secret_ids(crib, session) == []


@requirement("security.secret.3")
async def test_nothing_is_kept_of_calls_that_expire(open_crib: OpenCrib, clock: FakeClock) -> None:
    crib = await open_crib(log_in)
    session = await crib.open("s", owner="ada")
    question = await parked(session, "log_in", {"password": HUNTER})
    await clock.advance(25 * 3600)
    assert code(await session.result(question.call)) == "timeout"
    assert await secret_ids(crib, session) == []


@requirement("security.secret.3")
async def test_nothing_is_kept_of_calls_that_run_at_once_or_are_refused(open_crib: OpenCrib) -> None:
    @tool
    async def enter(password: Password, here: Password = "") -> str:
        """Enter."""
        return "in"

    @tool(read_only=True)
    async def look(ctx: Context, password: Password) -> str:
        """Look."""
        await ctx.step("one", lambda: password)
        return "seen"

    crib = await open_crib(enter, look)
    session = await crib.open("s", owner="ada")
    for name in ("enter", "look"):
        assert (await session.call(name, {"password": HUNTER})).ok
    assert code(await session.call("enter", {"pass": HUNTER})) == "invalid_arguments"
    for _ in range(2):
        assert (await session.call("enter", {"password": HUNTER}, key="k")).ok
    assert (await session.result((await session.submit("look", {"password": HUNTER})).id)).ok
    assert await secret_ids(crib, session) == []


CRASH = """
import asyncio, os, sys
sys.path.insert(0, {root!r})
from tests.contract.test_vault import dies, log_in
from toolcrib import Crib

async def main():
    async with Crib([dies, log_in], store="sqlite:///log.db") as crib:
        session = await crib.open("s", owner="ada")
        if {call!r} == "log_in":
            await session.submit("log_in", {{"password": {secret!r}}})
            await crib.store.flush()
            os._exit(3)
        await session.call({call!r}, {{"password": {secret!r}}})

asyncio.run(main())
"""


@tool(effect="idempotent")
async def dies(ctx: Context, password: Password) -> str:
    """Die, and be well the next time."""
    done = Path("died")
    if not done.exists():
        await ctx.step("one", lambda: password)
        done.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    again = await ctx.step("one", lambda: "never")
    return f"{password == again == HUNTER}"


def crash(folder: Path, call: str, **variables: str) -> None:
    text = CRASH.format(root=str(ROOT), call=call, secret=HUNTER)
    subprocess.run([sys.executable, "-c", text], cwd=folder, env=os.environ | variables, timeout=60, check=False)


@requirement("security.secret.2", "security.secret.3")
@pytest.mark.process
async def test_a_call_goes_on_after_a_kill_with_what_was_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    crash(tmp_path, "dies")
    assert (tmp_path / "died").exists()
    assert on_disk(tmp_path, HUNTER) == []
    async with Crib([dies, log_in], store="sqlite:///log.db") as crib:
        session = await crib.open("s", owner="ada")
        (row,) = await crib.store.calls("s")
        assert (await session.result(row.id)).data == "True"
        assert await secret_ids(crib, session) == []


@requirement("security.secret.2", "security.secret.4")
@pytest.mark.process
async def test_the_key_lies_in_the_state_folder_and_without_it_nothing_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    crash(tmp_path / "project", "log_in", XDG_STATE_HOME=str(here))
    key = here / "toolcrib" / NAME
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert on_disk(tmp_path / "project", key.read_text().strip(), HUNTER) == []
    monkeypatch.setenv("XDG_STATE_HOME", str(elsewhere))
    async with Crib([log_in], store="sqlite:///log.db") as crib:
        session = await crib.open("s", owner="ada")
        (question,) = await session.questions()
        assert (await refusal(session.answer(question.id, "accept"))).code == "unavailable"
        assert len(await session.questions()) == 1  # whoever has the key answers it
    monkeypatch.setenv("XDG_STATE_HOME", str(here))
    async with Crib([log_in], store="sqlite:///log.db") as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question.id, "accept")
        assert (await next_question(session, question)).prompt == "Which?"


@requirement("security.secret.2")
async def test_without_its_key_a_call_ends_and_can_be_ended(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with Crib([log_in], store=url, secret_key=KEYS[0]) as crib:
        session = await crib.open("s", owner="ada")
        first = await parked(session, "log_in", {"password": HUNTER})
        second = await parked(session, "log_in", {"password": HUNTER})
    async with Crib([log_in], store=url, secret_key=KEYS[1]) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(first.id, "decline")
        await session.cancel(second.call)
        assert [code(await session.result(one.call)) for one in (first, second)] == ["declined", "cancelled"]
        assert await secret_ids(crib, session) == []


@requirement("security.secret.2")
async def test_an_approved_call_that_goes_on_without_its_key_is_told_of_the_key_and_not_of_a_change(
    tmp_path: Path,
) -> None:
    url, begun = f"sqlite:///{tmp_path}/log.db", asyncio.Event()

    @tool(requires_confirmation=True, effect="idempotent")
    async def enter(password: Password) -> str:
        """Go in, and stay."""
        begun.set()
        await asyncio.Event().wait()
        return password

    async with Crib([enter], store=url, secret_key=KEYS[0]) as crib:
        session = await crib.open("s", owner="ada")
        question = await parked(session, "enter", {"password": HUNTER})
        await session.answer(question.id, "accept")
        await asyncio.wait_for(begun.wait(), 60)
        await crib.stop(grace=0)
    async with Crib([enter], store=url, secret_key=KEYS[1]) as crib:
        session = await crib.open("s", owner="ada")
        failure = (await asyncio.wait_for(session.result(question.call), 60)).failure
    assert failure is not None
    assert (failure.code, failure.retryable) == ("unavailable", False)


@requirement("security.secret.2")
async def test_a_value_opens_in_its_own_place_alone(open_crib: OpenCrib) -> None:
    crib = await open_crib(log_in)
    session = await crib.open("s", owner="ada")
    first = await parked(session, "log_in", {"password": HUNTER})
    kept = await crib.store.kept("s", f"{SECRET}{first.call}")
    assert kept is not None
    await crib.open("other", owner="eve")
    await crib.store.keep("other", f"{SECRET}{first.call}", kept)
    with pytest.raises(SealedValue):
        await crib.pipeline.vault.kept("other", f"{SECRET}{first.call}")
    await crib.store.keep("s", f"{SECRET}changed", kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(SealedValue):
        await crib.pipeline.vault.kept("s", f"{SECRET}changed")


async def _kept_with(tmp_path: Path, key: SecretKey | None) -> str:
    """What becomes of a call that was kept with the first key, for a crib with this one."""
    url = f"sqlite:///{tmp_path}/log.db"
    async with Crib([log_in], store=url, secret_key=KEYS[0]) as crib:
        question = await parked(await crib.open("s", owner="ada"), "log_in", {"password": HUNTER})
    async with Crib([log_in], store=url, secret_key=key) as crib:
        session = await crib.open("s", owner="ada")
        await session.answer(question.id, "accept")
        return (await next_question(session, question)).prompt


@requirement("security.secret.4")
async def test_a_key_is_a_text_bytes_a_file_or_a_function_and_may_be_an_older_one(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEYS[1]}\n{KEYS[0]}\n")
    ways: list[SecretKey] = [KEYS[0], KEYS[0].encode(), f"{KEYS[1]} {KEYS[0]}", file, lambda: KEYS[0]]
    for number, key in enumerate(ways):
        (tmp_path / str(number)).mkdir()
        assert await _kept_with(tmp_path / str(number), key) == "Which?"


@requirement("security.secret.4")
@pytest.mark.parametrize("key", ["short", "", b"", Path("absent/key"), lambda: ""])
async def test_a_key_that_cannot_be_used_is_told_at_the_start(key: SecretKey) -> None:
    with pytest.raises(BadSecretKey):
        await Crib([log_in], secret_key=key).start()


@requirement("security.secret.4")
async def test_where_no_key_can_be_made_secret_calls_end_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool
    async def plain(host: str) -> str:
        """Plain."""
        return host

    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    async with Crib([log_in, plain], store=f"sqlite:///{tmp_path}/log.db") as crib:
        session = await crib.open("s", owner="ada")
        result = await session.call("log_in", {"password": HUNTER})
        assert (code(result), "secret_key" in result.text) == ("unavailable", True)
        assert (await session.call("plain", {"host": "a"})).ok
    assert on_disk(tmp_path, HUNTER) == []


@requirement("security.secret.6")
async def test_digests_tell_nothing_of_short_secrets(tmp_path: Path) -> None:
    @tool(requires_confirmation=True)
    async def unlock(pin: Password) -> str:
        """Unlock."""
        return "open"

    async def digests(folder: Path) -> set[str]:
        folder.mkdir()
        async with Crib([unlock], store=f"sqlite:///{folder}/log.db", secret_key=KEYS[0]) as crib:
            session = await crib.open("s", owner="ada")
            question = await parked(session, "unlock", {"pin": "1234"})
            await session.answer(question.id, "accept")
            assert (await session.result(question.call)).ok
            unlocked = session.tool("unlock")
            assert unlocked is not None
            guessed = digest("s", question.call, unlocked.fingerprint, b'{"pin":"1234"}')
            said = {event.fields["digest"] for event in await log(session) if "digest" in event.fields}
            return {guessed} & {*said, question.digest}

    assert await digests(tmp_path / "one") == set()


@requirement("security.secret.3")
async def test_what_an_earlier_release_left_is_deleted_when_the_file_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with Crib([log_in], store=f"sqlite:///{path}") as crib:
        session = await crib.open("s", owner="ada")
        open_one = await parked(session, "log_in", {"password": HUNTER})
        over = await parked(session, "log_in", {"password": HUNTER})
        await session.cancel(over.call)
        await crib.store.keep("s", f"{SECRET}{over.call}", b"left")
        await crib.store.keep("s", f"{SECRET}{over.call}:step:1:one", b"left")
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "DROP TRIGGER events_counted; DROP TABLE rollups; DROP TABLE unrolled; DROP TABLE archived;"
            "PRAGMA user_version = 7"
        )
    async with Crib([log_in], store=f"sqlite:///{path}") as crib:
        assert await secret_ids(crib, await crib.open("s", owner="ada")) == [f"{SECRET}{open_one.call}"]

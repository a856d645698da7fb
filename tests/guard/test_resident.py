"""The resident process: it answers as the command alone does, to its own user, and ends when nobody asks."""

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.guard.hooks import Guarded
from tests.requirements import requirement
from toolcrib.guard.relay import is_private, parse

pytestmark = pytest.mark.process


@contextmanager
def resident(guarded: Guarded, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process, when it answers."""
    words = [sys.executable, "-m", "toolcrib", "guard", "generic", "--resident", "--crib", str(guarded.crib)]
    with subprocess.Popen(words, env=guarded.env | env, cwd="/", stderr=subprocess.PIPE) as process:
        try:
            while not answers(guarded):
                assert process.poll() is None, process.stderr and process.stderr.read()
            yield process
        finally:
            process.terminate()
            process.wait(60)


def answers(guarded: Guarded) -> bool:
    place = guarded.socket()
    if place is None:
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(place)) == 0


@requirement("adapters.guard.5")
def test_it_answers_as_the_command_alone_does(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, resident=True)
    alone = {"TOOLCRIB_GUARD_RESIDENT": "0"}
    with resident(guarded):
        for command in ("git status", "git push", "make"):
            data = guarded.claude_data("PreToolUse", "Bash", command=command)
            assert guarded.hook("claude-code", data).json == guarded.hook("claude-code", data, **alone).json
        assert guarded.hook("claude-code", "no json").code == 2


@requirement("adapters.guard.5")
def test_its_socket_is_for_its_user_alone(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, resident=True)
    with resident(guarded):
        place = guarded.socket()
        assert place is not None
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert guarded.socket() is None


@requirement("adapters.guard.5")
def test_a_folder_that_is_open_to_others_is_not_used(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, resident=True)
    place = guarded.sockets
    assert is_private(str(place))
    place.chmod(0o755)
    assert not is_private(str(place))
    (tmp_path / "link").symlink_to(place)
    assert not is_private(str(tmp_path / "link"))
    words = [sys.executable, "-m", "toolcrib", "guard", "generic", "--resident", "--crib", str(guarded.crib)]
    subprocess.run(words, env=guarded.env, check=True, timeout=120)
    assert guarded.socket() is None


@requirement("adapters.guard.5")
def test_it_takes_changes_of_the_policy_and_fails_closed(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, resident=True)
    with resident(guarded):
        assert guarded.claude("PreToolUse", "Bash", command="git status").decision == "allow"
        text = guarded.crib.read_text()
        guarded.crib.write_text(text + '    - {deny: "shell(git status*)", reason: enough}\n')
        assert guarded.claude("PreToolUse", "Bash", "2", command="git status").decision == "deny"
        guarded.crib.write_text("store: [")
        broken = guarded.claude("PreToolUse", "Bash", "3", command="git status")
        assert "the crib cannot be used" in broken.reason
        guarded.crib.write_text(text)
        assert guarded.claude("PreToolUse", "Bash", "4", command="git status").decision == "allow"


@requirement("adapters.guard.5")
def test_the_first_hook_starts_it_and_it_ends_when_idle(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, resident=True)
    guarded.env["TOOLCRIB_GUARD_IDLE_S"] = "1"
    assert guarded.claude("PreToolUse", "Bash", command="git status").decision == "allow"
    while guarded.socket() is None:
        os.sched_yield()
    while guarded.socket() is not None:
        os.sched_yield()


@requirement("adapters.guard.5")
def test_a_second_one_leaves_at_once(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, resident=True)
    with resident(guarded):
        words = [sys.executable, "-m", "toolcrib", "guard", "generic", "--resident", "--crib", str(guarded.crib)]
        subprocess.run(words, env=guarded.env, check=True, timeout=120)
        assert answers(guarded)


@requirement("adapters.guard.5")
def test_the_way_to_it_imports_no_library(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, resident=True)
    with resident(guarded):
        code = (
            "import sys; _, crib, *heavy = sys.argv; sys.argv = ['toolcrib', 'guard', 'claude-code', '--crib', crib]\n"
            "from toolcrib.cli import main\n"
            "try: main()\n"
            "except SystemExit: print(sorted(set(sys.modules).intersection(heavy)))"
        )
        data = json.dumps(guarded.claude_data("PreToolUse", "Bash", command="git status"))
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                code,
                str(guarded.crib),
                "asyncio",
                "typer",
                "pydantic",
                "msgspec",
                "json",
                "socket",
            ],
            input=data,
            capture_output=True,
            text=True,
            env=guarded.env,
            cwd=guarded.folder,
            check=True,
        )
    decision, loaded = done.stdout.splitlines()
    assert json.loads(decision)["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert loaded == "[]"


@requirement("adapters.guard.5")
@pytest.mark.parametrize(
    ("words", "client"),
    [
        ("claude-code --crib x --ask deny", "claude-code"),
        ("--crib=x generic", "generic"),
        ("x --help", None),
        ("--crib", None),
        ("a b", None),
        ("", None),
    ],
)
def test_words_are_read_or_left_to_the_command(words: str, client: str | None) -> None:
    found = parse(words.split())
    assert (None if found is None else found.client) == client

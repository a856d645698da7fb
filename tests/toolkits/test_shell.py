"""Programs in a place of their own: what they can do there, and what they cannot do anywhere else."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.requirements import requirement
from tests.toolkits.place import opened
from toolcrib import BadTool, Crib, ToolFailure
from toolcrib.toolkits import shell
from toolcrib.toolkits.shell import confinement, process
from toolcrib.toolkits.shell.command_user import ALLOW_ROOT, hand_over
from toolcrib.toolkits.shell.protections import Protections, probe_protections


def _isolates() -> bool:
    """Whether this system lets a program make such a place."""
    place = process.ProcessSandbox("/tmp")

    async def nobody(text: str) -> None:
        return None

    try:
        said = process.CapturedOutput(nobody), process.CapturedOutput(nobody)
        return asyncio.run(process.run(place.order(["true"], ".", 30), None, *said)) == 0
    except ToolFailure:
        return False


pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux" or not _isolates(), reason="user namespaces are not open to this user"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder, beside one that nobody may see."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_text("the secret")
    (tmp_path / "box/src").mkdir(parents=True)
    (tmp_path / "box/notes.md").write_text("one\ntwo\n")
    return tmp_path / "box"


async def bash(root: Path, command: str, settings: dict[str, Any] | None = None, **args: Any) -> Any:
    async with opened(shell.tools(root, **(settings or {}))) as session:
        return await session.call("shell", {"command": command, **args})


@requirement("shell.1")
async def test_a_command_gives_its_exit_code_and_what_it_printed(root: Path) -> None:
    data = (await bash(root, "cat notes.md | wc -l; echo bad >&2; echo x > made; exit 3")).data
    assert (data["exit_code"], data["stdout"].strip(), data["stderr"], data["truncated"]) == (3, "2", "bad\n", False)
    assert data["seconds"] >= 0
    assert (root / "made").read_text() == "x\n"


@requirement("shell.1")
async def test_a_program_runs_without_a_shell(root: Path) -> None:
    async with opened(shell.tools(root)) as session:
        args = {"argv": ["printf", "%s|", "$HOME", "; rm -rf .", "`id`", "*"], "timeout": 30}
        assert (await session.call("run_command", args)).data["stdout"] == "$HOME|; rm -rf .|`id`|*|"
        typed = {"argv": ["cat"], "stdin": "gr\u00fcn", "cwd": "src"}
        assert (await session.call("run_command", typed)).data["stdout"] == "gr\u00fcn"
        missing = (await session.call("run_command", {"argv": ["no-such-program"]})).failure
        assert missing is not None
        assert (missing.code, missing.retryable) == ("unavailable", False)
        assert (await session.call("run_command", {"argv": ["a\0b"]})).failure is not None


@requirement("shell.1", "shell.4")
async def test_what_it_is_said_to_do_and_that_it_is_asked_for(root: Path) -> None:
    async with Crib([shell.tools(root)], workspace=root) as crib:
        session = await crib.open("s", owner="ada", namespaces=["shell"])
        assert [tool.does for tool in session.tools() if tool.namespace == "shell"] == ["once", "once"]
        await session.submit("shell", {"command": "ls; rm x > y"})
        (question,) = await session.questions()
        assert question.kind == "confirm"
        needs = [need.capability for need in session.why("shell", {"command": "ls; rm x > y"}).needs]
        assert {"exec:cmd:ls", "exec:cmd:rm", f"fs:write:{root}/y"} <= set(needs)


@requirement("shell.4")
async def test_each_program_of_a_command_has_to_be_granted(root: Path) -> None:
    policy = {"grants": {"allow": ["exec:cmd:echo", "exec:cmd:cat"]}}
    async with opened(shell.tools(root), policy) as session:
        assert (await session.call("shell", {"command": "echo a | cat"})).ok
        for command in ("echo a; rm notes.md", "echo $(id)", "$X", "cat <(ls)", "bash -c 'echo a'", "echo a & env"):
            failure = (await session.call("shell", {"command": command})).failure
            assert failure is not None, command
            assert failure.code == "denied", command
        for argv in (["rm", "notes.md"], ["./echo"], ["env", "echo"], ["/tmp/echo"]):
            failure = (await session.call("run_command", {"argv": argv})).failure
            assert failure is not None, argv
            assert failure.code == "denied", argv
    assert (root / "notes.md").exists()


@requirement("shell.2")
async def test_nothing_outside_is_seen_or_changed(root: Path) -> None:
    outside = root.parent / "outside/secret.txt"
    (root / "link").symlink_to(outside)
    tries = [
        f"cat {outside}",
        "cat link",
        "cat ../outside/secret.txt",
        f"echo bad > {outside}",
        "cat /etc/shadow",
        "ls /root /home",
        "P=/proc; cat $P/1/root/etc/shadow",
        f"P=/proc; cat $P/1/cwd/{outside}",
        "touch /usr/x",
        "touch /x",
        "mount -o remount,rw /usr",
        "mount -t tmpfs none /mnt",
        "chroot / true",
        "unshare -Ur true",
        "mknod disk b 254 0",
        f"ln {outside} mine",
    ]
    result = await bash(root, "\n".join(f"({one}) && echo REACHED {number}" for number, one in enumerate(tries)))
    data = result.data
    assert result.ok, result
    assert "REACHED" not in data["stdout"], data
    assert "the secret" not in data["stdout"]
    assert outside.read_text() == "the secret"


@requirement("shell.2")
async def test_there_is_no_network_unless_it_is_switched_on(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED"
        assert "CONNECTED" not in (await bash(root, command)).data["stdout"]
        assert "CONNECTED" in (await bash(root, command, {"network": True})).data["stdout"]


@requirement("shell.2")
async def test_no_program_gets_more_rights_than_it_began_with(root: Path) -> None:
    status = (await bash(root, "cat /proc/self/status")).data["stdout"]
    rights = dict(line.split(":", 1) for line in status.splitlines())
    assert rights["NoNewPrivs"].strip() == "1"
    assert int(rights["CapBnd"], 16) & (1 << 21) == 0  # CAP_SYS_ADMIN, which a set-uid program could get back


@requirement("shell.2")
async def test_the_environment_holds_what_was_allowed_and_nothing_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "very-secret")
    data = (await bash(root, "env; tr '\\0' '\\n' < /proc/1/environ; cat /proc/1/cmdline", {"env": {"MODE": "x"}})).data
    names = {line.partition("=")[0] for line in data["stdout"].splitlines() if "=" in line}
    assert names <= {"PATH", "HOME", "LANG", "MODE", "PWD", "SHLVL", "_", "OLDPWD"}
    assert "MODE=x" in data["stdout"]
    assert "very-secret" not in json.dumps(data)


@requirement("shell.2")
async def test_without_a_place_of_its_own_nothing_runs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = root / "inside.py"
    broken.write_text("import os, sys\nos.write(int(sys.argv[1]), b'eno')\n")
    monkeypatch.setattr(process, "_SANDBOX", str(broken))
    failure = (await bash(root, "touch here")).failure
    assert (failure.code, failure.message, failure.retryable) == ("unavailable", "No sandbox available", False)
    assert not (root / "here").exists()


@requirement("shell.2")
async def test_a_folder_can_be_made_visible_and_stays_as_it_is(root: Path) -> None:
    outside = root.parent / "outside"
    data = (await bash(root, f"cat {outside}/secret.txt; touch {outside}/x", {"visible": [outside]})).data
    assert "the secret" in data["stdout"]
    assert data["exit_code"] != 0
    assert not (outside / "x").exists()


@requirement("shell.2")
@pytest.mark.parametrize("cwd", ["..", "/etc", "out", "none", "notes.md"])
async def test_a_command_starts_inside(root: Path, cwd: str) -> None:
    (root / "out").symlink_to("..")
    assert (await bash(root, "pwd", cwd=cwd)).failure is not None
    assert (await bash(root, "pwd", cwd="src")).data["stdout"].strip() == f"{root}/src"


@requirement("shell.3")
async def test_processes_memory_and_files_are_bounded(root: Path) -> None:
    bomb = (await bash(root, ":(){ :|:& };:; sleep 0.2; echo over", timeout=60)).data
    assert "Resource temporarily unavailable" in bomb["stderr"]
    large = (await bash(root, "head -c 100000000 /dev/zero > big; echo $?; stat -c %s big")).data
    assert large["stdout"].split()[-1] == str(64 * 1024 * 1024)
    hungry = (await bash(root, "dd if=/dev/zero of=/dev/null bs=2000M count=1")).data
    assert hungry["exit_code"] != 0
    limits = (await bash(root, "ulimit -t; ulimit -v; ulimit -u", timeout=7)).data["stdout"].split()
    assert limits == ["7", str(1024 * 1024), "64"]


def _left(mark: str) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"]) if mark in (one.info["cmdline"] or [])]


async def _gone(mark: str) -> None:
    """Waits until nobody is left; ends of strangers are told by nobody."""
    async with asyncio.timeout(60):
        while _left(mark):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)


STUBBORN = "trap '' TERM INT HUP; (setsid nohup sleep {mark} & ) ; (sleep {mark} &) ; echo ready; sleep {mark}"


@requirement("shell.3")
async def test_nobody_is_left_after_the_time_is_over(root: Path) -> None:
    mark = f"3333.{os.getpid()}1"
    failure = (await bash(root, STUBBORN.format(mark=mark), timeout=2)).failure
    assert failure is not None
    assert failure.code == "timeout"
    await _gone(mark)


@requirement("shell.3")
async def test_nobody_is_left_after_a_cancellation(root: Path) -> None:
    mark = f"3333.{os.getpid()}2"
    async with opened(shell.tools(root)) as session:
        call = await session.submit("shell", {"command": STUBBORN.format(mark=mark), "timeout": 300})
        async for event in session.events(call=call.id):
            if event.kind == "output":
                assert _left(mark)
                await session.cancel(call.id)
        failure = (await session.result(call.id)).failure
        assert failure is not None
        assert failure.code == "cancelled"
    await _gone(mark)


@requirement("shell.3")
async def test_nobody_is_left_after_a_command_that_ended(root: Path) -> None:
    mark = f"3333.{os.getpid()}3"
    assert (await bash(root, f"setsid nohup sleep {mark} > /dev/null 2>&1 & echo over")).data["stdout"] == "over\n"
    await _gone(mark)


@requirement("shell.4")
async def test_output_streams_and_what_is_too_much_is_kept_beside(root: Path) -> None:
    async with opened(shell.tools(root)) as session:
        call = await session.submit("shell", {"command": "seq 1 100000; echo last"})
        told = [event.fields async for event in session.events(call=call.id) if event.kind == "output"]
        result = await session.result(call.id)
        assert "".join(piece["delta"] for piece in told).startswith("1\n2\n3\n")
        assert (len(result.data["stdout"]), result.data["truncated"]) == (256 * 1024, True)
        kept = result.metadata["spilled"]
        whole = json.loads(await session.output(kept["output"], 0, kept["bytes"]))
        assert whole["stdout"].endswith("100000\nlast\n")


@requirement("shell.4")
async def test_a_flood_of_output_is_let_go(root: Path) -> None:
    data = (await bash(root, "head -c 300000000 /dev/zero | tr '\\0' x", timeout=300)).data
    assert (data["exit_code"], len(data["stdout"]), data["truncated"]) == (0, 256 * 1024, True)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for wrong in (tmp_path / "none", "/"):
        with pytest.raises(BadTool, match="root"):
            shell.tools(wrong)
    with pytest.raises(BadTool, match="visible"):
        shell.tools(tmp_path, visible=[tmp_path / "none"])


@requirement("shell.3")
async def test_a_command_that_still_prints_at_its_timeout_ends(root: Path) -> None:
    async with asyncio.timeout(120), opened(shell.tools(root)) as session:
        calls = [session.call("shell", {"command": "yes", "timeout": 1}) for _ in range(3)]
        failures = [result.failure for result in await asyncio.gather(*calls)]
        assert [failure.code for failure in failures if failure is not None] == ["timeout"] * 3


@requirement("policy.shell.12")
async def test_the_words_of_a_program_are_judged_like_a_command(root: Path) -> None:
    (root / "private").mkdir()
    (root / "private/key").write_text("the key")
    policy = {
        "grants": {"allow": ["exec:cmd:cat", "fs:read:${workspace}/**"], "deny": ["fs:read:${workspace}/private/**"]}
    }
    async with opened(shell.tools(root), policy, workspace=root) as session:
        assert (await session.call("run_command", {"argv": ["cat", "notes.md"]})).ok
        attempts: list[tuple[str, dict[str, Any]]] = [
            ("shell", {"command": "cat private/key"}),
            ("shell", {"command": "cat key", "cwd": "private"}),
            ("run_command", {"argv": ["cat", "private/key"]}),
            ("run_command", {"argv": ["/bin/cat", "src/../private/key"]}),
            ("run_command", {"argv": ["cat", "key"], "cwd": "private"}),
            ("run_command", {"argv": ["bash", "-c", "cat private/key"]}),
            ("run_command", {"argv": ["git", "-c", "alias.x=!cat private/key", "x"]}),
        ]
        for tool, args in attempts:
            failure = (await session.call(tool, args)).failure
            assert failure is not None, args
            assert failure.code == "denied", args


PROBE = r"""
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for name, number in CALLS.items():
    ctypes.set_errno(0)
    done = libc.syscall(number, 0x10000000, 0, 0, 0, 0, 0)
    print(name, "done" if done >= 0 else os.strerror(ctypes.get_errno()))
for family in (38, 40):
    ctypes.set_errno(0)
    done = libc.socket(family, 1, 0)
    print(f"socket{family}", "done" if done >= 0 else os.strerror(ctypes.get_errno()))
"""
NAMED = [
    "io_uring_setup",
    "io_uring_enter",
    "keyctl",
    "add_key",
    "request_key",
    "ptrace",
    "process_vm_readv",
    "mount",
    "umount2",
    "move_mount",
    "fsopen",
    "open_tree",
    "pivot_root",
    "chroot",
    "bpf",
    "userfaultfd",
    "unshare",
    "setns",
    "perf_event_open",
    "open_by_handle_at",
    "init_module",
    "kexec_load",
    "reboot",
    "swapon",
    "pidfd_getfd",
]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
@requirement("shell.5", "security.machine.1")
async def test_dangerous_system_calls_are_refused(root: Path) -> None:
    calls = confinement._X86_64 | confinement._NEW
    assert set(NAMED) <= set(calls)
    (root / "probe.py").write_text(f"CALLS = {calls!r}\n{PROBE}")
    async with opened(shell.tools(root)) as session:
        data = (await session.call("run_command", {"argv": ["/usr/bin/env", "python3", "probe.py"]})).data
        if data["exit_code"] == 127:
            pytest.skip("the system has no python3 of its own")
        said = dict(line.split(" ", 1) for line in data["stdout"].splitlines())
        assert len(said) == len(calls) + 2
        assert set(said.values()) == {"Operation not permitted"}


@requirement("shell.5")
async def test_no_file_gets_the_rights_of_another(root: Path) -> None:
    (root / "tool").write_text("#!/bin/sh\n")
    data = (
        await bash(root, "cp tool mine; chmod u+s tool; chmod 6755 mine; chmod 755 mine; install -m 4755 tool other")
    ).data
    assert data["exit_code"] != 0
    assert {path.name: path.stat().st_mode & 0o6000 for path in root.iterdir() if path.is_file()} == {
        path.name: 0 for path in root.iterdir() if path.is_file()
    }
    assert (root / "mine").stat().st_mode & 0o777 == 0o755


@requirement("shell.5")
async def test_programs_cannot_take_back_what_was_taken(root: Path) -> None:
    data = (await bash(root, "grep -E '^(NoNewPrivs|Seccomp|CapEff)' /proc/self/status")).data
    said = dict(line.split(":", 1) for line in data["stdout"].replace("\t", "").splitlines())
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")


@requirement("shell.3")
async def test_what_a_command_writes_in_all_is_bounded(root: Path) -> None:
    writes = "for i in $(seq 400); do head -c 1000000 /dev/urandom > part$i; done; sleep 300"
    async with asyncio.timeout(200):
        result = await bash(root, writes, {"disk_bytes": 50_000_000}, timeout=300)
    assert result.failure is not None
    assert result.failure.code == "too_large"
    assert (await bash(root, "rm part*; echo ok")).data["stdout"] == "ok\n"


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root could run something as root")


@requirement("security.machine.1")
async def test_root_is_not_among_the_users_of_a_command(root: Path) -> None:
    data = (await bash(root, "cat /proc/self/uid_map /proc/self/gid_map; cp /bin/sh planted; chmod 4755 planted")).data
    mapped = [line.split() for line in data["stdout"].splitlines()]
    assert [count for _, _, count in mapped] == ["1", "1"]
    assert all(inside == outside != "0" for inside, outside, _ in mapped)
    planted = (root / "planted").stat()
    assert planted.st_uid != 0 or os.geteuid() != 0
    assert planted.st_mode & 0o6000 == 0


@as_root
@requirement("security.machine.1")
async def test_for_root_commands_run_as_whoever_the_folder_belongs_to(root: Path) -> None:
    for path in (root, root / "src", root / "notes.md"):
        os.chown(path, 12345, 23456)
    (root / "of-root").write_text("x")
    data = (await bash(root, "id -u; id -g; touch made; echo y >> of-root; id -G; cat of-root")).data
    assert data["stdout"].split() == ["12345", "23456", "23456", "x"]
    assert ((root / "made").stat().st_uid, (root / "of-root").stat().st_uid) == (12345, 0)


@as_root
@requirement("security.machine.1")
async def test_a_folder_of_root_is_handed_over_without_following_links(root: Path) -> None:
    outside = root.parent / "outside/secret.txt"
    (root / "link").symlink_to(outside)
    (root / "src/elsewhere").symlink_to(outside.parent)
    assert (await bash(root, "echo three >> notes.md; id -u")).data["stdout"] == "65534\n"
    assert (root / "notes.md").read_text() == "one\ntwo\nthree\n"
    assert (outside.stat().st_uid, outside.parent.stat().st_uid) == (0, 0)


@as_root
@requirement("security.machine.1")
async def test_a_file_with_another_name_elsewhere_is_not_handed_over(root: Path) -> None:
    outside = root.parent / "outside/secret.txt"
    os.link(outside, root / "innocent")
    assert (await bash(root, "id -u")).data["stdout"] == "65534\n"
    assert (outside.stat().st_uid, (root / "notes.md").stat().st_uid) == (0, 65534)


@as_root
@requirement("security.machine.1")
@pytest.mark.parametrize("folder", ["/", "/etc", "/usr/bin", "/root", "/var/lib"])
def test_folders_of_the_system_are_not_handed_over(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[object]()
    monkeypatch.setattr(os, "chown", lambda *place, **_: given.append(place))
    hand_over(folder)
    assert given == []


@as_root
@requirement("security.machine.2")
async def test_a_server_of_root_runs_no_command_unless_it_is_told_to(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ALLOW_ROOT)
    failure = (await bash(root, "touch here")).failure
    assert (failure.code, failure.message) == ("unavailable", "Commands are not run by a server of root")
    assert f"{ALLOW_ROOT}=1" in failure.hint
    assert not (root / "here").exists()
    assert root.stat().st_uid == 0
    assert (await bash(root, "touch here", {"allow_root": True})).ok
    monkeypatch.setenv(ALLOW_ROOT, "1")
    assert not (await bash(root, "touch there", {"allow_root": False})).ok


@requirement("security.machine.3")
async def test_what_commands_are_held_by_is_found_out_by_running_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await probe_protections()
    assert (found.user_namespace, found.limits, found.root) == (True, True, os.geteuid() == 0)
    assert "user namespace" in found.describe()
    monkeypatch.setattr(process, "_SANDBOX", "/none")
    assert await probe_protections() == Protections(root=os.geteuid() == 0)
    assert (await probe_protections()).describe().startswith("none")

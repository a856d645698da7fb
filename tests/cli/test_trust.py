"""A folder that was never used: a person at a terminal is asked before its `crib.yaml` runs code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import ready
from tests.cli.project import Screen, environment
from tests.requirements import requirement

EVIL = '''
from pathlib import Path
from toolcrib import tool
Path("ran").touch()

@tool(read_only=True)
def look() -> str:
    """Look."""
    return "seen"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose module leaves a trace when it is imported."""
    made = tmp_path / "cloned"
    made.mkdir()
    (made / "evil.py").write_text(EVIL)
    (made / "crib.yaml").write_text("sources: [evil]\n")
    return made


def ran(folder: Path) -> bool:
    """Whether the module was imported since this was asked last."""
    trace = folder / "ran"
    found = trace.exists()
    trace.unlink(missing_ok=True)
    return found


def at_terminal(folder: Path, answer: str | None, *words: str, **env: str) -> int:
    """The exit code of a command at a terminal; without an answer none is asked for."""
    state = {"XDG_STATE_HOME": str(folder.parent / "state"), "TOOLCRIB_TRUST": "", **env}
    with Screen(words or ("tools", "list"), folder, **state) as screen:
        if answer is not None:
            screen.expect("sources: evil").expect("[y/N]").press(f"{answer}\n")
        code = screen.ended()
        assert answer is not None or "[y/N]" not in screen.shown
        return code


def in_script(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A command without a terminal."""
    given = environment() | {"XDG_STATE_HOME": str(folder.parent / "state"), "TOOLCRIB_TRUST": "", **env}
    return ready.run("-m", "toolcrib", "tools", "list", folder=folder, env=given)


@requirement("security.trust.1")
@pytest.mark.parametrize("answer", ["n", "", "maybe"])
def test_nothing_runs_without_a_yes(folder: Path, answer: str) -> None:
    assert at_terminal(folder, answer) == 1
    assert not ran(folder)


@requirement("security.trust.1")
def test_a_person_is_asked_once_for_a_folder_and_for_what_it_runs(folder: Path) -> None:
    assert at_terminal(folder, "y") == 0
    assert ran(folder)
    (folder / "crib.yaml").write_text("sources: [evil]\nretention: 3d\n")
    assert at_terminal(folder, None) == 0
    assert ran(folder)
    (folder / "crib.yaml").write_text("sources: [evil, other]\n")
    assert at_terminal(folder, "n") == 1
    assert not ran(folder)
    moved = folder.rename(folder.parent / "elsewhere")
    (moved / "crib.yaml").write_text("sources: [evil]\n")
    assert at_terminal(moved, "n") == 1


@requirement("security.trust.2")
def test_a_flag_or_a_variable_answers_beforehand(folder: Path) -> None:
    assert at_terminal(folder, None, TOOLCRIB_TRUST="0") == 1
    assert not ran(folder)
    assert at_terminal(folder, None, "--trust", "tools", "list") == 0
    assert ran(folder)
    assert at_terminal(folder, None, TOOLCRIB_TRUST="0") == 0  # it was agreed to


@requirement("security.trust.2")
def test_without_a_terminal_commands_go_on_unless_they_are_told_to_refuse(folder: Path) -> None:
    refused = in_script(folder, TOOLCRIB_TRUST="0")
    assert (refused.returncode, ran(folder)) == (1, False)
    assert "--trust" in refused.stderr
    assert (in_script(folder).returncode, ran(folder)) == (0, True)
    completing = in_script(folder, _TOOLCRIB_COMPLETE="complete_bash", COMP_WORDS="toolcrib call ", COMP_CWORD="2")
    assert not ran(folder), completing

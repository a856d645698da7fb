"""Root: what does not start without a word, and what a server tells of its protections."""

import json
import os

import httpx
import pytest

from tests.cli.project import Project
from tests.cli.test_serve import serving
from tests.requirements import requirement
from toolcrib.toolkits.shell.command_user import ALLOW_ROOT

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
PROTECTIONS = {"user_namespace", "limits", "seccomp", "landlock", "root"}


@as_root
@requirement("security.machine.2")
@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("worker",), ("cluster", "up")])
def test_nothing_is_served_as_root_without_a_word(
    project: Project, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ALLOW_ROOT)
    said = project.run(*words, code=2).err
    assert "would run as root" in said
    assert "--allow-root" in said


@as_root
@requirement("security.machine.2")
def test_whoever_means_it_says_so_by_a_flag(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALLOW_ROOT)
    with serving(project, "--allow-root") as (process, told):
        assert told["protections"]["root"] is True
        process.terminate()
        assert process.wait(60) == 0


@requirement("security.machine.3")
def test_a_server_tells_its_protections_when_it_starts_and_to_administrators(project: Project) -> None:
    with serving(project) as (_, told), httpx.Client(timeout=60) as http:
        assert set(told["protections"]) == PROTECTIONS
        http.headers["Authorization"] = f"Bearer {told['token']}"
        assert http.get(f"{told['api']}/me").json()["protections"] == told["protections"]
    key = json.loads(project.run("keys", "add", "bob", "--json").out)["key"]
    with serving(project) as (_, told), httpx.Client(timeout=60) as http:
        http.headers["Authorization"] = f"Bearer {key}"
        assert "protections" not in http.get(f"{told['api']}/me").json()


@requirement("security.machine.3")
def test_a_server_tells_a_person_in_a_line(project: Project) -> None:
    with project.start("serve", "--port", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        lines = [process.stderr.readline() for _ in range(2 + (os.geteuid() == 0))]
        assert any(line.startswith("Commands are held by: ") for line in lines)
        assert any("as root" in line for line in lines) is (os.geteuid() == 0)

"""The wheel and the sdist: what they hold, what they say of themselves, and that they install and run."""

import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import NamedTuple

import pytest

import toolcrib
from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib.extras import requirement as spelled

BUILDS = "TOOLCRIB_DIST"
"""A folder with a wheel and an sdist to look at, instead of fresh ones."""


class Built(NamedTuple):
    """A wheel, an sdist, and what lies in them."""

    wheel: Path
    sdist: Path

    def names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as archive:
            return {info.filename for info in archive.infolist() if not info.is_dir()}

    def source_names(self) -> set[str]:
        with tarfile.open(self.sdist) as archive:
            return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}

    def metadata(self) -> Message:
        [name] = [name for name in self.names() if name.endswith(".dist-info/METADATA")]
        with zipfile.ZipFile(self.wheel) as archive:
            return message_from_bytes(archive.read(name))


def tracked(*folders: str) -> set[str]:
    """List the files of these folders that belong to the project."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout, so what belongs to the project is not known")
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *folders]
    names = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = ROOT / os.environ[BUILDS] if BUILDS in os.environ else tmp_path_factory.mktemp("dist")
    if BUILDS not in os.environ:
        pytest.importorskip("build", reason="the extra toolcrib[dev] is not installed")
        argv = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, sdist)


@requirement("adoption.dist.1")
@pytest.mark.process
def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    package = {name for name in built.names() if ".dist-info/" not in name}
    assert package == {name.removeprefix("src/") for name in tracked("src/toolcrib")}
    assert {"toolcrib/py.typed", "toolcrib/console/page/index.html", "toolcrib/console/page/licenses.txt"} <= package
    assert len([name for name in package if name.endswith(".sql")]) > 10
    described = {name.partition(".dist-info/")[2] for name in built.names() - package}
    assert described == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


@requirement("adoption.dist.1")
@pytest.mark.process
def test_the_sdist_holds_files_of_the_project_alone(built: Built) -> None:
    names = built.source_names() - {"PKG-INFO"}
    assert {"pyproject.toml", "LICENSE", "README.md", "Makefile", "tests/requirements.py"} <= names
    assert names - tracked() == set()
    assert tracked("src") - names == set()


@requirement("adoption.dist.2")
@pytest.mark.process
def test_an_index_would_take_both(built: Built) -> None:
    pytest.importorskip("twine", reason="the extra toolcrib[dev] is not installed")
    argv = [sys.executable, "-m", "twine", "check", "--strict", str(built.wheel), str(built.sdist)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr


@requirement("adoption.dist.2")
@pytest.mark.process
def test_the_metadata_says_what_the_project_says(built: Built) -> None:
    said = built.metadata()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert (said["Name"], said["Version"], said["License-Expression"]) == (
        "toolcrib",
        toolcrib.__version__,
        "Apache-2.0",
    )
    assert set(said.get_all("Provides-Extra") or []) == set(extras)
    assert said["Requires-Python"] == ">=3.11"


@requirement("adoption.dist.3")
@pytest.mark.process
def test_a_tag_names_the_version(built: Built) -> None:
    argv = ["git", "tag", "--points-at", "HEAD", "v*"]
    tags = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True).stdout.split()
    assert tags in ([], [f"v{toolcrib.__version__}"])
    assert built.wheel.name == f"toolcrib-{toolcrib.__version__}-py3-none-any.whl"
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[(Unreleased|{re.escape(toolcrib.__version__)})\]", changes, re.MULTILINE)


def test_the_page_names_the_licence_of_every_library_in_it() -> None:
    import json

    packages = json.loads((ROOT / "console/package-lock.json").read_text("utf-8"))["packages"]
    shipped = {name.rpartition("node_modules/")[2] for name, one in packages.items() if name and not one.get("dev")}
    texts = (ROOT / "src/toolcrib/console/page/licenses.txt").read_text("utf-8")
    named = set(re.findall(r"^(\S+) \S+ \(", texts, re.MULTILINE))
    optional = {name.rpartition("node_modules/")[2] for name, one in packages.items() if one.get("peer")}
    assert len(named) > 4
    assert shipped - optional - named == set()


# Installed


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `bin` of an environment with the wheel in it, which borrows all other packages from this one."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(place, with_pip=True, symlinks=True)
    [packages] = place.glob("lib/python3*/site-packages")
    run(place / "bin", "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(built.wheel))
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "zz_borrowed.pth").write_text(f"{borrowed}\n", "utf-8")
    return place / "bin"


def run(bin: Path, program: str, *words: str, code: int = 0) -> str:
    """Run a program of an environment as a person who has activated it; nothing is fetched."""
    env = os.environ | {"PATH": f"{bin}:{os.environ['PATH']}", "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
    argv = [str(bin / program), *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, cwd=bin.parent)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@requirement("adoption.dist.4")
@pytest.mark.process
def test_the_wheel_runs_from_where_it_was_installed(installed: Path) -> None:
    assert run(installed, "toolcrib", "--version") == f"toolcrib {toolcrib.__version__}\n"
    place = run(installed, "python", "-c", "import toolcrib; print(toolcrib.__file__)")
    assert Path(place.strip()).is_relative_to(installed.parent)
    told = run(installed, "toolcrib", "demo", "--tour", "--folder", str(installed.parent / "desk"))
    assert "The bank's book has 1 payment for this call." in told


@requirement("adoption.install.1")
@pytest.mark.process
def test_the_line_that_installs_an_extra_works_as_it_is_printed(installed: Path, built: Built) -> None:
    printed = run(installed, "python", "-c", "from toolcrib.extras import install; print(install('serve', 'mcp'))")
    command, *words = shlex.split(printed)
    assert printed.startswith("pip install ")
    assert words[1].startswith("toolcrib[serve,mcp] @ file://")
    run(installed, command, *words)


@requirement("adoption.install.1")
@pytest.mark.parametrize(
    ("direct_url", "words"),
    [
        (None, "'toolcrib[serve]'"),
        ('{"url": "file:///a/b%20c", "dir_info": {}}', "'/a/b c[serve]'"),
        ('{"url": "file:///a", "dir_info": {"editable": true}}', "-e '/a[serve]'"),
        ('{"url": "file:///a.whl", "archive_info": {}}', "'toolcrib[serve] @ file:///a.whl'"),
        (
            '{"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "'toolcrib[serve] @ git+https://host/x.git@abc'",
        ),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(direct_url: str | None, words: str) -> None:
    assert spelled(direct_url, ("serve",)) == words


@requirement("adoption.install.1")
def test_nothing_else_spells_the_line() -> None:
    texts = {path: path.read_text("utf-8") for path in sorted((ROOT / "src/toolcrib").rglob("*.py"))}
    assert texts
    spellers = [str(path) for path, text in texts.items() if re.search(r"pip install '?toolcrib", text)]
    assert spellers == []

"""Commands of ours on pages run line by line in a project that has what they name, unless a line is listed."""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import ready
from tests.cli.project import Project
from tests.cli.test_serve import serving
from tests.docs.test_blocks import Block, blocks
from tests.requirements import requirement
from tests.shared import ROOT, nonempty

RUN = r"toolcrib |crib |curl .*http://127\.0\.0\.1|sqlite3 shop\.db |openssl rand "
SETS = r"export |alias "
"""What is run at all: whatever else a page shows may install, stop or delete something on this machine."""

NOT_RUN = {
    r"toolcrib mcp add (.*npx |\S+ https:)": "reaches for a package or a server elsewhere",
    r"toolcrib mcp import$": "looks through the settings of other programs and asks",
    r"toolcrib (--crib \S+ )?(serve|worker|chat|cluster up|sessions watch)\b": "goes on until it is stopped",
    r"export (TOOLCRIB_STORE|ANTHROPIC_API_KEY)=|toolcrib call desk\.refund ": "needs a cluster or a key",
    r"toolcrib call pets\.": "reaches a server of pets",
    r"toolcrib (demo$|init my-project|call delete_task)": "tests/test_first_steps.py types them, one after the other",
    r"toolcrib (un)?install ": "writes into the settings of other programs; tests/cli/clients has both",
    r"toolcrib (connect|accounts|call shop\.orders)\b": "needs a service; tests/accounts/test_page.py has them",
    r"toolcrib (store migrate --partitions |store (backup|restore) .*--store )": "needs databases; see tests/store",
    r"toolcrib sources ": "has a server that runs reach for another; tests/cli/test_sources.py has both",
}
"""What of it is not run, and why. A line that is none of these has to work."""

OTHERS = {
    r"(\.venv/bin/)?pip install |uvx |pipx run ": "installs packages; what it names is checked below",
    r"make ": "builds, measures or serves for minutes; its target is checked below",
    r"(sudo |docker |kubectl |POSTGRES_PASSWORD=.* docker )": "needs a machine; its files are checked below",
    r"kill -HUP ": "would reach every server of this machine; tests/cli/test_reload.py sends the signal",
    r"CRIB_KEY=\.\.\. toolcrib serve ": "goes on until it is stopped",
    r"cd my-project$|pytest$": "tests/test_first_steps.py types them, one after the other",
    r"npx ": "reaches for a package; `make interop` runs it",
    r"python3 -m venv |\.venv/bin/python first\.py": "needs packages; the programs of pages are run from docs_src",
}
"""What is of another program and is not run, and why."""

EXPECTED = {
    r"toolcrib why shell": 3,  # it would ask
    r"toolcrib mcp import": 1,  # nobody is there to be asked
    r"crib -N ": 28,  # the stream was followed for long enough
    r"crib \S+/answers ": 22,  # nothing waits
}
"""Exit codes other than 0."""

TEAM = "docs/howto/serve-a-team.md"


class Ran(NamedTuple):
    """What became of a line."""

    line: str
    code: int
    out: str

    @property
    def wrong(self) -> bool:
        return self.code != next((code for pattern, code in EXPECTED.items() if re.match(pattern, self.line)), 0)


def commands(text: str) -> Iterator[str]:
    """The commands of a block, each with all its lines; comments are left out."""
    command = ""
    for line in text.splitlines():
        command += re.sub(r"\s+#\s.*$", "", line) if not command else f"\n{line}"
        try:
            words = shlex.split(command)
        except ValueError:
            continue  # a quotation goes on in the next line
        if words:
            yield command.strip()
        command = ""
    assert not command, text


def runs(line: str) -> bool:
    """True if a line is run here."""
    return re.match(RUN, line) is not None and not listed(line)


def listed(line: str) -> bool:
    """True if there is a reason not to run it, or nothing to run it with."""
    program = re.match(r"curl|sqlite3|openssl", line)
    return any(re.match(pattern, line) for pattern in NOT_RUN) or (program is not None and not shutil.which(program[0]))


class Reader(Project):
    """Somebody who types what a page shows, in a project that has the tools of the page."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(ROOT / "tests/data/pages", folder, dirs_exist_ok=True)
        self.folder = folder
        self.words: dict[str, str] = {}
        self._before = "shopt -s expand_aliases\n"

    def type(self, block: Block) -> Iterator[Ran]:
        for line in commands(block.text):
            if re.match(SETS, line) and not listed(line):
                self._before += f"{self._with_own(line)}\n"
            elif runs(line):
                yield self._run(line)

    def _with_own(self, line: str) -> str:
        for word, own in self.words.items():
            line = line.replace(word, own)
        return line.replace("curl -s ", "curl -sS --fail-with-body ").replace("crib -N", "crib -N --max-time 2")

    def _run(self, line: str) -> Ran:
        own = {"HOME": str(self.folder / "home"), "LOGNAME": "ada", "PATH": ready.path(), "TOOLCRIB_TRUST": "1"}
        done = subprocess.run(
            ["bash", "-c", self._before + self._with_own(line)],
            cwd=self.folder,
            env=os.environ | own,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        for word, pattern in {"SCHEDULE": r"^c[0-9a-f]{12,}$", "k-1f2e3d4c": r"^k-[0-9a-f]{8}\b"}.items():
            if found := re.search(pattern, done.stdout, re.MULTILINE):
                self.words[word] = found[0]
        return Ran(line, done.returncode, done.stdout + done.stderr)


@contextmanager
def server(reader: Reader, page: str) -> Iterator[None]:
    """A server where a page speaks to one, of the demo or of the project."""
    if page == "docs/howto/connect-front-ends.md":
        more: tuple[str, ...] = ("--crib", "toolcrib.demo:crib")
    elif page == TEAM:
        more = ()
    else:
        yield
        return
    with serving(reader, *more) as (_, told):
        reader.words |= {"http://127.0.0.1:8000": told["ready"], "https://crib.example/v1": told["api"]}
        reader.words |= {"TOKEN": told["token"], "tc_...": told["token"]}
        yield


def pages() -> dict[str, list[Block]]:
    found: dict[str, list[Block]] = {}
    for block in blocks("sh", "bash"):
        if any(map(runs, commands(block.text))):
            found.setdefault(str(block.page.relative_to(ROOT)), []).append(block)
    return found


PAGES = pages()


@requirement("project.docs.2")
@pytest.mark.process
@pytest.mark.parametrize("page", nonempty(list(PAGES)))
def test_the_commands_of_a_page_do_what_it_says(page: str, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    if page != TEAM:  # where the page makes the session itself
        reader.run("call", "look_up", "-a", "order=A-7", "-s", "s-1", "-o", "ada")
    with server(reader, page):
        ran = [one for block in PAGES[page] for one in reader.type(block)]
    assert ran
    assert [one for one in ran if one.wrong] == []


def lines() -> list[str]:
    return nonempty([line for block in blocks("sh", "bash") for line in commands(block.text)])


@requirement("project.docs.2")
def test_every_line_is_run_or_there_is_a_reason_not_to() -> None:
    reasons = (*NOT_RUN, *OTHERS, RUN, SETS)
    assert [line for line in lines() if not any(re.match(pattern, line) for pattern in reasons)] == []


def test_every_reason_not_to_run_a_line_is_needed() -> None:
    reasons = (*NOT_RUN, *OTHERS)
    assert [pattern for pattern in reasons if not any(re.match(pattern, line) for line in lines())] == []


@requirement("project.docs.2")
def test_extras_targets_and_files_that_lines_of_other_programs_name_are_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {*project["optional-dependencies"]}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for line in lines():
        named = {one for group in re.findall(r"toolcrib\[([\w,-]+)\]", line) for one in group.split(",")}
        assert named <= extras, line
        assert {*re.findall(r"^make ([\w-]+)", line)} <= targets, line
        files = [] if " exec " in line else re.findall(r"(?<![\w/])deploy/[\w./-]+", line)  # there it is no file
        assert [place for place in files if not (ROOT / place).exists()] == [], line

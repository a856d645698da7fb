"""Random commands: what they run is known from how they were made, and a real bash tells what it ran.

Nothing is harmed: the shell that runs them finds no program but itself, and only writes down what it was asked for.

`TOOLCRIB_EXPLORE=1` tries many more commands than every run tries.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from toolcrib.policy.shell import analyse

pytestmark = pytest.mark.process

EXPLORE = 20 if os.environ.get("TOOLCRIB_EXPLORE") else 1
BASH = shutil.which("bash")
TIME_S = 20
DEEPEST = 3
BATCH = 25

MADE = settings(deadline=None, derandomize=EXPLORE == 1, database=None, suppress_health_check=list(HealthCheck))
# A smaller example would take many more shells to find.
RUN = settings(MADE, phases=[Phase.generate], max_examples=12 * EXPLORE)

needs_bash = pytest.mark.skipif(BASH is None, reason="there is no bash")


class Made(NamedTuple):
    """A piece of a command, the programs in it, and the here-documents whose bodies follow its line."""

    text: str
    programs: tuple[str, ...] = ()
    documents: tuple["Made", ...] = ()

    def lines(self) -> "Made":
        """The same with the bodies, as whole lines."""
        bodies = "".join(body.text for body in self.documents)
        inner = tuple(program for body in self.documents for program in body.programs)
        return Made(f"{self.text}\n{bodies}", self.programs + inner)

    def closed(self) -> "Made":
        """The same as something that more may follow on its line."""
        return self.lines() if self.documents else self


def joined(form: str, *parts: Made) -> Made:
    """Put pieces into a form; bodies wait for the end of the line."""
    return Made(
        form.format(*(part.text for part in parts)),
        tuple(program for part in parts for program in part.programs),
        tuple(document for part in parts for document in part.documents),
    )


class Maker:
    """Makes commands by chance; names are counted so that nothing calls itself."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed).randrange
        self._named = 0

    def name(self, prefix: str) -> str:
        self._named += 1
        return f"{prefix}{self._named}"

    # Words.

    def word(self, depth: int) -> Made:
        plain = [
            "a",
            "-x",
            "'b; p90 $(p91)'",
            '"c && p92"',
            "\\;",
            "\\$\\(p93\\)",
            "$'\\'; p94'",
            "$HOME",
            "{a,b}",
            "*",
        ]
        plain += [
            "a#b",
            "''",
            '"#"',
            "x=1",
            "if",
            "done",
            "}",
            "!",
            "[",
            "'",
            "a\\\nb",
            "$1",
            "${x#y}",
            '"\\`p95\\`"',
            "~",
        ]
        plain.remove("'")
        if depth >= DEEPEST or self.choose(3) < 2:
            return Made(plain[self.choose(len(plain))])
        inner = self.script(depth + 1).closed()
        forms: list[Callable[[], Made]] = [
            lambda: self.dollar(inner),
            lambda: Made(f'"d{self.dollar(inner).text}\'e"', inner.programs),
            lambda: self.backticks(inner),
            lambda: joined("${{x:-{0}}}", self.dollar(inner)),
            lambda: joined('"${{x:-{0}}}"', self.dollar(inner)),
            lambda: Made(f"$(( 1 + $({(name := self.name('p'))} 2) ))", (name,)),
            lambda: joined("<({0})", inner),
            lambda: joined("f'g'{0}\"h\"", self.dollar(inner)),
        ]
        return forms[self.choose(len(forms))]()

    def dollar(self, inner: Made) -> Made:
        return joined("$( {0} )", inner)

    def backticks(self, inner: Made) -> Made:
        return Made("`" + inner.text.replace("\\", "\\\\").replace("`", "\\`") + "`", inner.programs)

    # Commands.

    def simple(self, depth: int) -> Made:
        program = self.name("p")
        written = [
            program,
            f"'{program}'",
            f"\\{program}",
            f'{program[0]}"{program[1:]}"',
            f"{program[0]}''{program[1:]}",
        ]
        parts = [Made(written[self.choose(len(written))], (program,))]
        parts += [self.word(depth) for _ in range(self.choose(3))]
        if self.choose(5) == 4:
            parts.insert(
                0, joined("y={0}", Made("z") if depth >= DEEPEST else self.dollar(self.script(depth + 1).closed()))
            )
        if self.choose(6) == 5:
            parts.append(Made([">out", "2>&1", "<>out", "3>&-", ">|out", "&>out", "{fd}>out"][self.choose(7)]))
        if self.choose(8) == 7:
            parts.append(self.document(depth))
        return joined(" ".join(["{}"] * len(parts)), *parts)

    def document(self, depth: int) -> Made:
        end = self.name("E")
        kind = self.choose(4)
        inner = Made("") if depth >= DEEPEST else self.script(depth + 1).closed()
        if kind == 0:
            return Made(f"<<'{end}'", (), (Made(f"p96; $(p97)\n`p98`\n{end}\n"),))
        if kind == 1:
            return Made(f"<<-{end}", (), (Made(f"\tp96; \\$(p97)\n\t{end}\n"),))
        body = joined("p96 ' \" {0}\n", self.dollar(inner) if inner.text else Made("x"))
        if kind == 2:
            return joined("<<< {0}", self.dollar(inner) if inner.text else Made("x"))
        return Made(f"<<{end}", (), (Made(f"{body.text}{end}\n", body.programs),))

    def wrapped(self, depth: int) -> Made:
        inner = self.script(depth + 1).closed()
        quoted = "'" + inner.text.replace("'", "'\\''") + "'"
        form, *own = [("eval {0}", "eval"), ("bash -c {0} x", "bash"), ("trap {0} EXIT", "trap")][self.choose(3)]
        return Made(form.format(quoted), (*own, *inner.programs))

    def compound(self, depth: int) -> Made:
        def parts(count: int) -> list[Made]:
            return [self.script(depth + 1).closed() for _ in range(count)]

        function = self.name("f")
        stop = Made("break", ("break",))
        forms: list[Callable[[], Made]] = [
            lambda: joined("{{ {0}\n}}", *parts(1)),
            lambda: joined("( {0} )", *parts(1)),
            lambda: joined("if {0}\nthen {1}\nelse {2}\nfi", *parts(3)),
            lambda: joined("while {0}\ndo {1}\n{2}; done", *parts(2), stop),
            lambda: joined("until {0}\ndo {1}\n{2}\ndone", *parts(2), stop),
            lambda: joined("for x in 1 '2;'; do {0}\ndone", *parts(1)),
            lambda: joined("for ((i=0; i<2; i++)); do {0}\ndone", *parts(1)),
            lambda: joined("case a in b|c) {0}\n;; (a) {1}\n;& *) {2}\nesac", *parts(3)),
            lambda: joined(f"{function}() {{{{ {{0}}\n}}}}", *parts(1)),
            lambda: joined(f"function {function} {{{{ {{0}}\n}}}}; {{1}}", *parts(1), Made(function, (function,))),
            lambda: joined("[[ -n {0} && ( a = b* || $x =~ ^(a|b)$ ) ]]", self.dollar(*parts(1))),
            lambda: Made(f"(( $({(name := self.name('p'))}) ))", (name,)),
            lambda: joined("x=(1 {0} [3]=2)", self.dollar(*parts(1))),
            lambda: joined("coproc {{ {0}\n}}", *parts(1)),
        ]
        return forms[self.choose(len(forms))]()

    def command(self, depth: int, *, piped: bool = False) -> Made:
        kind = self.choose(8)
        if depth >= DEEPEST or kind < 5:
            return self.simple(depth)
        made = self.wrapped(depth) if kind == 5 else self.compound(depth)
        return made if piped or self.choose(5) < 4 else joined("! {0}", made)

    def script(self, depth: int) -> Made:
        made = self.command(depth)
        for _ in range(self.choose(3) if depth else 1 + self.choose(4)):
            operators = [" && ", "||", " | ", "|&", ";", " & ", "\n", " # p99; $(p99)\n", ";\n\n", " \\\n && "]
            operator = operators[self.choose(len(operators))]
            following = self.command(depth, piped=operator in (" | ", "|&"))
            if made.documents and "\n" in operator + following.text:
                made, operator = made.lines(), ""
            made = joined("{0}" + operator + "{1}", made, following)
        return made


commands = st.integers(0, 2**32).map(lambda seed: Maker(seed).script(0).closed())

# Scraps of the grammar in any order; nearly all of what they make is wrong somewhere.
SCRAPS = r"""
p0 p1 p2 p3 p4 ; & && || | |& ( ) { } if then else elif fi while until do done for x in case esac ;; ;& ;;& $( ` " ' \ $
${x ${x:- ${#x} ${x/ $(( (( )) [[ ]] == =~ < > >> <> >& <& >| <<E <<-E <<'E' E <<< # ! time function f() f coproc x= x+=
x=( a[ a[1]= ] $' $" <( >( &> 2>&1 {x}> * ? [ {a,b} $x $[ @ ^ = eval \$ \` \" -p - break export declare trap alias
command builtin unset ~ % , .. + $@ $1 $(< "$( "` "${x:- }
"""
tokens = st.sampled_from([*SCRAPS.split(), "\n", "\n", "\nE\n", "\\\n", "\t"])
scraps = st.lists(st.tuples(tokens, st.sampled_from([" ", " ", ""])), min_size=2, max_size=14).map(
    lambda pairs: "".join(scrap + blank for scrap, blank in pairs)
)

# The shell tells what it was asked to run, and says by chance whether it went well.
TRACE = """
command_not_found_handle() { builtin printf '%s\\0' "$1" >&9; return $((RANDOM % 2)); }
export -f command_not_found_handle
export FUNCNEST=4; ulimit -f 100; shopt -u sourcepath
for file in command.*; do
    { "$BASH" -n "$file" && valid=0 || valid=1; } 2>/dev/null
    IFS= read -r -d '' text <"$file"
    ( exec 9>>"ran.${file#*.}"; builtin printf '%s\\0' "$valid" >&9; cd run && eval "$text" ) </dev/null &>/dev/null
done
"""


class Ran(NamedTuple):
    """What a shell says of a command: whether it reads it, and which programs it ran."""

    valid: bool
    programs: set[str]


def run(texts: list[str], folder: Path) -> list[Ran | None]:
    """Let a shell without any program run commands, each on its own; None for those it did not come to."""
    assert BASH is not None
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "run").mkdir(parents=True)
    (folder / "path").mkdir()
    (folder / "path" / "bash").symlink_to(BASH)
    for number, text in enumerate(texts):
        (folder / f"command.{number:03}").write_text(text, newline="")
    shell = subprocess.Popen(
        [BASH, "--norc", "--noprofile", "-c", TRACE],
        cwd=folder,
        env={"PATH": str(folder / "path"), "HOME": str(folder / "run")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        shell.wait(TIME_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    return [_ran(folder / f"ran.{number:03}") for number in range(len(texts))]


def _ran(log: Path) -> Ran | None:
    if not log.exists():
        return None
    with log.open(newline="", errors="surrogateescape") as lines:
        valid, *programs = lines.read().split("\0")
    return Ran(valid == "0", set(programs) - {""})


@requirement("policy.shell.1", "policy.shell.2")
@settings(MADE, max_examples=1000 * EXPLORE)
@given(commands)
def test_the_segments_of_a_random_command_are_those_it_was_made_of(made: Made) -> None:
    found = analyse(made.text)
    assert sorted(segment.program for segment in found.segments) == sorted(made.programs)


@needs_bash
@requirement("policy.shell.1", "policy.shell.2")
@settings(RUN)
@given(made=st.lists(commands, min_size=BATCH, max_size=BATCH))
def test_bash_runs_no_program_that_is_not_a_segment(made: list[Made], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "made"
    for command, ran in zip(made, run([command.text for command in made], folder), strict=True):
        if ran is not None:
            assert ran.valid, command.text
            assert ran.programs <= {segment.program for segment in analyse(command.text).segments}, command.text


@needs_bash
@requirement("policy.shell.1", "policy.shell.3")
@settings(RUN)
@given(texts=st.lists(scraps, min_size=BATCH * 4, max_size=BATCH * 4))
def test_bash_runs_nothing_unseen_whatever_is_thrown_at_it(
    texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "scraps"
    # What is opaque already hides nothing.
    clear = [text for text in texts if not analyse(text).unknown]
    for text, ran in zip(clear, run(clear, folder), strict=True):
        if ran is not None:
            assert ran.programs <= {segment.program for segment in analyse(text).segments}, text

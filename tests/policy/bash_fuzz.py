"""Commands that try to run a program where a reader sees none, and a real bash that tells what they ran.

`python -m tests.policy.bash_fuzz --count 1000000 --seed 1` makes so many, lets bash run those that the policy takes for
clear, and prints each that ran what the policy had not seen. Nothing is harmed: that bash finds no program but itself.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.policy.test_shell_bash import SCRAPS, Maker, run
from toolcrib.policy.shell import analyse

BATCH = 200
MISSES = 1
PAYLOADS = ["$(p7)", "`p7`", "$(p7;p7)", "$(</dev/null p7)", "${q:-$(p7)}", "$(( b[$(p7)] ))"]

# `E` is evaluated a second time, or might be.
CONTEXTS = [
    "(( E ))",
    "((E=1))",
    "echo $(( E ))",
    "echo $[ E ]",
    "let E",
    "let y=E",
    'let "y = E"',
    "[[ E -eq 0 ]]",
    "[[ 0 -lt E ]]",
    "[[ -v E ]]",
    "[[ -R E ]]",
    "[[ E ]]",
    "[[ E == 1 ]]",
    "[ -v E ]",
    "[ ! -v E ]",
    "[ -R E ]",
    "test -v E",
    "test E",
    "[ E ]",
    "[ E -eq 0 ]",
    "test x -a -v E",
    "declare -i y=E",
    "declare -i y; y=E",
    "declare -i y; y+=E",
    "typeset -i y=E",
    "f() { local -i y=E; }; f",
    "declare -n y=E; y=1",
    "declare -n y=E; echo $y",
    "declare E=1",
    "declare 'E=1'",
    "export E=1",
    "readonly E=1",
    "declare -a E",
    "a[E]=1",
    "a[E]+=1",
    "a=([E]=1)",
    "declare a=([E]=1)",
    "declare -a 'a=([E]=1)'",
    "echo ${a[E]}",
    'echo "${a[E]}"',
    'echo "${a["E"]}"',
    "echo ${#a[E]}",
    "echo ${a[E]:-1}",
    "echo ${a[E]:=1}",
    "echo ${a[E]#x}",
    "echo ${!a[E]}",
    "echo ${a:E:1}",
    "echo ${a:0:E}",
    "echo ${@:E}",
    "echo ${a: E}",
    "echo ${!E}",
    "echo ${!E:-1}",
    "echo ${E@P}",
    "echo ${E@A}",
    "printf -v E x",
    "printf -vE x",
    "printf %d E",
    "printf E",
    "read E <<< 1",
    "read -a E <<< 1",
    "read -r y E <<< '1 2'",
    "mapfile E <<< 1",
    "mapfile -t E <<< 1",
    "readarray E <<< 1",
    "getopts x E",
    "unset E",
    "unset -v E",
    "wait -n -p E",
    "for ((i=E; i<1; i++)); do break; done",
    "for ((;E;)); do break; done",
    "for E in 1; do :; done",
    "exec {E}>/dev/null",
    "SECONDS=E",
    "RANDOM=E",
    "OPTIND=E",
    "HISTCMD=E",
    "cat <<D\n$(( E ))\nD\n",
    "cat <<D\n${a[E]}\nD\n",
    ": ${y:=E}; (( y ))",
    ": ${y=E}; (( y ))",
    "PS4=E; set -x; p0",
    "PROMPT_COMMAND=E",
    "trap E EXIT",
    "eval E",
    "eval : E",
    "case E in 1) ;; esac",
    "exit E",
    "return E",
    "shift E",
    "ulimit -f E",
    "[ $o E ]",
    '[ "$o" E ]',
    "[ $o ]",
    "test $o E",
    "printf $o E x",
    "declare $o y=E",
    "$o E",
    "command let E",
    "builtin let E",
    "command [ -v E ]",
    "coproc E { :; }",
    "mapfile -O E y <<< 1",
    "read -t E y <<< 1",
    "sleep E",
    "enable E",
    "hash E",
    "complete -W E x",
    "compgen -W E",
    "compgen -A variable E",
    "alias y=E; y",
    "type E",
    "set E; (( $1 ))",
    "set -- E; (( $1 ))",
    "set -- E; (( $@ ))",
    "f() { (( $1 )); }; f E",
    "f() { [[ $1 -eq 0 ]]; }; f E",
    "bash -c '(( $0 ))' E",
    "y=E bash -c '(( y ))'",
    "export y=E; bash -c 'echo $((y))'",
    "y=E; z=y; (( z ))",
    "y=E; z=y; echo ${!z}",
    "y=E; echo ${a[y]}",
    "y=E; echo ${a[$y]}",
    "y=E; a[$y]=1",
    "y=(E); (( y ))",
    "y=(E); (( y[0] ))",
    "y=x; y+=E; (( y ))",
    "declare -A y; y[E]=1; (( y[E] ))",
    "declare -A y; k=E; (( y[$k] ))",
    "declare -A y; k=E; [[ -v y[$k] ]]",
    "declare -A y; k=E; unset y[$k]",
    "[[ E =~ (.*) ]]; (( BASH_REMATCH[1] ))",
    "[[ E =~ (.*) ]]; (( ${BASH_REMATCH[1]} ))",
    ": E; (( $_ ))",
    ": E; (( _ ))",
    "select y in E; do (( y )); break; done <<< 1",
    "while read -r y; do (( y )); done <<< E",
    "mapfile -t y <<< E; (( y[0] ))",
    "read -r y <<< E; (( y ))",
    "read -r <<< E; (( REPLY ))",
    "mapfile -t <<< E; (( MAPFILE[0] ))",
    "IFS= read -r y < <(printf %s E); (( y ))",
    "printf -v y %s E; (( y ))",
    "for y in E; do (( y )); done",
    "for y in 1 E; do echo $((y)); done",
    "cd E; (( PWD ))",
    "getopts x: y -x E; (( OPTARG ))",
    "y=$(printf %s E); (( y ))",
    "y=`printf %s E`; echo $(( $y + 1 ))",
    "y=${u:-E}; (( y ))",
    "(( y = z )) ; z=E; (( y = z ))",
    "z=E; y=$z; (( y ))",
    'z=E; y="$z"; let y',
    "y=E; f() { local z=$y; (( z )); }; f",
    "y=E; export z=$y; [[ z -eq 0 ]]",
    "coproc C { printf '%s\\n' E; }; read -r y <&${C[0]}; (( y ))",
    "coproc C { :; }; (( C[E] ))",
    "mapfile -C E -c 1 y <<< 1",
    "mapfile -tc1 -CE y <<< 1",
    "readarray -c 1 -C 'p7 ;:' y <<< E",
    "read -ra y <<< E; (( y[0] ))",
    "read -rd '' y <<< E; echo ${x:y}",
    "IFS=, read -r y z <<< 1,E; (( z ))",
    "y=E; echo ${y/#/} $(( ${y/#/} ))",
    "y=E; echo ${y/%/1}; (( ${y//q/} ))",
    "y=E; echo $(( ${y^} ))",
    "y=E; echo ${y@E} ${y@Q} $(( ${y@U} ))",
    "y=E; for z in ${!y*}; do (( z )); done",
    'y=E; for z in "${!y@}"; do (( $z )); done',
    "set -- E; echo ${@@P} ${1@P}",
    'y=(E); echo "${y[@]@P}"',
    "wait -p E -n",
    ": & wait -np E",
    "f() { local -n y=$1; y=1; }; f E",
    "f() { local -n y; y=E; : $y; }; f",
    "for y in E; do declare -n y; : $y; done",
    "select y in 1; do (( REPLY )); break; done <<< E",
    "select y in 1; do echo ${x:REPLY}; break; done <<< E",
    "PS3=E; select y in 1; do break; done <<< 1",
    "for ((;;E)); do break; done",
    "for ((i='E';;)) { break; }",
    "y=E; for ((;y;)) { break; }",
    "case x in E) ;; esac",
    "case x in ${u:-E}) p0;; esac",
    "case x in x) ;;& E) ;; esac",
    "trap E DEBUG; :",
    "trap -- E ERR; false",
    "trap E RETURN; f() { :; }; f",
    "trap 'y=E; (( y ))' EXIT",
    "bind -x E",
    "complete -C E x",
    "compgen -C E x",
    "compgen -F E x",
    "compgen -aWE x",
    "enable -f E x",
    "hash -p E p0; p0",
    "exec -a E p0",
    "exec -aE p0",
    "env -S E",
    "env --split=E",
    "env --split-s E",
    "env -vS E p0",
    "env -C . E",
    "history -s E; history -p !!",
    "fc -s E",
    "set -o history -o histexpand\n: E\necho !:1",
    "set -H\n: E\n!!",
    "bash <<< E",
    "bash -s <<< E",
    ": <<< E",
    ": < <(printf %s E)",
    ": > >(: E)",
    "echo @(E|x)",
    "[[ x == @(E|x) ]]",
    "[[ x == !(E) ]]",
    "[[ x =~ E ]]",
    "[[ E -nt x ]]",
    "[[ -t E ]]",
    "[ -t E ]",
    "[ E -ot x ]",
    "[[ -o E ]]",
    "time (( E ))",
    "time -p -p E",
    "! (( E ))",
    "! time [[ -v E ]]",
    "l\\\net E",
    "let \\\nE",
    "$'let' E",
    '$"let" E',
    "eval $'let ' E",
    'echo $"E"',
    'y=$"E"; (( y ))',
    "y=$'E'; (( y ))",
    "alias y='let E'; eval y",
    "alias y=E\neval y",
    "BASH_ALIASES[y]=E; eval y",
    "BASH_CMDS[p0]=E; p0",
    "read 'BASH_CMDS[p0]' <<< E; p0",
    ": ${BASH_CMDS[p0]:=E}; p0",
    "f() { let E; }; f",
    "function let { p0; }; let E",
    "command -- let E",
    "builtin command let E",
    "command builtin declare -i y=E",
    "command command command declare y=(E)",
    "declare -ai y; y=(E)",
    "declare -A -i y; y[z]=E",
    "declare -i REPLY; read <<< E",
    "declare -i MAPFILE; mapfile -t <<< E",
    "declare -i _; : E",
    "declare -i y; export y=E",
    "declare -i y; select y in E; do break; done <<< 1",
    "declare -i y; y=E p0",
    "declare -i y; for y in E; do :; done",
    "declare -i y; printf -v y %s E",
    "BASH_ARGV0=E; (( $0 ))",
    "BASH_ARGV0=E; echo ${x:$0}",
    "read SECONDS <<< E",
    "for RANDOM in E; do :; done",
    "printf -v OPTIND %s E",
    "bash -c 'test \"$@\"' x -v E",
    "bash -c 'declare \"$@\"' x -i y=E",
    "bash -c 'unset \"$1\"' x E",
    "bash -c 'echo ${!1}' x E",
    'set -- -v E; [ "$@" ]',
    'set -- -i y=E; declare "$@"',
    "set -- E; echo ${x:$1}; unset $1",
    "exec {a[E]}>/dev/null",
    ": {a[E]}>/dev/null",
    ": >& E",
    'declare -A y; k=E; printf -v "y[$k]" 1',
    'declare -A y; k=E; read "y[$k]" <<< 1',
    'declare -A y; k=E; declare "y[$k]=1"',
    "declare -A y; k=E; : ${y[$k]:=1}",
    'declare -A y; y=(E 1); for k in "${!y[@]}"; do (( y[$k] )); done',
    "TIMEFORMAT=E; time :",
    "jobs -x E",
    "shopt -s expand_aliases\nalias y=E\ny",
    "bash -o keyword -c 'p0 y=E'",
    "bash -O extglob -c 'echo @(E)'",
]
# What leads the value there: through a variable, or as it is.
VALUES = [
    "W",
    "W",
    "W",
    "W",
    "x",
    "$x",
    '"$x"',
    "${x}",
    "$x$y",
    "${x}${u}",
    "${x[0]}",
    "x[0]",
    "${!r}",
    "$(printf %s W)",
]
SETS = [
    "x=W",
    "x=W",
    "x=W; r=x",
    "declare x=W",
    "declare 'x=W'",
    "export x=W",
    "x=u; x+=W",
    "read -r x <<< W",
    "printf -v x %s W",
    ": ${x:=W}",
    "for x in W; do :; done",
    "x=(W)",
    "mapfile -t x <<< W",
    "y=W; x=$y",
    "x=$(printf %s W)",
    "x=H y=T",
    "read -r x < <(echo W)",
    "x=W u=1; o=-v",
    "o=-v; x=W",
    "o='-v a[0]'; x=W",
    "o=-i; x=W",
]
WRAPS = [
    "{}",
    "{}",
    "{}",
    "{}; p0",
    "if {}\nthen :; fi",
    "f() {{ {}\n}}; f",
    "( {} )",
    "{{ {}\n}}",
    'echo "$( {} )"',
    "eval '{}'",
]


class Injector:
    """Makes commands that evaluate a value twice, in every spelling of quotes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def spelled(self, text: str) -> str:
        """The text as one word that bash reads back to it, quoted in some way."""
        return self.random.choice([self._whole, self._whole, self._mixed, self._bare])(text)

    def _whole(self, text: str) -> str:
        kind = self.random.randrange(3)
        if kind == 0:
            return "'" + text.replace("'", "'\\''") + "'"
        if kind == 1:
            return '"' + "".join("\\" + c if c in '$`"\\' else c for c in text) + '"'
        return "$'" + "".join(self._escape(c) for c in text) + "'"

    def _escape(self, character: str) -> str:
        forms = [character if character not in "'\\" else "\\" + character, f"\\x{ord(character):02x}"]
        return self.random.choice([*forms, f"\\{ord(character):03o}", f"\\u{ord(character):04x}"])

    def _mixed(self, text: str) -> str:
        pieces = []
        while text:
            length = self.random.randint(1, 4)
            head, text = text[:length], text[length:]
            plain = head if head.isalnum() or head in ("[", "]") else None
            pieces.append(plain if plain and self.random.random() < 0.7 else self._piece(head))
        return "".join(pieces)

    def _piece(self, text: str) -> str:
        return "".join("\\" + c for c in text) if self.random.random() < 0.4 else self._whole(text)

    def _bare(self, text: str) -> str:
        """As it is: bash expands it on the way already."""
        return text

    def value(self) -> str:
        """What runs a program when it is evaluated."""
        payload = self.random.choice(PAYLOADS)
        forms = [
            "a[{}]",
            "a[{}]",
            "b[0{}]",
            "a[a[{}]]",
            "x+a[{}]",
            "a[{}]=1",
            "1,a[{}]",
            "{}",
            "a[1]+b[{}]",
            "@[{}]",
            "-v a[{}]",
            ") ]]; {}; [[ x == @(",
            "}}; {}; : ${{x:-",
            "]}}; {}; : ${{a[0",
            "; {} ;",
            "\n{}\n",
        ]
        return self.random.choice(forms).format(payload)

    def command(self) -> str:
        """One command."""
        value = self.value()
        context = self.random.choice(CONTEXTS)
        via = self.random.choice(VALUES)
        text = context.replace("E", via.replace("W", "\1")) if via != "W" else context.replace("E", "\1")
        text = "".join(self.spelled(value) if c == "\1" else c for c in text)
        if via != "W" or "$o" in text:
            half = self.random.randrange(len(value))
            sets = self.random.choice(SETS)
            sets = sets.replace("H", self.spelled(value[:half] or "a")).replace("T", self.spelled(value[half:] or "a"))
            text = f"{sets.replace('W', self.spelled(value))}; {text}"
        wrap = self.random.choice(WRAPS)
        if wrap.startswith("eval"):
            text = text.replace("'", "'\\''")
        return wrap.format(text)


def commands(seed: int) -> Iterator[str]:
    """Commands without end: most evaluate something twice, others mix the whole grammar or its scraps."""
    choose, injector = random.Random(seed), Injector(seed)
    scraps = [*SCRAPS.split(), "\n", "\nE\n", "\\\n", *(context.replace("E", "x") for context in CONTEXTS)]
    makers: list[Callable[[], str]] = [
        injector.command,
        injector.command,
        injector.command,
        lambda: Maker(choose.getrandbits(32)).script(0).closed().text,
        lambda: "".join(choose.choice(scraps) + choose.choice([" ", " ", ""]) for _ in range(choose.randint(2, 12))),
        lambda: f"{injector.command()}{choose.choice(['; ', ' && ', ' | ', chr(10)])}{injector.command()}",
    ]
    while True:
        yield choose.choice(makers)()


def clear(command: str) -> bool:
    """True if a policy that grants the programs of a command lets it run."""
    found = analyse(command)
    return not found.unknown and not found.unsafe_env


def unseen(batch: list[str], folder: Path) -> Iterator[tuple[str, set[str]]]:
    """The commands of which bash ran more than the policy had seen, and what. Every command is run.

    A command that does not end costs the shell its time; those after it are run by the next one. One that does not even
    begin, since bash never ends reading it, is given back with nothing that it ran.
    """
    misses = 0
    while batch:
        reached = [ran for ran in run(batch, folder) if ran is not None]
        misses = 0 if reached else misses + 1
        if misses > MISSES:
            misses = 0
            yield batch.pop(0), set()
        for command, ran in zip(batch, reached, strict=False):
            if more := ran.programs - {segment.program for segment in analyse(command).segments}:
                yield command, more
        batch = batch[len(reached) :]


def explore(count: int, seed: int, folder: Path, told: Callable[[int, int], None]) -> tuple[int, list[str]]:
    """Try so many commands; how many of them ran, and those that ran something unseen."""
    batch: list[str] = []
    ran, wrong = 0, list[str]()
    for number, command in zip(range(1, count + 1), commands(seed), strict=False):
        if clear(command):
            batch.append(command)
        if len(batch) >= BATCH or number == count:
            ran += len(batch)
            for text, more in unseen(batch, folder):
                ran -= not more
                wrong += [f"{sorted(more)}: {text!r}"] if more else []
            batch = []
            told(number, ran)
    return ran, wrong


def main() -> int:
    """Explore as the command line says; 1 if something unseen ran."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()

    def told(number: int, ran: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{number:,} of {options.count:,} made, {ran:,} run", end="", file=sys.stderr)

    with tempfile.TemporaryDirectory() as folder:
        ran, wrong = explore(options.count, options.seed, Path(folder) / "fuzz", told)
    print(*wrong, sep="\n")
    seconds = time.monotonic() - began
    print(
        f"seed {options.seed}: {options.count:,} made, {ran:,} clear and run, {len(wrong)} ran unseen, {seconds:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

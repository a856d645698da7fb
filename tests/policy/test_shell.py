"""What a shell command is known to run, read, write and set, from its text alone."""

import time

import pytest

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.policy.shell import ShellCommand, analyse, capabilities, program


def programs(command: str) -> list[str]:
    return [segment.program for segment in analyse(command).segments if segment.program]


def texts(command: str) -> list[str]:
    return [segment.text for segment in analyse(command).segments]


def summary(command: ShellCommand, like: dict[str, object]) -> dict[str, object]:
    """The part of a command that a case speaks of."""
    found: dict[str, object] = {
        "programs": [segment.program for segment in command.segments if segment.program],
        "texts": [segment.text for segment in command.segments if segment.text],
        "opaque": command.opaque,
        "unsafe_env": command.unsafe_env,
        "reads": list(command.reads),
        "writes": list(command.writes),
    }
    return {key: value for key, value in found.items() if key != "texts" or "texts" in like}


@requirement("policy.shell.1", "policy.shell.2", "policy.shell.3", "policy.match.exec")
def test_the_shared_commands_are_read_as_they_should() -> None:
    wrong = {}
    for case in case_data("policy/shell.json"):
        absent: dict[str, object] = {"opaque": False, "unsafe_env": False, "reads": [], "writes": []}
        expected = absent | {key: value for key, value in case.items() if key in {*absent, "programs", "texts"}}
        found = summary(analyse(case["command"]), case)
        if found != expected:
            wrong[case["command"]] = (found, expected)
    assert not wrong


@requirement("policy.shell.1", "policy.shell.9")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("for x\ndo a; done; for ((i=$(b); i<3; i++)); do c; done; for x in 1; { d; }", "a b c d"),
        ('[ -n "`a`" ] && test $(b) || c', "a b c"),
        ("((x = $(a))) || echo $((1 + $(b))) $[$(c)]", "a echo b c"),
        ("x=$(a) y=(1 $(b)) z[$(c)]=1", "a b c"),
    ],
)
def test_output_that_bash_evaluates_once_more_may_run_anything(command: str, expected: str) -> None:
    assert programs(command) == expected.split()
    assert analyse(command).unknown


@requirement("policy.shell.1")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("a | b |& c && d || e; f & g", "a b c d e f g"),
        ("a | b | c\nd && e", "a b c d e"),
        ("(a; b) && { c; d; }", "a b c d"),
        ("if a\nthen b; elif c; then d; else e; fi", "a b c d e"),
        ("while a; do if b; then c; fi done", "a b c"),
        ("until a; do b; done < <(c)", "a b c"),
        ("for x in $(a) `b`; do c; done", "a b c"),
        ("select x in 1; do a; done", "a"),
        ('case "$(a)" in b|c) d;; (e) f;& *) g;;& esac', "a d f g"),
        ("f() { a; }; function g { b; }; function h() (c); i() if d; then e; fi", "a b c d e"),
        ("coproc a; coproc N { b; }; coproc (c)", "a b c"),
        ("! a; ! time b; time { c; }", "a time b time c"),
        ("[[ $(a) == b* && -f <(c) || ( $x =~ ^(d|e)$ ) ]] && f", "a c f"),
        ("$((a) | (b))", "? a b"),
        ("((a); b)", "a b"),
        ("diff <(a) >(b) 3< <(c)", "diff a b c"),
        ('echo "$(a "$(b \'$(c)\')")" `d \\`e\\``', "echo a b d e"),
        ('echo "${x:-$(a)}" ${y:=`b`} ${z/$(c)/"$(d)"}', "echo a b c d"),
        ("cat <<A <<'B'; d\n$(a) `b`\nA\n$(c)\nB\ne", "cat d a b e"),
        ("cat <<-A | b\n\t$(a)\n\tA\nc", "cat b a c"),
        ("cat <<\\A\n$(a)\nA\nb", "cat b"),
        ('x=$(cat <<A\n"$(a)\nA\n) b', "b cat a"),
        ("a # b; c\nd;#e\nf#g", "a d f#g"),
        ("a \\\n b; c\\\nd", "a cd"),
        ("i\\\nf a; then b; fi", "a b"),
        ("echo ';' \"&& b\" \\; c '\n' $'\\'; d' $\"e; f\"", "echo"),
        (">f a >>g b <h; <i", "a"),
        ("a >& -b c; >&-d", "a d"),
        ("{ a; } 2>&1 >f; (b) <g", "a b"),
        ("echo {a,b} {c..$(d)} *.c ~", "echo d"),
        ("export A=$(a) B=(1 $(b)); declare -x C=`c`; local d; readonly e", "a b c"),
        ("true; false; :; x=1; [ a ]; test b; [[ c ]]; ((d))", ""),
    ],
)
def test_every_simple_command_is_a_segment(command: str, expected: str) -> None:
    assert programs(command) == expected.split()
    assert analyse(command).unknown == ("?" in expected)


@requirement("policy.shell.1")
@pytest.mark.parametrize("command", ["", "  ", "# nothing", "true", "x=1", "> f", "[[ a ]]", "export A=1"])
def test_a_command_without_segments_has_one_empty_segment(command: str) -> None:
    (segment,) = analyse(command).segments
    assert (segment.program, segment.words, segment.text) == ("", (), "")
    assert not [need for need in capabilities(analyse(command)) if need[0] == "exec"]


@requirement("policy.shell.2")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("env -i FOO=1 -u X a", "env|a"),
        ('env -i -u X FOO=1 BAR="$x" a b', "env|a b"),
        ("env - a", "env|a"),
        ("env -S 'a b' c", "env|a b c"),
        ("env", "env"),
        ("sudo -u bob -- a", "sudo|a"),
        ("sudo -nEu bob A=1 a", "sudo|a"),
        ("sudo --user=bob --chdir /x a", "sudo|a"),
        ("sudo -l a", "sudo"),
        ("doas -u bob a", "doas|a"),
        ("su - bob -c 'a; b'", "su|a|b"),
        ("su bob --command=a", "su|a"),
        ("nohup a &", "nohup|a"),
        ("time -f %e a", "time|a|-f"),
        ("\\time -f %e a; sudo time -v b", "time|a|sudo|time|b"),
        ("timeout -k 5 10 a b", "timeout|a b"),
        ("timeout --signal KILL 10s a", "timeout|a"),
        ('timeout -k "$x" 5 a', "timeout|a"),
        ("nice a; nice -n 5 b; nice -5 c; nice --adjustment=3 d", "nice|a|nice|b|nice|c|nice|d"),
        ("ionice -c2 -n 3 a; ionice -p 7", "ionice|a|ionice"),
        ("stdbuf -oL -e 0 a", "stdbuf|a"),
        ("setsid -f a", "setsid|a"),
        ("watch -n 1 'a | b'; watch -x c d; watch e f", "watch|a|b|watch|c d|watch|e f"),
        ("command -p a; command -v b; builtin eval c", "command|a|command|builtin|eval c|c"),
        ("exec -a x a; exec >f", "exec|a|exec"),
        ("busybox sh -c 'a; b'", "busybox|sh -c 'a; b'|a|b"),
        ("xargs -0 -n1 a; xargs -P4 --max-args 2 b c; xargs", "xargs|a|xargs|b c|xargs"),
        ("find . -exec a {} \\; -o -execdir b {} + -ok c \\; -okdir d ';'", "find|a {}|b {}|c|d"),
        ("sh -c 'a $1' x y; bash -lc 'b'; bash -c -e c; dash -o pipefail -c d", "sh|a $1|bash|b|bash|c|dash|d"),
        ("bash x.sh; sh -x y.sh; zsh", "bash|sh|zsh"),
        ("bash <<'E'\na $x\nE\nsh -s <<< 'b; c'", "bash|a $x|sh|b|c"),
        ("bash -o pipefail - <<'E'\na\nE\nsudo -u b sh <<< c", "bash|a|sudo|sh|c"),
        ("sudo -i <<< a; su - bob <<'E'\nb\nE", "sudo|a|su|b"),
        ("eval a '&&' \"b c\"; eval", "eval|a|b c|eval"),
        ("sudo env A=1 timeout 5 sh -c 'nice a'", "sudo|env|timeout|sh|nice|a"),
        ("trap 'a; b' EXIT; trap - INT; alias x='c'", "trap|a|b|trap|alias|c"),
        ("/opt/bin/bash -c a", "/opt/bin/bash|a"),
    ],
)
def test_wrappers_are_followed_by_what_they_run(command: str, expected: str) -> None:
    def short(segment_text: str, wanted: str) -> str:
        return segment_text if " " in wanted else segment_text.split(" ")[0]

    wanted = expected.split("|")
    assert [short(*pair) for pair in zip(texts(command), wanted, strict=True)] == wanted
    assert not analyse(command).opaque


@requirement("policy.shell.2", "policy.shell.3")
@pytest.mark.parametrize(
    "command",
    [
        'bash -c "$x"',
        "eval $x",
        'eval "a $x"',
        "sudo $x a",
        "sudo --no-such-option a b",
        "env $x a",
        "env A=$x a",
        "timeout $x a",
        'timeout "$x" a',
        "xargs $x",
        "xargs sh -c",
        "xargs env",
        "xargs -I{} {} b",
        "xargs -I % sh -c 'a %'",
        "find . -exec {} \\;",
        "find . -exec sh -c 'a {}' \\;",
        "find . -exec a",
        "find . $x a \\;",
        'su -c "$x"',
        "sudo -e f",
        "watch $x",
        "bash <<E\n$x\nE",
        "bash < <(a)",
        "bash --rcfile f",
        'trap "$x" EXIT',
        "mapfile -C a x",
        "hash -p /x/evil ls",
        "enable -f ./x.so y",
        "shopt -s expand_aliases",
        "PS4='$(a)'",
        "BASH_CMDS[ls]=/x/evil",
        "cat <<$'E'\n$(a)\nE",
        "echo ${x@P}",
        "x='a[$(b)]'",
        "[[ -v 'a[$(b)]' ]]",
        "test -v 'a[$(b)]'",
        "let 'a[`b`]'",
        "declare 'a[$(b)]=1'",
    ],
)
def test_what_is_run_but_not_known_is_a_question_mark(command: str) -> None:
    assert "?" in programs(command)
    assert analyse(command).opaque


@requirement("policy.shell.2")
def test_scripts_are_read_eight_deep() -> None:
    def nested(depth: int) -> str:
        command = "a"
        for _ in range(depth):
            command = "eval " + "'" + command.replace("'", "'\\''") + "'"
        return command

    assert programs(nested(8)) == ["eval"] * 8 + ["a"]
    assert programs(nested(9)) == ["eval"] * 9 + ["?"]


@requirement("policy.shell.3")
@pytest.mark.parametrize(
    "command",
    [
        "'a",
        '"a',
        "`a",
        "$(a",
        "${a",
        "(a",
        "a)",
        "{ a",
        "a }}; }",
        "if a; then b",
        "if a; then; fi",
        "a;; b",
        "a &&",
        "| a",
        "a | | b",
        "fi",
        "do a; done",
        "for x in a",
        "for $x in a; do b; done",
        "case x in a) b",
        "case x a) b;; esac",
        "f() a",
        "a (b)",
        "[[ a",
        "[[ a ; b ]]",
        "((a)",
        "a <",
        "a > ; b",
        "cat <<E\na",
        "$(cat <<E)\na\nE",
        "x=1 if a; then b; fi",
        "a <<E $(b\nc)\nE",
        "${ a; }",
        "${| a; }",
        "a\0b",
        "$'\\x00'",
        "shopt -s extglob; a !(b)",
        "a & & b",
        "$\\\n(a)",
        "x=(a [)]=b)",
        "a >& $'`b`'",
        "a[b c",
        "\"${x:-'}'}\"",
    ],
)
def test_text_that_does_not_parse_is_a_question_mark(command: str) -> None:
    assert "?" in programs(command)
    assert analyse(command).opaque


@requirement("policy.shell.3")
def test_a_segment_has_words_text_assignments_and_redirections() -> None:
    (segment,) = analyse("A=1 B=\"$x\" /bin/cp -r 'a b' \"$y\" c*d ~/e $'\\t' 2>&1 <f").segments
    assert segment.program == "cp"
    assert segment.words == ("/bin/cp", "-r", "a b", '"$y"', "c*d", "~/e", "\t")
    assert segment.text == "cp -r 'a b' \"$y\" c*d ~/e '\t'"
    assert segment.assignments == (("A", "1"), ("B", '"$x"'))
    assert segment.redirections == ((">&", "1"), ("<", "f"))


@requirement("policy.shell.3")
@pytest.mark.parametrize("command", [". ./x", "source x", "$x", 'a; "$x" b', "r* x", "{a,b}", "~bob/x"])
def test_files_of_commands_and_computed_programs_make_it_opaque(command: str) -> None:
    assert analyse(command).opaque
    assert ("exec", "cmd", "*") in capabilities(analyse(command))


@requirement("policy.shell.3", "policy.shell.4")
@pytest.mark.parametrize(
    ("command", "reads", "writes"),
    [
        ("a < b > c >> d >| e &> f &>> g <> h", ["b", "h"], ["c", "d", "e", "f", "g", "h"]),
        ("a 3>b 4<c {x}>d >&e", ["c"], ["b", "d", "e"]),
        ("a >/dev/null 2>&1 </dev/stdin 3>&- 4<&5 >/dev/tty 2>/dev/stderr >/dev/stdout </dev/fd/7", [], []),
        ("a <<< b <<E > c\nE", [], ["c"]),
        ("{ a; } > b; (c) < d; while e; do f; done > g; f() { h; } > i", ["d"], ["b", "g", "i"]),
        ("> 'a b' > \"c\" > d\\ e > ~/f > '~/g'", [], ["a b", "c", "d e", "~/f", "./~/g"]),
        ("a > >(b > c) < <(d < e)", ["e"], ["c"]),
        ("sh -c 'a > b'", [], ["b"]),
        ("$(a > b) `c < d`", ["d"], ["b"]),
    ],
)
def test_redirections_name_the_files_they_open(command: str, reads: list[str], writes: list[str]) -> None:
    found = analyse(command)
    assert (list(found.reads), list(found.writes)) == (reads, writes)


@requirement("policy.shell.3")
@pytest.mark.parametrize(
    ("command", "need"),
    [
        ("a > $x", ("fs", "write", "/**")),
        ('a < "$x"', ("fs", "read", "/**")),
        ("a >& $x", ("fs", "write", "/**")),
        ("a > *.txt", ("fs", "write", "/**")),
        ("a > ~bob/x", ("fs", "write", "/**")),
    ],
)
def test_a_redirection_to_a_computed_name_needs_every_file(command: str, need: tuple[str, str, str]) -> None:
    found = analyse(command)
    assert found.opaque
    assert not found.unknown
    assert capabilities(found) == [("exec", "cmd", "a"), need]


@requirement("policy.shell.6")
@pytest.mark.parametrize(
    "command",
    [
        "PATH=/x a",
        "PATH=/x",
        "PA\\\nTH=/x a",
        "PATH+=:/x a",
        "IFS=/ a",
        "ENV=x sh",
        "BASH_ENV=x a",
        "LD_PRELOAD=x a",
        "DYLD_INSERT_LIBRARIES=x a",
        "GIT_SSH_COMMAND=x git pull",
        "PYTHONPATH=x a",
        "PYTHONSTARTUP=x a",
        "NODE_OPTIONS=x a",
        "PERL5OPT=x a",
        "RUBYOPT=x a",
        "env PATH=/x a",
        "env -i 'LD_X=1' a",
        "env 'BASH_FUNC_a%%=() { b; }' a",
        "sudo LD_PRELOAD=x a",
        "export PATH=/x",
        "export 'PATH=/x'",
        "declare -x GIT_DIR=x; a",
        "command export PATH=/x",
        "typeset PATH=x",
        "export $(a)",
        "read PATH",
        "printf -v PATH x",
        "for PATH in a; do b; done",
        "a ${PATH:=x}",
        "((IFS=1))",
        "unset PATH",
        "sh -c 'PATH=/x a'",
        "$(GIT_DIR=x a)",
        "a {PATH}>f",
        "exec env PATH=/x a",
    ],
)
def test_setting_what_changes_programs_is_unsafe(command: str) -> None:
    assert analyse(command).unsafe_env


@requirement("policy.shell.6")
@pytest.mark.parametrize("command", ["A=1 a", "a PATH=1", "echo $PATH", "export A=1 B", "MYPATH=1 a", "a 'LD_X=1'"])
def test_other_variables_are_safe(command: str) -> None:
    assert not analyse(command).unsafe_env


@requirement("policy.match.exec")
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("git", "git"),
        ("/usr/bin/git", "git"),
        ("/usr/local/bin/git", "git"),
        ("./git", "./git"),
        ("/srv/bin/git", "/srv/bin/git"),
        ("/usr/bin/../../srv/git", "/usr/bin/../../srv/git"),
        ("~/bin/git", "~/bin/git"),
        ("/bin/", "/bin/"),
    ],
)
def test_only_bare_programs_and_those_of_trusted_folders_go_by_their_name(path: str, name: str) -> None:
    assert program(path) == name
    assert programs(f"{path} status") == [name]
    assert programs("/srv/bin/git x") == ["/srv/bin/git"]
    assert analyse("/srv/bin/git x", frozenset({"/srv/bin"})).segments[0].program == "git"


@requirement("policy.shell.8")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a 'b c' -", ["fs:read:a", "fs:read:b c"]),
        ("head -n 5 a; tail -n5 -- -b", ["fs:read:a", "fs:read:-b"]),
        ("grep -r x a b; grep -e x c; grep -f p d", ["fs:read:a", "fs:read:b", "fs:read:c", "fs:read:d", "fs:read:p"]),
        ("wc -l a; sort -k 2 b -o c; jq .x d", ["fs:read:a", "fs:read:b", "fs:write:c", "fs:read:d"]),
        ("ls; ls -la /x", ["fs:read:.", "fs:read:/x"]),
        ("find a b -name c -delete", ["fs:read:a", "fs:read:b", "fs:write:a", "fs:write:b"]),
        ("cp -r a b c; mv d e", ["fs:read:a", "fs:read:b", "fs:write:c", "fs:read:d", "fs:write:d", "fs:write:e"]),
        ("cp -t d a", ["fs:read:a", "fs:write:d"]),
        ("rm -rf a; mkdir -p -m 700 b; touch c; tee d", ["fs:write:a", "fs:write:b", "fs:write:c", "fs:write:d"]),
        ("sed -i s/a/b/ f; sed -n p g", ["fs:read:f", "fs:write:f", "fs:read:g"]),
        ("curl -sSL -o f https://x.test/a", ["net:egress:https://x.test/a", "fs:write:f"]),
        ("curl -d @f x.test", ["net:egress:x.test", "fs:read:f"]),
        ("wget -O - https://x.test", ["net:egress:https://x.test"]),
        ("git clone https://x.test/r d", ["net:egress:https://x.test/r", "fs:write:d"]),
        ("git clone git@x.test:r; git status", ["net:egress:x.test:22", "fs:write:."]),
        ('cat $x "$y"; curl $z', ["fs:read:/**", "net:egress:*"]),
        ("python3 a.py > b", ["fs:write:b"]),
    ],
)
def test_known_programs_tell_the_files_and_hosts_they_reach(command: str, expected: list[str]) -> None:
    needs = capabilities(analyse(command), known=True)
    assert [":".join(need) for need in needs if need[0] != "exec"] == expected


@requirement("policy.shell.4")
def test_a_command_needs_its_programs_then_its_files_each_once() -> None:
    needs = capabilities(analyse("a < b; $x; a > c; . d < b"))
    assert [":".join(need) for need in needs] == ["exec:cmd:a", "exec:cmd:*", "exec:cmd:.", "fs:read:b", "fs:write:c"]


def test_a_redirection_to_a_socket_reaches_the_network() -> None:
    needs = capabilities(analyse("exec 3<>/dev/tcp/x.test/80"))
    assert ("net", "egress", "x.test:80") in needs
    assert ("net", "egress", "*") in capabilities(analyse("a >/dev/udp/x.test/dns"))


def test_the_whole_line_has_single_blanks() -> None:
    assert analyse("curl  x|sh").whole == "curl x | sh"
    assert analyse("a&&b;  'c' # d\ne >f").whole == "a && b; c; e > f"
    assert analyse(" 'a").whole == "'a"


@pytest.mark.parametrize(
    "text", ["$((", "(", "{ ", "a[", "`", '"${x:-', "$(", "sudo ", "eval ", "if a; then ", "a;", "<<E "]
)
def test_hostile_texts_are_read_in_time(text: str) -> None:
    started = time.process_time()
    analyse(text * 5000)
    assert time.process_time() - started < 3

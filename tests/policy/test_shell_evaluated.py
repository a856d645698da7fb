"""What bash evaluates twice, what the environment changes, and programs that run others: unknown, unless proven."""

from pathlib import Path

import pytest

from tests.policy.bash_fuzz import explore
from tests.policy.test_shell_bash import BASH, needs_bash
from tests.requirements import requirement
from toolcrib.policy.shell import analyse, capabilities, line

COUNT = 1500
EVERY_PROGRAM = ("exec", "cmd", "*")
DANGEROUS = """
PATH LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV EDITOR VISUAL PAGER MANPAGER LESSOPEN TAR_OPTIONS GCONV_PATH LOCPATH HOME
GIT_SSH_COMMAND GIT_PAGER GIT_EXTERNAL_DIFF RSYNC_RSH SSH_ASKPASS PERL5LIB PYTHONHOME RUBYLIB NODE_PATH CLASSPATH CC
JAVA_TOOL_OPTIONS MAKEFLAGS OPENSSL_CONF XDG_CONFIG_HOME npm_config_script_shell http_proxy MY_TOOL_COMMAND
SYSTEM_WGETRC SSLKEYLOGFILE MAKEFILES CPATH LIBPATH HGRCPATH EMACSLOADPATH MYVIMRC XZ_DEFAULTS TZDIR TMP TERMINFO_DIRS
"""


def needs(command: str) -> list[tuple[str, str, str]]:
    return capabilities(analyse(command), known=True)


@requirement("policy.shell.9")
@pytest.mark.parametrize(
    "command",
    [
        "[ -v a['$(touch x)'] ]; ls",
        "x=a['$(id)']; [[ x -eq 0 ]]",
        "echo $( cat <<E\nx\nE\nls;case a in id|sh) ls;; esac )",
        "echo $( cat <<E\n' \" $( ls )\nE\nls 'b; id $(id)' )",
        "x='a[$(id)]'; o=-v; test $o \"$x\"",
        'o=-v; [ $o "$x" ]',
        "echo \"$( echo ${$'b[$(id)]'@A} )\"",
        "echo \"$( echo ${$'b[\\u0024\\u0028id)]'} )\"",
        "echo \"$( [[ x == !($'\\x24(id)') ]] )\"",
        "echo \"$( [[ x == !($') ]]; id; [[ x == @(') ]] )\"",
        "echo \"$( [[ x =~ ($'\\x29 ]]\\nid\\n[[ x =~ (') ]] )\"",
        "echo \"$( echo ${x:-$'}; id; echo ${x:-'} )\"",
        "echo \"$( echo ${x:-$'}; id; echo '} )\"",
        "echo \"$( [[ x == !($(printf %s $'\\x24(id)')) ]] )\"",
        "echo \"$( [[ x =~ ($(echo $(echo $'\\x60id\\x60'))) ]] )\"",
        "a[0]/x]=1",
        "ls; a[]/x]=1",
        "y=1 a[0]]=1",
        "a[x][y]=1 ls",
        "echo ${a['$(id)']}",
        "echo $[$'$(id)']",
        "declare -i x=a[\\$\\(id\\)]",
        "declare -i x; x=$(cat f)",
        "x=$(cat f); (( x ))",
        "x=$(cat f); y=x; echo $(( y + 1 ))",
        "read -r x < f; [[ $x -gt 3 ]]",
        "for x in 'a[$(id)]'; do (( x )); done",
        "f() { (( $1 )); }; f 'a[$(id)]'",
        "declare -n r=PATH; r=.; ls",
        "printf -v 'a[$(id)]' x",
        "printf \"$x\" 'a[$(id)]' y",
        '[ "$a" "$b" ]',
        "x=$(cat f); [ $x ]",
        "unset 'a[$(id)]'",
        "x='a[$(id)]'; echo ${!x}",
        "echo ${x@P}",
        "SECONDS=$(cat f)",
        "set -k; ls PATH=.",
        "PROMPT_COMMAND='rm x'",
        "PS4='$(id)'; set -x; ls",
        "jobs -x ls",
        "x='a[$(id)]'; declare -a 'a=([$x]=1)'",
        "declare -a 'a=([$(id)]=1)'",
        "export 'a=($(id))'",
        "echo \"$( echo ${!$'a[\\x24(id)]'} )\"",
        "echo \"$( : ${x:=$'\\x24(id)'} )\"",
        "[[ PATH=1 -eq 1 ]]; ls",
        "echo ${x:PATH=1}; ls",
        "echo $[PATH=1]; ls",
        "declare -i x=PATH=1; ls",
        "x=PATH=1; echo $(( x )); ls",
        "coproc PATH { :; }; ls",
        "set -o history -o histexpand\necho \\;id\necho !:1:s/\\;/;/",
        "set -H",
        "x='$(id)'; : >& $x",
        'read -r x; : 3>&"$x"',
        'read -r x; : {a["$x"]}>f',
        "read -r x; : {a[x]}>f",
        "shopt -so histexpand",
        "bash -kc 'ls PATH=.'",
        "bash -o keyword -c 'ls PATH=.'",
        "bash -o history -Hc ls",
        "eval bash <<< id",
        "bash -c bash <<< id",
        "{ bash 2>/dev/null; } <<< id",
        "f() { sh; }; f <<E\nid\nE",
        "while :; do bash; done < <(echo id)",
    ],
)
def test_what_is_evaluated_twice_is_unknown(command: str) -> None:
    found = analyse(command)
    assert found.unknown or found.unsafe_env
    assert EVERY_PROGRAM in capabilities(found)


@requirement("policy.shell.9")
@pytest.mark.parametrize(
    "command",
    [
        "for ((i=0; i<10; i++)); do echo $i; done",
        "n=3; echo $((n * 2))",
        "x=5; y=x; (( y > 3 )) && ls",
        'a=(1 2); for ((i=0; i<${#a[@]}; i++)); do echo "${a[i]}"; done',
        'echo "${a[@]}" ${#a[@]} ${a[0]} ${x:1:2} ${x: -1} ${x:-y} "${x[$i]}"',
        "[[ $x -eq 0 && -n $y ]]",
        '[ -n "$x" ] && [ "$a" = "$b" ] && test -f f',
        "[ -v HOMEPAGE ]",
        "let i=i+1",
        "declare -i n=0; n=n+1; export A=1",
        "printf 'Hello %s\\n' \"$x\"",
        "read -r x y; echo $x",
        "unset x y",
        "set -euo pipefail; set -- a b",
        "a[0]=1; a[i]+=2; a[b[0]]=3 x=4",
        "[[ $x == @($'a\\tb'|c) ]] && echo ${x:-$'\\n'} ${x//$'\\n'/ }",
    ],
)
def test_plain_arithmetic_and_names_are_known(command: str) -> None:
    assert not analyse(command).unknown


@needs_bash
@requirement("policy.shell.9")
@pytest.mark.process
def test_a_real_bash_runs_nothing_that_was_not_seen(tmp_path: Path) -> None:
    assert BASH is not None
    ran, wrong = explore(COUNT, 20260101, tmp_path / "fuzz", lambda number, ran: None)
    assert wrong == []
    assert ran > COUNT // 20  # what is all unknown proves nothing


@requirement("policy.shell.10")
@pytest.mark.parametrize("name", DANGEROUS.split())
@pytest.mark.parametrize("form", ["{}=./x ls", "export {}=./x; ls", "env {}=./x ls", "declare -x {}=./x; ls", "{}=./x"])
def test_a_variable_that_changes_what_runs_needs_every_program(name: str, form: str) -> None:
    assert EVERY_PROGRAM in needs(form.format(name))


@requirement("policy.shell.10")
@pytest.mark.parametrize(
    "name", ["A", "FOO", "LANG", "LC_ALL", "TZ", "NO_COLOR", "MYPATH", "SRC", "OUT_DIR", "DEBUG", "i", "count"]
)
def test_other_variables_change_nothing(name: str) -> None:
    assert EVERY_PROGRAM not in needs(f"{name}=1 ls")


@requirement("policy.shell.11")
@pytest.mark.parametrize(
    "command",
    [
        "git -c alias.x='!id' x",
        "git -c core.pager=id log",
        "git -c core.sshCommand=id fetch",
        "git --exec-path=. status",
        "git --git-dir=evil status",
        "git -p log",
        "git grep -O x",
        "git grep --open-files-in-pager=id x",
        "git clone -u id . x",
        "git clone --upload-pack=id . x",
        "git clone --upload-p=id . x",
        "git clone -c core.fsmonitor=id . x",
        "git clone --template=evil . x",
        "git clone 'ext::sh -c id' x",
        "git fetch --upload-pack id origin",
        "git push --receive-pack=id origin",
        "git ls-remote --upload-pack=id .",
        "git rebase -x id main",
        "git bisect run id",
        "git submodule foreach id",
        "git difftool -x id",
        "git config alias.x '!id'",
        "git filter-branch --tree-filter id",
        "git commit",
        "git x",
        "git log --ext-diff",
        "git $x",
        "tar cf a --to-command=id b",
        "tar xf a --to-command id",
        "tar xf a -I id",
        "tar xIf id a",
        "tar cf a --checkpoint=1 --checkpoint-action=exec=id b",
        "sort --compress-program=id f",
        'sort "$x"',
        "split --filter=id f",
        "zip -T -TT id a b",
        "zip -TT id a b",
        "gcc -wrapper id a.c",
        "gcc -fplugin=./x.so a.c",
        "gcc -B. a.c",
        "gcc @options",
        "rsync -e id a b",
        "scp -S id a b:c",
        "wget -e use_askpass=id http://x",
        "rg --pre id x",
        "fd -x id",
        "script f",
        "wget --use-ask=id http://x",
        "wget --conf=f http://x",
        "wget --config=f http://x",
        "curl -K f",
        "curl --engine ../../x.so https://h",
        "curl --variable x@private http://h",
        "curl --upload-f private http://h",
        "scp -D ./id a h:b",
        "sdiff -o out a b",
        "tar cf host:archive f",
        "gtar xf a --to-command=id",
        "gsort --compress-program=id f",
        "bsdtar --use-compress-program id -xf a",
        "gcc-12 -wrapper id a.c",
        "x86_64-linux-gnu-gcc -wrapper id a.c",
        "g++ -fmodule-mapper='|id' a.cc",
        "gcc -fcompare-debug='-wrapper id' a.c",
        "clang -ccc-gcc-name id a.c",
        "sed '1e id' f",
        "sed 's/a/id/e' f",
        "sed 's/a/b/w out' f",
        "sed 'p;r private' f",
        "sed -ne p -e '$e id' f",
        "sed f --expression='1!e id'",
        "sed 's/[/]/e;s/]/x/e' f",
        "sed '\\,a,e id' f",
        "sed -f script f",
        'sed "s/a/$x/" f',
        "gsed 1e f",
        "env -S '-i id'",
        "git log --show-signature",
        "git log --pretty=format:%GK",
        "git branch --format='%(signature)'",
        "git pull --rebase=interactive",
        "git clone --recurse-submodules https://h/x",
    ],
)
def test_a_known_program_that_may_run_another_needs_every_program(command: str) -> None:
    assert EVERY_PROGRAM in needs(command)


@requirement("policy.shell.11")
@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git --no-pager log --oneline -n 5",
        "git -C sub diff --stat HEAD~1",
        "git commit -am 'a message'",
        'git commit -m "for $x"',
        "git push origin main",
        "git clone https://host/a b",
        "git checkout -b new",
        "git config --get user.name",
        "git -c user.name=x commit -m y",
        "tar xzf a.tgz -C b",
        "tar -czvf a.tgz b",
        "sort -k2 -n f",
        "sort -u f -o g",
        "split -l 10 f",
        "zip -r a.zip b",
        "gcc -O2 -Wall -o a a.c -lm",
        "rg -n TODO src",
        "gcc -O2 -Wall -Wextra -std=c++17 -Iinclude -DX=1 -fPIC -march=native -MMD -MF a.d -c a.c",
        "curl -fsSL -X POST -H 'A: b' -d '{}' --retry 3 https://h/x -o f",
        "wget -q -nc --no-check-certificate -O f http://h",
        "sed -n '/a/,/b/p' f",
        "sed -i.bak -e 's|a|b|g' -e '/^#/d' f",
        "sed -E ':a;N;$!ba;s/[0-9]+\\n/ /g' f",
    ],
)
def test_a_known_program_with_harmless_options_is_what_its_name_says(command: str) -> None:
    assert EVERY_PROGRAM not in needs(command)


@requirement("policy.shell.2", "policy.shell.11")
@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("flock f rm x", "flock rm"),
        ("flock -n f -c 'rm x'", "flock rm"),
        ("taskset -c 0 rm x", "taskset rm"),
        ("prlimit --cpu=1 rm x", "prlimit rm"),
        ("script -qc 'rm x' f", "script rm"),
        ("chrt -f 1 rm x", "chrt rm"),
        ("chroot d rm x", "chroot rm"),
        ("dash -c 'rm x'", "dash rm"),
        ("env --split='rm x'", "env rm"),
        ("script -q --comm='rm x' f", "script rm"),
        ("su --comm 'rm x'", "su rm"),
        ("time -p -p x", "time x -p"),
    ],
)
def test_launchers_show_what_they_launch(command: str, programs: str) -> None:
    assert [segment.program for segment in analyse(command).segments] == programs.split()


@requirement("policy.shell.8")
@pytest.mark.parametrize(
    ("command", "need"),
    [
        ("curl -H @private http://h", ("fs", "read", "private")),
        ("curl -F 'f=<private' http://h", ("fs", "read", "private")),
        ("curl -F 'f=@private;type=x' http://h", ("fs", "read", "private")),
        ("curl --data-urlencode n@private http://h", ("fs", "read", "private")),
        ("curl --netrc-file private http://h", ("fs", "read", "private")),
        ("curl --trace out http://h", ("fs", "write", "out")),
        ("curl --resolve a:80:127.0.0.9 http://a", ("net", "egress", "127.0.0.9:80")),
        ("curl --connect-to a:80:b:81 http://a", ("net", "egress", "b:81")),
        ("curl -K private", ("net", "egress", "*")),
        ("wget --load-cookies private http://h", ("fs", "read", "private")),
        ("git push https://h/x", ("net", "egress", "https://h/x")),
        ("git push ../other", ("fs", "write", "../other")),
        ("git fetch git@h:x", ("net", "egress", "h:22")),
        ("git remote add x https://h/x", ("net", "egress", "https://h/x")),
        ("git diff --no-index private b", ("fs", "read", "private")),
        ("git -C private status", ("fs", "read", "private")),
        ("tar cf out private", ("fs", "read", "private")),
        ("tar xf in -C out", ("fs", "write", "out")),
        ("dd if=private of=out", ("fs", "read", "private")),
        ("sha256sum private", ("fs", "read", "private")),
        ("uniq a out", ("fs", "write", "out")),
        ("diff private b", ("fs", "read", "private")),
        ("diff --to-file=private b", ("fs", "read", "private")),
        ("grep --fil=private x", ("fs", "read", "private")),
        ("grep --exclude-from private x", ("fs", "read", "private")),
        ("wc --files0-f=private", ("fs", "read", "private")),
        ("cp --target-d=out x", ("fs", "write", "out")),
        ("curl file:///private", ("fs", "read", "/**")),
        ("curl -w '%output{out}' http://h", ("fs", "write", "out")),
        ("git diff /dev/null private", ("fs", "read", "private")),
        ("git -C sub diff --no-index private b", ("fs", "read", "sub/private")),
        ("git commit -F private", ("fs", "read", "private")),
        ("git init out", ("fs", "write", "out")),
        ("xargs --arg-file=private echo", ("fs", "read", "private")),
        ("date -f private", ("fs", "read", "private")),
        ("xxd a out", ("fs", "write", "out")),
        ("chmod 777 out", ("fs", "write", "out")),
        ("zip a.zip private", ("fs", "read", "private")),
        ("scp private h:x", ("fs", "read", "private")),
        ("scp private u@h:x", ("net", "egress", "h:22")),
        ("rsync -a private out", ("fs", "write", "out")),
    ],
)
def test_words_that_name_files_and_hosts_are_needs(command: str, need: tuple[str, str, str]) -> None:
    assert need in needs(command)


@requirement("policy.shell.12")
@pytest.mark.parametrize(
    "argv",
    [
        ["if"],
        ["X=1", "ls"],
        ["time", "ls"],
        ["echo", "$(id)"],
        ["a b", "it's"],
        ["{", "ls"],
        ["~/x"],
        ["ls", ">f"],
        ["["],
    ],
)
def test_the_words_of_a_program_mean_nothing_to_a_shell(argv: list[str]) -> None:
    found = analyse(line(argv))
    programs = [segment.program for segment in found.segments]
    assert programs == [argv[0]] if argv[0] not in ("[", "time") else programs != ["?"]
    assert not found.files

"""Programs that run whatever they are given: to grant one of them is to grant arbitrary code."""

from __future__ import annotations

import posixpath
import re

from toolcrib.policy import globs

_TEXT = """
ansible ansible-playbook ant apk apt apt-get ash at awk bash batch bazel bc brew buildah bun bundle bunx busybox bwrap
byobu cargo cargo-watch chpst chroot chrt clojure cmake composer concurrently conda crictl crontab csh ctr dash dbus-
launch dbus-run-session dc deno dnf doas docker dpkg dumb-init ed electron elixir elvish emacs entr env erl ex expect
fakeroot firejail fish flatpak-spawn flock forever ftp gawk gcc-ar gdb gdbserver gem ghci gnome-terminal gnuplot go
go-run gosu gp gpg gpg2 gradle groovy hatch helix helm hx iex inotifywait ip irb java jshell julia just kind konsole
kotlin kotlinc ksh kubectl lein less lldb logrotate ltrace lua m4 make mamba mariadb mawk maxima mc meson micro
minikube mix mksh mongo mongosh more mosh most mvn mysql nano nawk nc ncat neovim nerdctl netcat ninja nix-shell node
nodejs nodemon nox npm npx nsenter nu nvim ocaml octave openssl osascript pacman parallel pdm perf perl pg php pico
pip pip3 pipx pkexec playwright pm2 pnpm pnpx podman poetry powershell prlimit proot psql puppeteer pwsh pypy pytest
python r rake ranger rbash redis-cli rlogin rpm rscript rsh ruby run-parts runghc runuser rustc rustup s6-setuidgid
sbt scala scons screen script sed setarch setpriv setuidgid sftp sh skopeo snap socat sqlcmd sqlite3 ssh ssh-agent
ssh-copy-id ssh-keygen start-stop-daemon strace su sudo supervisord swift systemd-run taskset tclsh tcsh telnet
terraform tini tmux tox ts-node tsx unbuffer unshare uv uvx vagrant valgrind vi view vim watchexec wish xargs xdg-open
xonsh xterm yarn yash yum zsh
"""
NAMES = frozenset(_TEXT.split())
_VERSION = re.compile(r"[-.\d]+\w?$")


def is_interpreter(program: str) -> bool:
    """True if a program runs what it is given; versions (`python3.11`) and folders make no difference."""
    name = posixpath.basename(program).lower().removesuffix(".exe")
    return name in NAMES or _VERSION.sub("", name) in NAMES


def granted(glob: str) -> list[str]:
    """The programs of this kind that a grant names: three at most, for a message."""
    if not globs.is_pattern(glob):
        return [glob] if is_interpreter(glob) else []
    test = globs.text(glob)
    found = sorted(name for name in (*NAMES, "python3") if test(name))
    return [*found[:3], "…"] if len(found) > 3 else found

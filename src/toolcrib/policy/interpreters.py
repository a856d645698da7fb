"""Programs that run whatever they are given: to grant one of them is to grant arbitrary code."""

from __future__ import annotations

import posixpath
import re

from toolcrib.policy import globs

_TEXT = """
abduco agda ansible ansible-playbook ant apk apt apt-get argo ash at autossh ava awk aws az bash bat batcat batch
bazel bc bcc bibtex bison bmake borg bpftrace brew buildah bun bundle bunx busybox bwrap byobu bzless bzmore bzr cabal
capsh cargo cargo-watch catchsegv cdk celery certbot cgexec chef chicken choco chpst chronic chroot chrt clang-tidy
clangd clisp clojure cmake cmd code colormake composer concurrently conda consul coqtop corepack coverage cowsay
cowthink cpan cpanm cpulimit crictl crontab cscript csh csharp csi ctr cucumber cvs daemon daemonize darcs dash
dbus-launch dbus-run-session dc debugfs debuild delta deno django-admin dmenu dmsetup dnf doas docker doit dotnet dpkg
dpkg-buildpackage dpkg-reconfigure dtach dtrace dumb-init dumpcap dune duplicity easy_install eatmydata eb ecl ed
electron elinks elixir elvish emacs emacsclient emerge entr env erl eslint evim evince ex exiftool expect expo f77 f95
fab facter fakeroot faketime firejail fish flake8 flameshot flask flatpak flatpak-spawn flex flock flux fly fnm
forever fossil fsi ftp fusermount fzf gawk gcc-ar gcloud gdb gdbserver gdc gem gforth gfortran gh ghc ghci ghostscript
gio gitk glab gmake gnat gnome-terminal gnuplot gnuplot-x11 go go-run gold gosu gp gpg gpg2 gprolog gradle graph-easy
groff groovy grunt gs gst guile guix gulp gunicorn gview gvim hatch helix helm heroku hg hostnamectl hping3 hub hx
hyperfine i3-msg idris iex ifne info initctl inotifywait inv invoke invoke-rc.d ip ipython irb jake java javac jed
jest jj jjs jmacs joe journalctl jrunscript jshell julia jupyter just k3s k9s kak kernprof kind knife konsole kotlin
kotlinc ksh kubectl kustomize latex latexmk launchctl lazygit lckdo ld ldd lein lerna less lesspipe lex lftp links lld
lldb loginctl logrotate logsave loksh losetup ltrace lua luajit lualatex luatex lv lxc lxc-attach
lxc-execute lynx m4 machinectl mage mail mailx make makepkg mamba mariadb mawk maxima mc mcedit mcview meson mg micro
micromamba minikube mispipe mix mk mkdocs mksh mocha mongo mongosh mono more mosh most msbuild mshta multipass mutt
mvn mypy mysql nano nasm nawk nc ncat ncftp ne neovim nerdctl netcat netlify newgrp next ng ninja nix nix-build
nix-env nix-shell nmake nmap nocache node nodejs nodemon nomad nox npm npx nroff nsenter nu numactl nuxt nvim nvm nx
oc ocaml octave oksh opam open openssl openvpn opt osascript p4 packer pacman pandoc parallel parset pdflatex pdftex
pdm pdsh pee perf perl perlbug perldoc pg php phpunit pico pinfo pip pip3 pipenv pipx pixi pkexec pkg pkg_add
playwright pm2 pmake pnpm pnpx podman poetry poly port posh powershell pre-commit prlimit proot protoc prove
proxychains proxychains4 psql pssh pulumi puppet puppeteer pwsh py-spy pydoc pyinstaller pylint pypy pytest python
qemu qemu-system-x86_64 r racket rake ranger rbash rc-service rclone rebar3 red redis-cli remake reptyr restic rgvim
rlogin rlwrap rnano rofi rollup rpm rpmbuild rr rscript rsh rspec rsyslogd ruby run-parts runcon rundll32 runghc runit
runsv runuser rustc rustup rview rvim rye s6-setuidgid s6-svscan salt salt-call sam samu sandbox-exec sash sbcl sbt
scala scalac scheme scons scoop scrapy screen script scrot serverless service setarch setpriv setuidgid sftp sg sh
sk skaffold skopeo slogin slsh smalltalk smbclient sml snap socat softlimit sphinx-build sqlcmd sqlite3 ssh ssh-agent
ssh-copy-id ssh-keygen sshfs sshpass stack stap start-stop-daemon startx strace su subl sudo sudoedit supervisorctl
supervisord sv svn swaymsg swift swipl sysdig systemctl systemd-run task taskset tcc tclsh tcsh telnet telnetd
terraform tex tftp tig tilt timedatectl tini tmate tmux torify torsocks tox toybox trickle troff ts-node tshark tsocks
tsx turbo uftrace unbuffer unshare update-alternatives uv uvicorn uvx vagrant valgrind vboxmanage vercel vi vidir view
vigr vim vimdiff vimtutor vipe vipw virsh visudo vite vitest vlc volta w3m waf wasmer wasmtime watchexec webpack wine
winget wireshark wish wmctrl wscript wsl xargs xdg-open xdotool xelatex xinit xonsh xsh xterm xvfb-run xzless xzmore
yacc yarn yash yelp yum zathura zellij zless zmore zrun zsh zypper
"""
NAMES = frozenset(_TEXT.split())
# The program that loads others, and runs the one that it is given.
_LOADER = re.compile(r"ld(?:-linux.*|-musl.*|)\.so(?:\.\d+)*\Z|ld-\d.*\.so\Z")
_VERSION = re.compile(r"[-.\d]+\w?$")


def is_interpreter(program: str) -> bool:
    """True if a program runs what it is given; versions (`python3.11`) and folders make no difference."""
    name = posixpath.basename(program).lower().removesuffix(".exe")
    if _LOADER.match(name):
        return True
    return not NAMES.isdisjoint({name, _VERSION.sub("", name), name.removeprefix("g")})


def granted(glob: str) -> list[str]:
    """The programs of this kind that a grant names: three at most, for a message."""
    if not globs.is_pattern(glob):
        return [glob] if is_interpreter(glob) else []
    test = globs.text(glob)
    names = sorted(name for name in (*NAMES, "python3") if test(name))
    return [*names[:3], "…"] if len(names) > 3 else names

"""Known programs that can run others: which of their options are harmless.

Such a program is what its name says only with options from this list. With any other, or one that is computed, it may
run anything. Names are written in full: what a program makes of an abbreviation is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.policy.shell.downloads import CURL, WGET
from toolcrib.policy.shell.git import may_run_others as git_runs_others
from toolcrib.policy.shell.options import Options, computed, harmless
from toolcrib.policy.shell.sed import may_run_others as sed_runs_others
from toolcrib.policy.shell.words import Word

_COMMON = "help version verbose quiet"
_SORT = Options(
    "bdfghiMnRrVcCk:mo:sS:t:T:uz",
    f"{_COMMON} ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort"
    " human-numeric-sort numeric-sort random-sort reverse version-sort check debug merge stable unique zero-terminated",
    "sort random-source batch-size field-separator key output buffer-size temporary-directory parallel files0-from",
)
_SPLIT = Options(
    "a:b:C:dxel:n:t:u",
    f"{_COMMON} numeric-suffixes hex-suffixes elide-empty-files unbuffered",
    "suffix-length additional-suffix bytes line-bytes lines number separator",
)
_TAR = Options(
    "AcdrtuxvkUWOmpszjJZahlPSwb:f:C:T:X:",
    f"{_COMMON} create extract get list append update diff compare delete concatenate catenate gzip gunzip ungzip bzip2"
    " xz lzip lzma lzop zstd compress uncompress auto-compress verify keep-old-files overwrite to-stdout touch"
    " preserve-permissions same-permissions same-owner no-same-owner no-same-permissions numeric-owner sparse"
    " absolute-names dereference hard-dereference one-file-system totals wildcards no-wildcards anchored no-anchored"
    " recursion no-recursion null exclude-vcs exclude-caches exclude-backups skip-old-files keep-newer-files"
    " remove-files no-overwrite-dir unlink-first recursive-unlink block-number utc full-time",
    "file directory files-from exclude exclude-from strip-components transform xform mode owner group mtime format sort"
    " level newer newer-mtime after-date blocking-factor record-size starting-file one-top-level warning label suffix",
)
_ZIP = Options(
    "0123456789AcdDeEfFgijJklLmopqrRSuvwxXyzZ:b:n:t:P:O:",
    f"{_COMMON} recurse-paths junk-paths update freshen delete move encrypt no-extra no-dir-entries symlinks",
    "password exclude include suffixes temp-path output-file compression-method",
)
_RSYNC = Options(
    "vqcarRbudlLkKHpEAXogDtOJSnWxzCihPB:T:f:4680",
    f"{_COMMON} checksum archive recursive relative backup update inplace append append-verify dirs links copy-links"
    " copy-unsafe-links safe-links copy-dirlinks keep-dirlinks hard-links perms executability acls xattrs owner group"
    " devices specials times omit-dir-times omit-link-times super sparse preallocate dry-run whole-file one-file-system"
    " existing ignore-existing remove-source-files del delete delete-before delete-during delete-delay delete-after"
    " delete-excluded ignore-errors force partial delay-updates prune-empty-dirs numeric-ids ignore-times size-only"
    " fuzzy compress cvs-exclude from0 blocking-io stats human-readable progress itemize-changes list-only ipv4 ipv6",
    "backup-dir suffix max-size min-size max-delete partial-dir timeout contimeout modify-window temp-dir compare-dest"
    " copy-dest link-dest compress-level skip-compress filter exclude exclude-from include include-from files-from"
    " address port bwlimit chmod chown usermap groupmap info debug log-file log-file-format out-format block-size",
)
_DIFF3 = Options(
    "AeExX3TsivamL:", f"{_COMMON} ed show-overlap easy-only merge text show-all initial-tab strip-trailing-cr", "label"
)
_GREP_LIKE = Options(
    "abcdefFGhHiIlLmnNoOpPqrsStTuUvVwxXyA:B:C:e:f:g:j:m:M:t:T:E:r:",
    f"{_COMMON} files files-with-matches files-without-match count ignore-case smart-case case-sensitive fixed-strings"
    " hidden no-ignore no-ignore-vcs line-number no-line-number column heading no-heading with-filename no-filename"
    " invert-match only-matching word-regexp line-regexp multiline multiline-dotall json null pcre2 text trim vimgrep"
    " stats no-messages follow one-file-system unrestricted type-list passthru pretty absolute-path full-path",
    "after-context before-context context regexp file glob iglob max-count max-depth threads type type-not color colors"
    " encoding replace sort sortr max-columns max-filesize engine extension exclude min-depth exact-depth size",
)
_CC_SAFE = re.compile(
    r"-(?:[cSEgsvwPCp]|g[0-9]|ggdb[0-9]?|gdwarf(?:-[0-9])?|[oDUIlLM].*|M[MDGPFTQ]+|O[0-9sgz]?|Ofast|std=[\w+]+|x"
    r"|W(?!l,|a,|p,)[\w=+,-]*|f(?!plugin)[a-zA-Z][\w-]*|f(?:sanitize|no-sanitize|visibility|lto|max-errors|diagnostics-color"
    r"|stack-protector|cf-protection|debug-prefix-map|file-prefix-map|macro-prefix-map)=[\w=,./+-]+"
    r"|m(?!llvm)[\w-]+(?:=[\w.,+-]+)?|include|imacros|isystem|iquote|idirafter|isysroot|pg|pipe|pthread|pie|pedantic"
    r"|pedantic-errors|shared|static|static-libgcc|static-libstdc\+\+|save-temps|nostd\w+|nodefaultlibs|no-pie|rdynamic"
    r"|ansi|time|traditional|dumpversion|dumpmachine)\Z",
    re.DOTALL,
)
_COMPILERS = frozenset({"cc", "c++", "gcc", "g++", "clang", "clang++", "c99", "c89"})

_PROGRAMS: dict[str, Options] = {
    "sort": _SORT,
    "split": _SPLIT,
    "tar": _TAR,
    "zip": _ZIP,
    "rsync": _RSYNC,
    "diff3": _DIFF3,
    "sdiff": Options(
        "iEZbWBaltsvw:I:", f"{_COMMON} ignore-case suppress-common-lines left-column text minimal", "width"
    ),
    "install": Options(
        "bcCdDg:m:o:psS:t:TvZ",
        f"{_COMMON} backup compare directory preserve-timestamps no-target-directory",
        "group mode owner suffix target-directory",
    ),
    "rg": _GREP_LIKE,
    "fd": Options(
        "HIuasigFpL0eE:t:d:j:c:S:1q",
        f"{_COMMON} hidden no-ignore glob fixed-strings absolute-path full-path follow print0 ignore-case "
        "case-sensitive",
        "type extension exclude max-depth min-depth exact-depth size color threads max-results "
        "changed-within changed-before owner base-directory",
    ),
    "tcpdump": Options(
        "AbdDefhHIJKlLnNOpqRStuUvxXc:C:F:G:i:j:m:M:r:s:T:w:W:y:",
        f"{_COMMON} list-interfaces print count",
        "interface snapshot-length",
    ),
    "cpio": Options(
        "ioptdumvabcBkLnsSVZ0AC:E:F:H:M:R:D:I:O:",
        f"{_COMMON} create extract list pass-through null make-directories preserve-modification-time "
        "unconditional dereference",
        "format file directory owner pattern-file io-size",
    ),
    "man": Options("afkwWdDKIiltTe:L:m:M:S:s:", f"{_COMMON} where apropos whatis", "locale systems sections extension"),
    "scp": Options("346ABCOpqRrTvc:l:P:", "", ""),
    "curl": CURL,
    "wget": WGET,
}
_BUNDLED = frozenset({"tar"})
"""Programs whose first word may be a bundle of options without a dash."""


# An archive that is named so is on another machine, which is reached by a program.
_REMOTE = re.compile(r"[^/]*:")
_ARCHIVERS = frozenset({"tar", "cpio"})


def may_run_others(name: str, words: Sequence[Word]) -> bool:
    """True if a known program has an option that is not known to be harmless."""
    name = _usual(name)
    if name == "git":
        return git_runs_others(words[1:])
    if name == "sed":
        return sed_runs_others(words)
    if name in _COMPILERS:
        return any(not _compiles(word) for word in words[1:])
    if name in _ARCHIVERS and any(_REMOTE.match(word.plain) for word in words[1:]):
        return True
    spec = _PROGRAMS.get(name)
    return spec is not None and not harmless(words[1:], spec, bundled=name in _BUNDLED)


def _usual(name: str) -> str:
    """The name under which a program is listed here: without a version, a platform, or the `g` of GNU's."""
    name = _VARIANT.sub("", name)
    return name[1:] if name[:1] == "g" and name[1:] in (*_PROGRAMS, "sed") else name


_VARIANT = re.compile(
    r"^\w+-(?:\w+-)*(?=(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(?:-[0-9.]+)?\Z)|-[0-9][0-9.]*\Z|^bsd(?=tar\Z)"
)


def _compiles(word: Word) -> bool:
    text = word.literal
    if text is None:
        return not computed(word)
    return not text.startswith(("-", "@")) or text == "-" or _CC_SAFE.match(text) is not None

"""Which forms of git are what they look like. Others may run anything: an alias, a hook, a pager, a remote's program.

What a repository's own configuration makes git run is not seen here; whoever may write to it may do as much.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.policy.shell.options import Options, computed, harmless
from toolcrib.policy.shell.words import Word

_GLOBAL_FLAGS = frozenset(
    {"--no-pager", "-P", "--bare", "--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs"}
    | {"--no-optional-locks", "--no-replace-objects", "--no-lazy-fetch", "--no-advice"}
)
_INFORMS = frozenset({"--version", "-v", "--html-path", "--man-path", "--info-path"})
# Settings that only change texts and looks.
_SETTINGS = re.compile(
    r"(?:user\.(?:name|email)|author\.(?:name|email)|color\.[a-z.]+|advice\.\w+|init\.defaultbranch|core\.quotepath"
    r"|core\.autocrlf|core\.abbrev|commit\.gpgsign|tag\.gpgsign|log\.\w+|diff\.renames|status\.\w+|column\.\w+"
    r"|fetch\.prune|pull\.(?:rebase|ff)|push\.default|rebase\.autostash|merge\.conflictstyle|gc\.auto)=",
    re.IGNORECASE,
)
_LOOKS = (
    "patch no-patch raw stat numstat shortstat dirstat summary name-only name-status minimal patience histogram binary"
    " abbrev full-index color no-color word-diff color-words no-renames check find-renames find-copies cached staged"
    " exit-code ignore-space-change ignore-all-space ignore-blank-lines ignore-space-at-eol function-context no-prefix"
    " merge-base no-ext-diff no-textconv text reverse pickaxe-regex pickaxe-all compact-summary cc remerge-diff quiet"
)
_LOOKS_VALUES = (
    "unified diff-filter diff-algorithm stat-width relative src-prefix dst-prefix inter-hunk-context anchored"
)
_LOG = (
    f"{_LOOKS} oneline graph decorate no-decorate all branches tags remotes merges no-merges "
    "first-parent follow reverse"
    " date-order topo-order author-date-order left-right cherry-pick cherry-mark boundary simplify-merges full-history"
    " parents children abbrev-commit no-abbrev-commit relative-date walk-reflogs "
    "source mailmap invert-grep"
    " regexp-ignore-case extended-regexp fixed-strings perl-regexp all-match ancestry-path simplify-by-decoration"
)
_LOG_VALUES = (
    f"{_LOOKS_VALUES} format pretty date since until after before author committer grep max-count skip glob exclude"
)
_LOG_SHORT = "pusnqgciztbwaRWD0123456789U:S:G:L:M:C:n:O:m"
_SPECS: dict[str, Options] = {
    "status": Options(
        "sbvzu",
        "short branch show-stash porcelain long verbose ignored column renames ahead-behind null",
        "untracked-files ignore-submodules find-renames",
    ),
    "log": Options(_LOG_SHORT, _LOG, _LOG_VALUES),
    "show": Options(_LOG_SHORT, _LOG, _LOG_VALUES),
    "shortlog": Options("nsecgw", "numbered summary email committer merges all", "format group since until author"),
    "diff": Options(_LOG_SHORT, f"{_LOOKS} no-index ita-visible-in-index", _LOOKS_VALUES),
    "blame": Options(
        "bcltfnsewL:S:M:C:",
        "root show-stats porcelain line-porcelain incremental show-name show-number show-email "
        "color-lines color-by-age",
        "date reverse abbrev ignore-rev since",
    ),
    "ls-files": Options(
        "cdomistkuvzx:X:",
        "cached deleted others modified ignored stage unmerged killed directory exclude-standard "
        "error-unmatch full-name eol deduplicate",
        "exclude exclude-from with-tree abbrev format",
    ),
    "ls-tree": Options("dlrtz", "name-only name-status object-only long full-name full-tree", "abbrev format"),
    "rev-parse": Options(
        "q",
        "verify short abbrev-ref symbolic symbolic-full-name all branches tags remotes show-toplevel "
        "git-dir git-common-dir is-inside-work-tree is-inside-git-dir is-bare-repository show-prefix "
        "show-cdup absolute-git-dir head quiet no-flags no-revs revs-only flags",
        "since until default prefix",
    ),
    "rev-list": Options(_LOG_SHORT, f"{_LOG} count objects", _LOG_VALUES),
    "describe": Options(
        "",
        "all tags contains exact-match long always first-parent debug dirty broken",
        "abbrev candidates match exclude",
    ),
    "branch": Options(
        "dDmMcCfarvlqtu:",
        "delete move copy force all remotes verbose list quiet track no-track show-current "
        "unset-upstream color no-color ignore-case",
        "set-upstream-to contains no-contains merged no-merged points-at sort format abbrev column",
    ),
    "tag": Options(
        "lndfvim:F:u",
        "list delete verify force annotate color ignore-case",
        "message file sort contains no-contains merged no-merged points-at format column",
    ),
    "remote": Options("v", "verbose push all"),
    "add": Options(
        "nvAuNfp",
        "dry-run verbose all update intent-to-add force patch refresh ignore-errors ignore-missing renormalize no-all",
        "chmod",
    ),
    "rm": Options("nrfq", "dry-run cached force quiet ignore-unmatch"),
    "mv": Options("fknv", "force dry-run verbose"),
    "restore": Options("SWqs:", "staged worktree quiet ours theirs merge progress overlay", "source conflict"),
    "reset": Options("q", "soft mixed hard merge keep quiet"),
    "switch": Options(
        "cCdfmqt", "create force-create detach force discard-changes merge quiet track no-track guess orphan"
    ),
    "checkout": Options(
        "bBdfmqtl", "detach force merge quiet track no-track ours theirs guess orphan progress overlay"
    ),
    "stash": Options("kuaqpSm:", "keep-index include-untracked all quiet patch staged index", "message"),
    "fetch": Options(
        "apPtnqvfkj:4",
        "all append prune prune-tags tags no-tags quiet verbose force keep dry-run unshallow "
        "update-shallow progress ipv4 ipv6 atomic",
        "depth deepen shallow-since shallow-exclude jobs refmap filter",
    ),
    "cat-file": Options("tspe", "", ""),
    "merge-base": Options("a", "all octopus independent is-ancestor fork-point"),
    "show-ref": Options("sdqh", "head heads tags branches dereference hash verify quiet exists", "abbrev"),
    "for-each-ref": Options(
        "s", "ignore-case", "count sort format points-at merged no-merged contains no-contains exclude"
    ),
    "grep": Options(
        "acIinhHlLwvEFGPopqrW0e:f:A:B:C:m:",
        "cached untracked no-index text ignore-case word-regexp invert-match full-name extended-regexp "
        "basic-regexp fixed-strings perl-regexp line-number column files-with-matches name-only "
        "files-without-match count color no-color break heading show-function function-context quiet "
        "all-match and or not recurse-submodules",
        "max-depth max-count after-context before-context context threads",
    ),
    "count-objects": Options("vH", "verbose human-readable"),
    "clean": Options("dfnqxXe:", "force dry-run quiet", "exclude"),
    "init": Options("qb:", "quiet bare", "initial-branch object-format shared"),
    "clone": Options(
        "lsnqvb:o:j:4",
        "local no-hardlinks shared no-checkout quiet verbose progress bare mirror single-branch "
        "no-single-branch no-tags sparse ipv4 ipv6 reject-shallow",
        "branch origin depth shallow-since shallow-exclude jobs filter",
    ),
    "pull": Options(
        "qvnr4",
        "quiet verbose rebase no-rebase ff ff-only no-ff stat no-stat squash no-commit commit autostash "
        "no-autostash all append force tags no-tags prune dry-run keep progress",
        "depth strategy",
    ),
    "push": Options(
        "nqvfud4",
        "all branches mirror delete tags follow-tags dry-run porcelain force force-with-lease "
        "force-if-includes set-upstream quiet verbose progress atomic thin no-verify",
    ),
    "config": Options(
        "lz",
        "list get get-all get-regexp get-urlmatch name-only show-origin show-scope null global system "
        "local worktree bool int bool-or-int path",
    ),
    "ls-remote": Options("htq", "heads tags branches refs quiet exit-code get-url symref", "sort"),
    "commit": Options(
        "apnqvsm:F:C:t:",
        "all patch no-verify quiet verbose signoff allow-empty allow-empty-message dry-run short branch "
        "porcelain long amend no-edit reset-author no-status status include only no-post-rewrite "
        "no-gpg-sign",
        "message file reuse-message author date cleanup trailer fixup",
    ),
    "version": Options("", "build-options"),
    "whatchanged": Options(_LOG_SHORT, _LOG, _LOG_VALUES),
    "reflog": Options(_LOG_SHORT, _LOG, _LOG_VALUES),
    "check-ignore": Options("qvnz", "quiet stdin verbose non-matching no-index"),
    "hash-object": Options("wt:", "stdin literally no-filters", "path"),
    "name-rev": Options("", "tags name-only always", "refs exclude"),
    "symbolic-ref": Options("qd", "short quiet delete"),
    "worktree": Options("v", "porcelain verbose"),
}
# A place written `helper::...` is reached through a program of that name.
_REACHES = frozenset({"clone", "fetch", "pull", "push", "ls-remote"})
# With one of these they open no editor.
_EDITS = {
    "commit": re.compile(r"-[apnqsv]*[mFC]|--(?:message|file|reuse-message|no-edit|dry-run)"),
    "tag": re.compile(r"-[fl]*[mFldv]|-n|--(?:message|file|list|delete|verify|sort|contains|merged)|[^-]"),
}
# What runs another program though its option is listed: `gpg` for a signature, an editor for what is to be done.
_RUNS = re.compile(r"(?:--(?:format|pretty)\b.*)?(?:%G|%\(signature)|--rebase=(?!(?:true|false|merges)\Z)", re.DOTALL)
_READS_CONFIG = frozenset({"--get", "--get-all", "--get-regexp", "--get-urlmatch", "-l", "--list", "get", "list"})


def may_run_others(words: Sequence[Word]) -> bool:
    """True if git may run another program with these words."""
    at = 0
    while at < len(words):
        text = words[at].literal
        if text is None or text in _INFORMS:
            return text is None
        if text in ("-C", "--work-tree", "-c"):
            if at + 1 >= len(words) or not _sets_harmless(text, words[at + 1]):
                return True
            at += 2
        elif text in _GLOBAL_FLAGS or text.startswith("--work-tree="):
            at += 1
        else:
            return _subcommand(text, words[at + 1 :])
    return False


def _sets_harmless(option: str, value: Word) -> bool:
    if option != "-c":
        return not computed(value)
    # What stands before the first expansion decides which setting it is.
    return _SETTINGS.match(value.plain.lstrip("\"'")) is not None


def _subcommand(name: str, words: Sequence[Word]) -> bool:
    spec = _SPECS.get(name)
    if spec is None or not harmless(words, spec):
        return True
    texts = [word.plain for word in words]
    if name in _REACHES and any("::" in text or computed(word) for text, word in zip(texts, words, strict=True)):
        return True
    if any(_RUNS.match(text) for text in texts):
        return True
    if name == "config":
        return not _READS_CONFIG.intersection(texts)
    if name in _EDITS:
        return not any(_EDITS[name].match(text) for text in texts)
    if name in ("worktree", "remote"):
        return bool(texts) and texts[0] not in ("list", "-v", "--verbose", "show", "get-url")
    return False

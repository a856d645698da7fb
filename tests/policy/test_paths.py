"""policy.match.path and policy.match.pathglob: where a path leads, and which paths a pattern covers."""

import fnmatch
import os
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.policy import paths
from toolcrib.policy.errors import BadRule, UnfitArgument
from toolcrib.policy.paths import Folders

CASES = case_data("policy/paths.json")
GRANTS = case_data("policy/path_grants.json")
AT = Folders("/shop/desk", "/people/ada", str)


@requirement("policy.match.path")
@pytest.mark.parametrize("case", CASES, ids=[ascii(case["path"]) for case in CASES])
def test_paths_are_what_the_shared_cases_say(case: dict[str, Any]) -> None:
    folders = Folders(case["workspace"], case.get("home"))
    if case.get("error"):
        with pytest.raises(UnfitArgument):
            paths.canonical(case["path"], folders)
    else:
        assert paths.canonical(case["path"], folders) == case["canonical"]


@requirement("policy.match.pathglob")
@pytest.mark.parametrize("case", GRANTS, ids=[f"{case['grant']!a}-{case['path']!a}" for case in GRANTS])
def test_patterns_cover_what_the_shared_cases_say(case: dict[str, Any]) -> None:
    folders = Folders(case["workspace"])
    assert paths.glob(case["grant"], folders)(paths.canonical(case["path"], folders)) is case["match"]


@requirement("policy.match.path")
@pytest.mark.parametrize(
    ("path", "leads"),
    [
        ("notes.md", "/shop/desk/notes.md"),
        ("./x/./y//z/", "/shop/desk/x/y/z"),
        ("~", "/people/ada"),
        ("~/../eve/x", "/people/eve/x"),
        ("~eve/x", "/shop/desk/~eve/x"),
        ("a/~", "/shop/desk/a/~"),
        ("../../../../etc/shadow", "/etc/shadow"),
        ("/shop/desk/../../etc", "/etc"),
        ("///etc//passwd", "/etc/passwd"),
        ("%2e%2e/%2f", "/shop/desk/%2e%2e/%2f"),
        ("..%2fetc", "/shop/desk/..%2fetc"),
        ("a*b?[c].txt", "/shop/desk/a*b?[c].txt"),
        ("..\\..\\etc", "/shop/desk/..\\..\\etc"),
        ("u\u0308.txt", "/shop/desk/\u00fc.txt"),
        (" ", "/shop/desk/ "),
        ("a\nb", "/shop/desk/a\nb"),
    ],
)
def test_a_path_leads_here(path: str, leads: str) -> None:
    assert paths.canonical(path, AT) == leads
    assert paths.is_canonical(leads)
    assert path == leads or not paths.is_canonical(path)


@requirement("policy.match.path")
@pytest.mark.parametrize("path", ["", "\0", "a\0/../b", "x\ud800y"])
def test_what_is_no_path_is_unfit(path: str) -> None:
    with pytest.raises(UnfitArgument):
        paths.canonical(path, Folders("/shop/desk"))


def test_a_home_that_nobody_knows_is_unfit() -> None:
    with pytest.raises(UnfitArgument):
        paths.canonical("~/x", Folders("/shop/desk", None, str))
    with pytest.raises(BadRule):
        paths.glob("${home}/x", Folders("/shop/desk", None, str))
    with pytest.raises(BadRule):
        Folders("desk")


@requirement("policy.match.path")
def test_links_are_followed_and_must_match_behind(tmp_path: Path) -> None:
    desk, vault = tmp_path / "desk", tmp_path / "vault"
    desk.mkdir()
    vault.mkdir()
    (desk / "out").symlink_to(vault)
    (desk / "chain").symlink_to(desk / "out")
    (desk / "round").symlink_to(desk / "round")
    folders = Folders(str(desk))
    inside = paths.glob("${workspace}/**", folders)
    real = os.path.realpath(vault)
    assert paths.canonical("out/new/file", folders) == f"{real}/new/file"
    assert paths.canonical("chain", folders) == real
    assert not inside(paths.canonical("out/x", folders))
    assert not inside(paths.canonical("chain/x", folders))
    assert inside(paths.canonical("new/x", folders))
    paths.canonical("round/x", folders)


@requirement("policy.match.path")
def test_dots_behind_a_link_mean_two_things_and_are_refused(tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "desk" / "link").symlink_to(tmp_path / "deep" / "er")
    folders = Folders(str(tmp_path / "desk"))
    with pytest.raises(UnfitArgument, match="behind a link"):
        paths.canonical("link/../x", folders)
    assert paths.canonical("plain/../x", folders) == f"{folders.workspace}/x"


@requirement("policy.match.path")
def test_a_link_that_exists_in_one_unicode_form_alone_is_no_way_out(tmp_path: Path) -> None:
    composed, split = "\u00e9", unicodedata.normalize("NFD", "\u00e9")
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / split).symlink_to("/etc")
    folders = Folders(str(tmp_path / "desk"))
    if os.path.lexists(tmp_path / "desk" / composed):
        pytest.skip("this file system takes both forms for one")
    inside = paths.glob("${workspace}/**", folders)
    with pytest.raises(UnfitArgument):
        paths.canonical(f"{split}/passwd", folders)
    assert inside(paths.canonical(f"{composed}/passwd", folders))


@requirement("policy.match.path")
def test_a_workspace_that_is_a_link_is_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real [1]").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real [1]")
    folders = Folders(str(tmp_path / "link"))
    assert folders.workspace == os.path.realpath(tmp_path / "real [1]")
    assert paths.glob("${workspace}/*.md", folders)(paths.canonical("a.md", folders))
    assert paths.glob("*/x", folders)(paths.canonical("a/x", folders))


@requirement("policy.match.pathglob")
@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("/srv/*", ["/srv/a", "/srv/.hidden"], ["/srv", "/srv/a/b", "/srvx/a"]),
        ("/srv/**", ["/srv", "/srv/a", "/srv/a/b/c"], ["/srvx", "/", "/sr"]),
        ("/srv/", ["/srv", "/srv/a/b"], ["/srvx"]),
        ("/**/x", ["/x", "/a/x", "/a/b/x"], ["/x/y", "/ax"]),
        ("/a/**/b/**/c", ["/a/b/c", "/a/1/b/2/3/c", "/a/b/b/c/c"], ["/a/c/b", "/a/b/c/d"]),
        ("/a/**/**/b", ["/a/b", "/a/x/b"], ["/b"]),
        ("/a**b/c", ["/axxb/c", "/ab/c"], ["/a/b/c"]),
        ("/a?c", ["/abc"], ["/a/c", "/ac"]),
        ("/a[!b]c", ["/axc"], ["/abc", "/a/c"]),
        ("/a[+-9]c", ["/a.c"], ["/a/c"]),
        ("src/*.py", ["/shop/desk/src/a.py"], ["/src/a.py", "/shop/desk/src/a/b.py", "/shop/desk/x/src/a.py"]),
        ("./*.py", ["/shop/desk/a.py"], ["/shop/desk/b/a.py"]),
        ("../other/**", ["/shop/other/x"], ["/shop/desk/other/x"]),
        ("~/notes/**", ["/people/ada/notes"], ["/shop/desk/~/notes"]),
        ("${home}/x", ["/people/ada/x"], ["/people/ada/y"]),
        ("*.pem", ["/shop/desk/a.pem", "/etc/ssl/a.pem", "/.pem"], ["/a.pem/b", "/a.PEM"]),
        ("Makefile", ["/shop/desk/Makefile", "/x/y/Makefile"], ["/Makefile/x", "/aMakefile"]),
        ("*", ["/", "/etc/passwd"], []),
        ("**", ["/", "/etc/passwd"], []),
        ("/", ["/", "/x"], []),
        (".", ["/shop/desk"], ["/shop/desk/x"]),
        (r"/a\*b", ["/a*b"], ["/axb"]),
        ("/a//./b", ["/a/b"], ["/a/./b"]),
        ("/e\u0301/**", ["/\u00e9/x"], ["/e/x"]),
        ("/line\nbreak/*", ["/line\nbreak/x\ny"], ["/line"]),
    ],
)
def test_a_pattern_covers_these_paths(pattern: str, yes: list[str], no: list[str]) -> None:
    covers = paths.glob(pattern, AT)
    assert [path for path in yes if not covers(path)] == []
    assert [path for path in no if covers(path)] == []


@requirement("policy.match.pathglob")
@pytest.mark.parametrize("pattern", ["", "a\0b", "/a/*/../b", "**/..", "${nowhere}/x", "${workspace/x", "${}/x"])
def test_a_pattern_that_means_nothing_does_not_load(pattern: str) -> None:
    with pytest.raises(BadRule):
        paths.glob(pattern, AT)


@requirement("policy.match.pathglob")
@pytest.mark.parametrize("pattern", ["/**/a" * 25 + "/b", "/" + "*a" * 40 + "b/**", "/**/*a*a*a" * 12 + "/b"])
def test_no_pattern_takes_more_than_a_moment(pattern: str) -> None:
    covers, began = paths.glob(pattern, AT), time.process_time()
    assert not covers("/a" * 3000)
    assert not covers("/" + "a" * 6000)
    assert time.process_time() - began < 5


SEGMENTS = st.sampled_from(["**", "*", "a", "b", "ab", "a*", "*b", "?", "[!a]", "[ab]", "..."])


def slowly(pattern: list[str], path: list[str]) -> bool:
    """A pattern without its first slash against the segments of a path."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(slowly(pattern[1:], path[at:]) for at in range(len(path) + 1))
    return bool(path) and fnmatch.fnmatchcase(path[0], pattern[0]) and slowly(pattern[1:], path[1:])


@requirement("policy.match.pathglob")
@given(st.lists(SEGMENTS, min_size=1, max_size=6), st.lists(st.sampled_from(["a", "b", "ab", "ba", "..."]), max_size=6))
def test_quick_and_slow_matching_agree(pattern: list[str], path: list[str]) -> None:
    covers, given_path = paths.glob("/" + "/".join(pattern), AT), "/" + "/".join(path)
    assert covers(given_path) is slowly(pattern, path)
    assert not covers(given_path) or paths.key(given_path).startswith(covers.prefix)
    if covers.covers_below(given_path):
        assert covers(f"{given_path.rstrip('/')}/x/y")


WORDS = ["..", ".", "", "in", "out", "up", "self", "file", "~", "x", "%2e%2e", "..."]


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """A workspace with links to everywhere."""
    root = tmp_path_factory.mktemp("maze")
    (root / "desk" / "in" / "in").mkdir(parents=True)
    (root / "vault" / "in").mkdir(parents=True)
    (root / "desk" / "file").write_text("")
    (root / "desk" / "out").symlink_to(root / "vault")
    (root / "desk" / "in" / "up").symlink_to("../..")
    (root / "desk" / "in" / "out").symlink_to("../../vault/in")
    (root / "desk" / "self").symlink_to(".")
    (root / "vault" / "up").symlink_to(root / "desk")
    return Folders(str(root / "desk"), str(root))


@requirement("policy.match.path")
@given(st.lists(st.sampled_from(WORDS), max_size=8), st.booleans())
def test_no_path_that_seems_inside_opens_outside(maze: Folders, words: list[str], absolute: bool) -> None:
    path = (maze.workspace + "/" if absolute else "") + "/".join(words)
    try:
        found = paths.canonical(path, maze)
    except UnfitArgument:
        return
    opened = path if path.startswith("/") else f"{maze.workspace}/{path}"
    if not path.startswith("~"):
        assert os.path.realpath(opened) == found
    assert os.path.realpath(os.path.normpath(found)) == found
    assert paths.glob("${workspace}/**", maze)(found) is (found + "/").startswith(maze.workspace + "/")
    assert paths.canonical(found, maze) == found


@requirement("policy.match.path")
@given(st.text())
def test_every_text_has_one_canonical_path_or_none(text: str) -> None:
    try:
        found = paths.canonical(text, AT)
    except UnfitArgument:
        return
    assert paths.is_canonical(found)
    assert paths.canonical(found, AT) == found
    assert not {"..", "."} & set(found.split("/"))


@requirement("policy.grant.2")
@pytest.mark.parametrize(
    ("pattern", "text", "folder"),
    [
        ("**/*.py", "/shop/desk/**/*.py", "/shop/desk"),
        ("src/a*", "/shop/desk/src/a*", "/shop/desk/src"),
        ("/etc/**", "/etc/**", "/etc"),
        ("../*", "/shop/*", "/shop"),
        ("/srv/../etc/[a]", "/etc/[a]", "/etc"),
        ("*.{py,toml}", "/shop/desk/*.{py,toml}", "/shop/desk"),
        ("/*", "/*", "/"),
    ],
)
def test_a_glob_asks_for_a_set_in_a_folder(pattern: str, text: str, folder: str) -> None:
    assert paths.asked(pattern, AT) == (text, folder)


@requirement("policy.grant.2")
@pytest.mark.parametrize(
    "pattern",
    ["*/../x", "a/*/..", "{..,a}/x", "{.,a}./x", ".{.,a}/*", "{,a}.{,b}./x", "{/etc,a}/*", r"\../x", "[.][.]/*", "*\0"],
)
def test_a_glob_that_may_leave_its_folder_is_unfit(pattern: str) -> None:
    with pytest.raises(UnfitArgument):
        paths.asked(pattern, AT)

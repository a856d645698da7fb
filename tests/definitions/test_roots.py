"""Where definition files are looked for, and what a look through a folder finds."""

from pathlib import Path

import pytest

from tests.requirements import requirement
from toolcrib import Refused
from toolcrib.definitions.roots import DefinitionRoot, default_roots, look_through, pack_roots, rooted


def put(path: Path, text: str = "x: 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(root: Path) -> list[str]:
    return [str(place.path.relative_to(root)) for place in look_through(DefinitionRoot(root)).files]


@requirement("yaml.find.1")
def test_a_project_without_roots_has_its_own_then_the_users_then_the_shipped(tmp_path: Path) -> None:
    found = default_roots(tmp_path / "project", tmp_path / "config", tmp_path / "shipped")
    assert [str(root.path.relative_to(tmp_path)) for root in found] == [
        "project/.toolcrib/tools",
        "config/toolcrib/tools",
        "shipped",
    ]
    assert all(root.trusted for root in found)


@requirement("yaml.find.1")
def test_a_relative_root_is_relative_to_the_project_never_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert rooted(["tools", DefinitionRoot(Path("more"), trusted=False)], tmp_path) == (
        DefinitionRoot(tmp_path / "tools"),
        DefinitionRoot(tmp_path / "more", trusted=False),
    )
    with pytest.raises(Refused, match="relative"):
        rooted(["tools"])


def test_roots_keep_their_order_and_stand_once(tmp_path: Path) -> None:
    assert [root.path.name for root in rooted([tmp_path / "b", tmp_path / "a", tmp_path / "b"])] == ["b", "a"]


@requirement("yaml.find.2", "yaml.find.9")
@pytest.mark.parametrize("folder", ["packs", "squads", "expansion-packs"])
def test_a_pack_is_found_in_any_of_its_folders_and_is_not_trusted_unless_that_is_said(
    tmp_path: Path, folder: str
) -> None:
    place = tmp_path / folder / "sales" / "tools"
    place.mkdir(parents=True)
    assert pack_roots("sales", [tmp_path]) == (DefinitionRoot(place, trusted=False),)
    assert pack_roots("sales", [tmp_path], trusted=["sales"]) == (DefinitionRoot(place, trusted=True),)


@requirement("yaml.find.2")
@pytest.mark.parametrize("name", ["", "..", "../packs/sales", "sales/../sales", "*", "/etc", "sal"])
def test_a_pack_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "packs" / "sales" / "tools").mkdir(parents=True)
    with pytest.raises(Refused, match="not found") as refused:
        pack_roots(name, [tmp_path])
    assert (refused.value.hint == "similar: sales") is (name == "sal")


@requirement("yaml.find.3")
def test_files_are_found_in_every_folder_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/z.yml", "a/b/c.YAML", "notes.txt", ".hidden.yaml", ".git/x.yaml"):
        put(tmp_path / name)
    assert names(tmp_path) == ["a/b/c.YAML", "a/z.yml", "b.yaml"]


@requirement("yaml.find.3")
def test_links_that_leave_the_root_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root / "real" / "in.yaml")
    put(tmp_path / "outside" / "out.yaml")
    put(tmp_path / "root-like" / "near.yaml")
    (root / "out.yaml").symlink_to(tmp_path / "outside" / "out.yaml")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("../root-like")
    (root / "hop").symlink_to(root / "folder" / "out.yaml")
    assert names(root) == ["real/in.yaml"]


@requirement("yaml.find.3")
def test_links_inside_the_root_are_followed_once_and_circles_end(tmp_path: Path) -> None:
    put(tmp_path / "real" / "in.yaml")
    (tmp_path / "alias").symlink_to("real")
    (tmp_path / "real" / "circle").symlink_to(tmp_path)
    (tmp_path / "self.yaml").symlink_to("self.yaml")
    (tmp_path / "nowhere.yaml").symlink_to("gone.yaml")
    assert len(names(tmp_path)) == 1


def test_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    put(tmp_path / "real" / "in.yaml")
    (tmp_path / "root").symlink_to("real")
    assert names(tmp_path / "root") == ["in.yaml"]


def test_a_root_that_is_absent_is_empty_until_it_is_a_folder(tmp_path: Path) -> None:
    root = DefinitionRoot(tmp_path / "later")
    tree = look_through(root)
    assert tree.files == []
    assert not tree.stale(root)
    put(root.path / "in.yaml")
    assert tree.stale(root)


def test_a_root_may_be_one_file(tmp_path: Path) -> None:
    root = DefinitionRoot(put(tmp_path / "file.yaml"))
    put(tmp_path / "other.yaml")
    assert [place.path for place in look_through(root).files] == [root.path]
    assert root.folder == tmp_path

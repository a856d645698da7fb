"""Files of one folder: reading, writing, editing, finding; nothing outside it is ever touched.

Paths start at the folder. Before a call is judged, links that stay inside are followed, so that grants
(`fs:read:<path>`, `fs:write:<path>`) see where it really leads; see `root` for what happens then.
"""

from __future__ import annotations

import mimetypes
import os
import stat
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from toolcrib.context import Context
from toolcrib.errors import BadTool, ToolFailure
from toolcrib.toolkits.collection import Toolkit, kit
from toolcrib.toolkits.files import content
from toolcrib.toolkits.files import search as files_search
from toolcrib.toolkits.files.content import Quota
from toolcrib.toolkits.files.knowledge import KNOWN
from toolcrib.toolkits.files.root import RootFolder, kind, os_errors
from toolcrib.toolkits.grants import FileGrants

__all__ = ["Quota", "tools"]

DENIED = (".env*", "*.pem", "id_*", ".ssh/")
DENIED_WRITE = (".git/",)
_LISTED = 1000
_OUTPUT = 8 * 1024 * 1024
_UNSAFE = "{}*?[]\\"

PathText = Annotated[str, Field(min_length=1, max_length=4096)]


class Edit(TypedDict):
    """One replacement."""

    old: Annotated[str, Field(description="Text that is in the file exactly once", min_length=1)]
    new: Annotated[str, Field(description="What to put in its place")]


def tools(
    root: str | os.PathLike[str],
    *,
    deny: Iterable[str] = DENIED,
    deny_write: Iterable[str] = DENIED_WRITE,
    quota: Quota | Mapping[str, int] = Quota(),  # noqa: B008 - frozen
    hard_links: bool = False,
    write: bool = True,
) -> Toolkit:
    """The tools of a folder, which has to exist.

    Names that `deny` means are neither read nor written, those of `deny_write` not written. Files with several names
    are read where `hard_links` says so. Without `write` there are only the tools that read.

    Raises:
        BadTool: there is no such folder, or a setting does not hold.
    """
    if not Path(root).is_dir():
        raise BadTool("files", "root", f"there is no folder {os.fspath(root)}")
    held = RootFolder(root, hard_links)
    if any(char in held.path for char in _UNSAFE):
        raise BadTool("files", "root", f"its path may not hold any of {_UNSAFE}, since grants could not name it")
    try:
        bounds = quota if isinstance(quota, Quota) else Quota(**quota)
    except TypeError:
        raise BadTool("files", "quota", "it has file_bytes, root_bytes and root_files") from None
    made = _Files(held, tuple(deny), tuple(deny_write), bounds)
    return kit("files", [(function, data) for function, data in made.functions() if write or data.get("read_only")])


class _Files:
    """The tools, with the folder that they are for."""

    def __init__(self, root: RootFolder, deny: tuple[str, ...], deny_write: tuple[str, ...], quota: Quota) -> None:
        self._root, self._quota = root, quota
        self._unreadable, self._unwritable = files_search.denied(deny), files_search.denied((*deny, *deny_write))
        self._writing = threading.Lock()

    def functions(self) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
        """Return the functions with their settings."""
        at = self._root.path.rstrip("/")
        one, below, put = f"fs:read:{at}/{{path}}", f"fs:read:{at}/{{path}}/**", f"fs:write:{at}/{{path}}"
        moves = (f"fs:write:{at}/{{source}}", f"fs:read:{at}/{{source}}", f"fs:write:{at}/{{destination}}")
        reads = {"read_only": True, "timeout": 30, "output_bytes": _OUTPUT, "prepare": self._plain("path")}
        puts = {"effect": "once", "timeout": 30, "output_bytes": _OUTPUT, "prepare": self._plain("path", write=True)}
        ends = {**puts, "destructive": True}
        own = self._plain("path", write=True, follow=False)
        moving = self._plain("source", "destination", write=True, follow=False)
        functions: list[tuple[Callable[..., Any], dict[str, Any]]] = [
            (self.read_file, {**reads, "capabilities": (one,)}),
            (self.write_file, {**ends, "capabilities": (put,)}),
            (self.edit_file, {**puts, "capabilities": (one, put)}),
            (self.list_dir, {**reads, "capabilities": (one,)}),
            (self.glob, {**reads, "capabilities": (below,)}),
            (self.grep, {**reads, "capabilities": (below,)}),
            (self.move_file, {**ends, "capabilities": moves, "prepare": moving}),
            (self.delete_file, {**ends, "capabilities": (put,), "prepare": own}),
            (self.file_info, {**reads, "capabilities": (one,)}),
        ]
        return [(function, {**fields, **KNOWN[function.__name__]}) for function, fields in functions]

    def _plain(
        self, *names: str, write: bool = False, follow: bool = True
    ) -> Callable[[Context, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]:
        """Shapes paths before they are judged: what is judged, shown to people and logged is where they lead."""

        async def prepare(ctx: Context, values: Mapping[str, Any]) -> Mapping[str, Any]:
            paths = {name: value for name in names if isinstance(value := values.get(name), str) and value}
            plain = {name: self._root.plain(value, follow=follow) for name, value in paths.items()}
            for path in plain.values():
                self._check(path, write)
            return {**values, **plain}

        return prepare

    def _check(self, path: str, write: bool = False) -> None:
        if (self._unwritable if write else self._unreadable)(path):
            raise ToolFailure("denied", f"{path} is closed: its name is one of those that are never used")

    def read_file(
        self,
        path: PathText,
        start: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int | None, Field(ge=1)] = None,
    ) -> dict[str, Any]:
        """Read a text file, all of it or some lines. Of other files the type and size are told.

        Args:
            path: The file, from the root of the folder.
            start: The first line, counted from 1.
            lines: How many lines; all that follow where it is left out.
        """
        self._check(path)
        whole = content.read(self._root, path)
        text = content.text_of(whole)
        shown = {"path": path, "size": len(whole), "hash": content.digest(whole)}
        if text is None:
            return {**shown, "type": mimetypes.guess_type(path)[0] or "application/octet-stream", "binary": True}
        split = text.splitlines(keepends=True)
        piece = "".join(split[start - 1 : None if lines is None else start - 1 + lines])
        cut = piece.encode()[: content.SHOWN].decode(errors="ignore")
        return {**shown, "text": cut, "start": start, "total_lines": len(split), "truncated": len(cut) < len(piece)}

    def write_file(self, path: PathText, content: str, overwrite: bool = False) -> dict[str, Any]:
        """Write a whole text file; folders on its way are made. An existing file is replaced only with overwrite.

        Args:
            path: The file, from the root of the folder.
            content: All that the file shall hold.
            overwrite: Replace a file that exists.
        """
        return self._put(path, _encoded(content), overwrite=overwrite)

    def edit_file(
        self,
        path: PathText,
        edits: Annotated[list[Edit], Field(min_length=1, max_length=100)],
        if_hash: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Change parts of a text file. Each old text has to be in the file exactly once; all edits are made, or none.

        Args:
            path: The file, from the root of the folder.
            edits: The replacements, made one after the other.
            if_hash: The hash that read_file gave; the file is left alone if it changed since.
            dry_run: Only tell what would change.
        """
        self._check(path, write=True)
        with self._writing:
            before = content.read(self._root, path, self._quota.file_bytes)
            text = content.text_of(before)
            if if_hash is not None and if_hash != content.digest(before):
                raise ToolFailure("failed", "The file changed since it was read", hint="Read it again, then edit.")
            if text is None:
                raise ToolFailure("failed", f"{path} is no text file")
            after = content.edited(text, [(edit["old"], edit["new"]) for edit in edits])
            report = {"path": path, "diff": content.difference(path, text, after)}
            if dry_run:
                return {**report, "written": False}
            return {**report, "written": True, **self._put(path, _encoded(after), overwrite=True, locked=True)}

    def _put(self, path: str, whole: bytes, *, overwrite: bool, locked: bool = False) -> dict[str, Any]:
        self._check(path, write=True)
        if not locked:
            with self._writing:
                return self._put(path, whole, overwrite=overwrite, locked=True)
        content.check_room(self._root, path, len(whole), self._quota)
        content.write(self._root, path, whole, overwrite=overwrite)
        return {"path": path, "size": len(whole), "hash": content.digest(whole)}

    def list_dir(self, path: PathText = ".") -> dict[str, Any]:
        """List what is in a folder: names, types and sizes.

        Args:
            path: The folder; the root if it is left out.
        """
        self._check(path)
        entries: list[dict[str, Any]] = []
        with self._root.folder(path) as at, os.scandir(at) as scanned:
            for entry in scanned:
                status = entry.stat(follow_symlinks=False)
                entries.append({"name": entry.name, "type": kind(status), "size": status.st_size})
                if len(entries) > _LISTED:
                    break
        entries.sort(key=lambda entry: str(entry["name"]))
        return {"path": path, "entries": entries[:_LISTED], "truncated": len(entries) > _LISTED}

    def glob(
        self, ctx: Context, pattern: Annotated[str, Field(max_length=1000)], path: PathText = "."
    ) -> dict[str, Any]:
        """Find files by name: *.md at any depth, src/*.py in one folder, src/**/*.py in all below it.

        Args:
            pattern: The pattern, from the folder to look in.
            path: The folder to look in; the root if it is left out.
        """
        self._check(path)
        test, readable = files_search.named(pattern), FileGrants(ctx, self._root.path)
        matches: list[str] = []
        with self._root.folder(path):
            pass  # says what is wrong with it
        for place, status in self._root.walk(path):
            ctx.check()
            below = place if path == "." else place.removeprefix(f"{path}/")
            if stat.S_ISREG(status.st_mode) and test(below) and readable(place):
                matches.append(place)
                if len(matches) > _LISTED:
                    break
        return {"files": matches[:_LISTED], "truncated": len(matches) > _LISTED}

    def grep(
        self,
        ctx: Context,
        pattern: Annotated[str, Field(min_length=1, max_length=1000)],
        path: PathText = ".",
        glob: Annotated[str | None, Field(max_length=1000)] = None,
        max_matches: Annotated[int, Field(ge=1, le=1000)] = 100,
    ) -> dict[str, Any]:
        """Find lines that an expression matches, in a file or in all files of a folder.

        Args:
            pattern: A regular expression, without look-around and references back.
            path: The file or folder; the root if it is left out.
            glob: Look only in files with such names, for example *.py.
            max_matches: How many lines at the most.
        """
        self._check(path)
        spared = FileGrants(ctx, self._root.path)
        search = files_search.Search(
            self._root, lambda place: not self._unreadable(place) and spared(place), max_matches
        )
        wanted = (lambda place: True) if glob is None else files_search.named(glob)
        search.below(path, files_search.expression(pattern), wanted)
        return {"matches": search.matches, "files": search.files, "stopped_by": search.ended}

    def move_file(self, source: PathText, destination: PathText, overwrite: bool = False) -> dict[str, Any]:
        """Move or rename a file or folder. An existing file is replaced only with overwrite.

        Args:
            source: What to move.
            destination: Its new path.
            overwrite: Replace a file that exists there.
        """
        for path in (source, destination):
            self._check(path, write=True)
        with self._writing, self._root.parent(source) as (at, name):
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)) or name == ".":
                raise ToolFailure("denied", f"{source} is no ordinary file or folder")
            with self._root.parent(destination, make=True) as (there, new):
                self._move((at, name), (there, new), destination, overwrite)
        return {"source": source, "destination": destination}

    def _move(self, source: tuple[int, str], target: tuple[int, str], path: str, overwrite: bool) -> None:
        (at, name), (there, new) = source, target
        with os_errors(path):
            try:
                status = os.stat(new, dir_fd=there, follow_symlinks=False)
            except FileNotFoundError:
                status = None
            if status is not None and not (overwrite and stat.S_ISREG(status.st_mode)):
                hint = "Set overwrite to replace it." if stat.S_ISREG(status.st_mode) else None
                raise ToolFailure("failed", f"{path} exists already", hint=hint)
            os.rename(name, new, src_dir_fd=at, dst_dir_fd=there)

    def delete_file(self, path: PathText) -> dict[str, Any]:
        """Delete a file, or an empty folder. It cannot be brought back.

        Args:
            path: The file, from the root of the folder.
        """
        self._check(path, write=True)
        with self._writing, self._root.parent(path) as (at, name), os_errors(path):
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if name == ".":
                raise ToolFailure("denied", "The folder itself cannot be deleted")
            if stat.S_ISDIR(status.st_mode):
                os.rmdir(name, dir_fd=at)
            elif stat.S_ISREG(status.st_mode):
                os.unlink(name, dir_fd=at)
            else:
                raise ToolFailure("denied", f"{path} is {kind(status)}, and no ordinary file")
        return {"path": path, "deleted": True}

    def file_info(self, path: PathText) -> dict[str, Any]:
        """Tell type, size and time of the last change of a file or folder.

        Args:
            path: The file or folder, from the root of the folder.
        """
        self._check(path)
        status = self._root.status(path)
        changed = datetime.fromtimestamp(int(status.st_mtime), UTC).isoformat()
        return {"path": path, "type": kind(status), "size": status.st_size, "modified": changed}


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolFailure("invalid_arguments", "The text holds half of a pair of characters") from None

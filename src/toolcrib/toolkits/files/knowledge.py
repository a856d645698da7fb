"""What to know of the tools for files: how they are used, and what usually goes wrong."""

from __future__ import annotations

from typing import Any

from toolcrib.types import AntiPattern, Example

_PATHS = [
    AntiPattern("leads out of the folder", "Use paths from the root of the folder, without / in front and without .."),
    AntiPattern("is closed: its name", "Files with secrets are never opened here. Go on without it."),
    AntiPattern("There is no", "Look with list_dir or glob which files there are."),
    AntiPattern("became a link", "Somebody changes the folder meanwhile. Look at it again before you go on."),
]
_EDIT = {"path": "notes.md", "edits": [{"old": "- [ ] call Ada", "new": "- [x] call Ada"}]}

KNOWN: dict[str, dict[str, Any]] = {
    "read_file": {
        "examples": [
            Example({"path": "notes.md"}, "All of it"),
            Example({"path": "src/app.py", "start": 100, "lines": 50}, "Lines 100 to 149"),
        ],
        "anti_patterns": [*_PATHS, AntiPattern("is a folder", "Use list_dir for folders.")],
    },
    "write_file": {
        "examples": [Example({"path": "notes/today.md", "content": "# Today\n"}, "A new file")],
        "anti_patterns": [
            *_PATHS,
            AntiPattern("exists already", "Use edit_file to change parts of it."),
            AntiPattern("may hold", "The folder is full. Ask before you delete anything."),
        ],
    },
    "edit_file": {
        "examples": [Example(_EDIT, "Tick a box"), Example({**_EDIT, "dry_run": True}, "See it first")],
        "anti_patterns": [
            *_PATHS,
            AntiPattern("is not in the file", "Read the file and copy the old text exactly, with its blanks."),
            AntiPattern("times", "Take more of the lines around it into the old text, so that it is there once."),
        ],
    },
    "list_dir": {"examples": [Example({}, "The root"), Example({"path": "src"})], "anti_patterns": _PATHS},
    "glob": {"examples": [Example({"pattern": "**/*.py"}, "All Python files")], "anti_patterns": _PATHS},
    "grep": {
        "examples": [Example({"pattern": r"def \w+_total", "path": "src", "glob": "*.py"}, "Some functions")],
        "anti_patterns": [
            *_PATHS,
            AntiPattern("cannot be used", "Write it without look-around, references back and huge repetitions."),
        ],
    },
    "move_file": {
        "examples": [Example({"source": "draft.md", "destination": "posts/first.md"})],
        "anti_patterns": _PATHS,
    },
    "delete_file": {"examples": [Example({"path": "old.txt"})], "anti_patterns": _PATHS},
    "file_info": {"examples": [Example({"path": "notes.md"})], "anti_patterns": _PATHS},
}

"""A client's file of settings: read, changed with a backup beside it, and put back."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolcrib.cli.clients import settings_text
from toolcrib.cli.clients.settings_text import Form
from toolcrib.cli.terminal import CommandError

BACKUP = ".before-toolcrib"


class SettingsFile:
    """One file of a client. Changes are made to its text, which is written by `save` alone."""

    def __init__(self, path: Path, form: Form) -> None:
        self.path = path
        self.form: Form = form
        self.backup = path.with_name(path.name + BACKUP)
        try:
            self._old = path.read_bytes() if path.exists() else None
            self.text = (self._old or b"").decode()
            self.data = settings_text.read(form, self.text)
            if not isinstance(self.data, dict):
                raise ValueError("it holds no settings")
            kept = self.backup.read_text() if self.backup.exists() else ""
            self.original = settings_text.read(form, kept)
        except OSError as error:
            raise CommandError(f"Cannot read {path}: {error.strerror}", "check its permissions", exit_code=1) from None
        except ValueError as error:
            raise self._unfit(error, "mend it first; nothing was changed") from None

    def put(self, path: settings_text.Path, value: Any) -> None:
        """Put a value into the text.

        Raises:
            CommandError: that would change something else.
        """
        try:
            self.text = settings_text.insert(self.form, self.text, path, value)
        except ValueError as error:
            shown = settings_text.fragment(self.form, path, value)
            raise self._unfit(error, f"write this into it yourself:\n{shown}") from None
        self.data = settings_text.read(self.form, self.text)

    def remove(self, path: settings_text.Path) -> None:
        """Remove a value from the text, and what it leaves empty and the backup does not have.

        Raises:
            CommandError: that would change something else.
        """
        try:
            self.text = settings_text.remove(self.form, self.text, path)
        except ValueError as error:
            raise self._unfit(error, f"take {'.'.join(map(str, path))} out yourself") from None
        self.data = settings_text.read(self.form, self.text)
        above = path[:-1]
        if above and value_at(self.data, above) in ({}, []) and value_at(self.original, above) is None:
            self.remove(above)

    def save(self, *, fresh: bool = True, private: bool = False) -> Path | None:
        """Write the file; return the backup of what was there, if anything was. Only a `fresh` one is kept so."""
        from toolcrib.definitions.migration import put

        try:
            if self._old is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.touch(0o600 if private else 0o666)
            elif fresh and not self.backup.exists():
                shutil.copy2(self.path, self.backup)
            put(self.path.resolve(), self.text.encode())
        except OSError as error:
            raise CommandError(
                f"Cannot write {self.path}: {error.strerror}", "check its permissions", exit_code=1
            ) from None
        return self.backup if self.backup.exists() else None

    def restore(self) -> str:
        """Write the file after ours was removed; where all else is as in the backup, that is put back as it was."""
        kept = self.backup.read_bytes() if self.backup.exists() else None
        if kept is None and not settings_text.pruned(self.data):
            self.path.unlink()
            return "removed"
        if kept is not None and settings_text.pruned(self.original) == settings_text.pruned(self.data):
            from toolcrib.definitions.migration import put

            put(self.path.resolve(), kept)
            self.backup.unlink()
            return "restored"
        self.save(fresh=False)
        return "changed"

    def _unfit(self, error: Exception, advice: str) -> CommandError:
        names = {"json": "JSON", "toml": "TOML", "yaml": "YAML"}
        return CommandError(f"{self.path} ({names[self.form]}): {error}", advice, exit_code=1)


def value_at(data: Any, path: Sequence[str | int]) -> Any:
    """Return what stands at a path, or None."""
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data

"""A folder of documentation, found by its words."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from toolcrib.errors import BadTool
from toolcrib.types import AntiPattern, Example

_KINDS = (".md", ".markdown", ".rst", ".txt")
_LARGEST = 1024 * 1024
_SHOWN = 1500
_TABLE = "CREATE VIRTUAL TABLE pages USING fts5(category UNINDEXED, title, content, tokenize = 'porter unicode61')"
_QUERY = "SELECT category, title, content, -bm25(pages, 0, 5, 1) FROM pages WHERE pages MATCH ? ORDER BY 4 DESC LIMIT ?"

Limit = Annotated[int, Field(ge=1, le=10)]


class Documents:
    """Pages by their sections; they are read when the first search is made."""

    DATA: ClassVar[dict[str, Any]] = {
        "examples": [Example({"query": "retry limits"}, "What is said of it")],
        "anti_patterns": [AntiPattern("No documentation found", "Search for other or fewer words.")],
    }

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise BadTool("search", "docs", f"there is no folder {self._folder}")
        self._database: sqlite3.Connection | None = None
        self._reading = threading.Lock()

    def search_docs(self, query: Annotated[str, Field(min_length=1, max_length=400)], limit: Limit = 3) -> str:
        """Search the documentation, and give the sections that fit best.

        Args:
            query: The words to look for.
            limit: How many sections.
        """
        sections = self.find(query, limit)
        if not sections:
            return f"No documentation found for query: '{query}'"
        return "\n\n".join(
            f"[{category}] {title} ({score:.2f})\n{text[:_SHOWN]}" for category, title, text, score in sections
        )

    def find(self, query: str, limit: int) -> list[tuple[str, str, str, float]]:
        """The sections that fit best: category, title, content and how well."""
        words = re.findall(r"\w+", query)
        with self._reading:
            terms = " OR ".join(f'"{word}"' for word in words)
            return self._pages().execute(_QUERY, (terms, limit)).fetchall() if words else []

    def close(self) -> None:
        """Forgets the pages, which are read again when somebody searches again."""
        with self._reading:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _pages(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = sqlite3.connect(":memory:", check_same_thread=False)
            with closing(self._database.cursor()) as cursor:
                cursor.execute(_TABLE)
                cursor.executemany("INSERT INTO pages VALUES (?, ?, ?)", self._sections())
        return self._database

    def _sections(self) -> list[tuple[str, str, str]]:
        sections: list[tuple[str, str, str]] = []
        for path in sorted(self._folder.rglob("*")):
            if path.suffix in _KINDS and path.is_file() and path.stat().st_size <= _LARGEST:
                category = path.parent.name if path.parent != self._folder else self._folder.resolve().name
                text = path.read_text("utf-8", errors="replace")
                for section in re.split(r"^(?=#{1,6} )", text, flags=re.MULTILINE):
                    heading = re.match(r"#{1,6} (.*)\n?", section)
                    body = section if heading is None else section[heading.end() :]
                    if section.strip():
                        sections.append((category, path.stem if heading is None else heading[1].strip(), body.strip()))
        return sections

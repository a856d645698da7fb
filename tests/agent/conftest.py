"""Every test that takes `place` runs over each store that a single process can use."""

from tests.sessions.conftest import _patience, file_place, place

__all__ = ["_patience", "file_place", "place"]

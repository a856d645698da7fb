"""Sessions in the archive."""

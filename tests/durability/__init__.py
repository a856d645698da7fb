"""Processes that are really killed: what was told stays, what may happen once happens once."""

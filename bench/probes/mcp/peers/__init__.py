"""Servers of others, each run in an environment of its own; they import nothing of ours but `serving`."""

"""A server with many readers, of whom some never read: what it costs in memory, and whether others notice."""

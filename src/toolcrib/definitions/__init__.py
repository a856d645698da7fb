"""Tools that a YAML file describes: what to run, what is checked before, and what people learned about it."""

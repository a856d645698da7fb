"""`toolcrib tools` for definition files."""

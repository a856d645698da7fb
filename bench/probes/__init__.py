"""Measurements of our own, each run as `python -m bench.probes.<name>`; the last line printed is its result as JSON."""

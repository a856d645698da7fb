"""`crib.yaml` as the command line reads and writes it."""

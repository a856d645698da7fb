"""Faults put into copies of the source, one at a time, to see whether the tests would notice: `make mutants`."""

"""Tests of the chain toolkits, on a real chain."""

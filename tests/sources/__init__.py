"""Tests of `toolcrib.sources`."""

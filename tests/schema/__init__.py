"""Tests of `toolcrib.schema`."""

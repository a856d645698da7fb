"""Measurements of two owners that share a server."""

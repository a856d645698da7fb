"""Measurements of the HTTP server, beside its peers and a bare limit."""

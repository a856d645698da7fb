"""Measurements of the MCP server, beside its peers and bare limits."""

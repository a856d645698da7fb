"""The configuration of desktop clients and coding agents: where each keeps it, and how it is changed."""
